/* backends/vulkan/modules.c -- derives the bfloat16 variants of compiled modules. */
#include <pthread.h>
#include <string.h>

#include "backends/vulkan/cores.h"
#include "weft/memory.h"

/* Constants of SPIR-V. */
enum {
    HEADER = 5,
    OP_EXTENSION = 10,
    OP_EXT_INST_IMPORT = 11,
    OP_MEMORY_MODEL = 14,
    OP_CAPABILITY = 17,
    OP_TYPE_FLOAT = 22,
    CAPABILITY_FLOAT16 = 9,
    CAPABILITY_BFLOAT16_TYPE = 5116,
    CAPABILITY_BFLOAT16_MATRIX = 5118,
    ENCODING_BFLOAT16 = 0,
    EXTENSION_WORDS = 5, /* "SPV_KHR_bfloat16" */
    GROWTH = 16          /* most words that the variant has in addition */
};

enum { MAX_TWINS = 16 };

typedef struct twin {
    const weft__vulkan_shader *of;
    weft__vulkan_shader shader;
} twin;

static struct {
    pthread_mutex_t lock;
    twin all[MAX_TWINS];
    int n;
} twins = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void put(uint32_t *out, size_t *n, const uint32_t *words, size_t count)
{
    memcpy(out + *n, words, count * sizeof *words);
    *n += count;
}

static void put_extension(uint32_t *out, size_t *n)
{
    out[(*n)++] = (EXTENSION_WORDS + 1) << 16 | OP_EXTENSION;
    memset(out + *n, 0, EXTENSION_WORDS * sizeof *out);
    memcpy(out + *n, "SPV_KHR_bfloat16", 16);
    *n += EXTENSION_WORDS;
}

/* Writes the variant to `out`; returns its number of words. */
static size_t convert(const weft__vulkan_shader *from, uint32_t *out)
{
    static const uint32_t capabilities[] = {2 << 16 | OP_CAPABILITY, CAPABILITY_BFLOAT16_TYPE,
                                            2 << 16 | OP_CAPABILITY, CAPABILITY_BFLOAT16_MATRIX};
    size_t n = 0;
    bool extended = false;
    put(out, &n, from->words, HEADER);
    for (size_t at = HEADER; at < from->n_words;) {
        const uint32_t *word = from->words + at;
        const uint32_t op = word[0] & 0xffff, count = word[0] >> 16;
        if (op == OP_CAPABILITY && word[1] == CAPABILITY_FLOAT16) {
            put(out, &n, capabilities, 4);
        } else if (op == OP_TYPE_FLOAT && word[2] == 16) {
            const uint32_t type[] = {4 << 16 | OP_TYPE_FLOAT, word[1], 16, ENCODING_BFLOAT16};
            put(out, &n, type, 4);
        } else {
            if (!extended &&
                (op == OP_EXTENSION || op == OP_EXT_INST_IMPORT || op == OP_MEMORY_MODEL)) {
                put_extension(out, &n);
                extended = true;
            }
            put(out, &n, word, count);
        }
        at += count ? count : from->n_words;
    }
    return n;
}

static const weft__vulkan_shader *find_or_make(const weft__vulkan_shader *float16)
{
    for (int i = 0; i < twins.n; i++) {
        if (twins.all[i].of == float16) {
            return &twins.all[i].shader;
        }
    }
    uint32_t *words =
        twins.n < MAX_TWINS ? weft_malloc((float16->n_words + GROWTH) * sizeof *words) : NULL;
    if (!words) {
        weft_fail(WEFT_MEMORY, "vulkan: out of memory");
        return NULL;
    }
    twin *t = &twins.all[twins.n++];
    t->of = float16;
    t->shader = *float16;
    t->shader.words = words;
    t->shader.n_words = convert(float16, words);
    return &t->shader;
}

const weft__vulkan_shader *weft__vulkan_module_for(const weft__vulkan_shader *float16,
                                                   weft_dtype dtype)
{
    if (dtype == WEFT_FLOAT16) {
        return float16;
    }
    pthread_mutex_lock(&twins.lock);
    const weft__vulkan_shader *shader = find_or_make(float16);
    pthread_mutex_unlock(&twins.lock);
    return shader;
}
