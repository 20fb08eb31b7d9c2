/* backends/vulkan/spirv/cache.c -- the table of shaders written at run time. Entries never move and
 * are never freed, since pipelines are cached by a shader's address. */
#include "backends/vulkan/spirv/cache.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 256 };

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    spirv_plan plan; /* `tape` points to the entry's own copy */
    weft_tape tape;
    weft__vulkan_shader shader;
} entry;

static struct {
    pthread_mutex_t lock;
    entry *buckets[BUCKETS];
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t add(uint64_t hash, uint64_t word)
{
    return (hash ^ word ^ word >> 32) * UINT64_C(0x100000001b3);
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t hash_of(const spirv_plan *p)
{
    const weft_tape *t = p->tape;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = add(hash, (uint64_t)t->klass << 8 | (uint64_t)t->n_operands);
    hash = add(hash, (uint64_t)p->out << 8 | (uint64_t)p->lanes << 16);
    for (int i = 0; i < p->n_in; i++) {
        hash = add(hash, (uint64_t)p->in[i] << 8 | (uint64_t)p->place[i] << 1 | p->splat[i]);
    }
    for (int i = 0; i < t->n_steps; i++) {
        const weft_tape_step *s = &t->steps[i];
        hash = add(hash, bits_of(s->constant));
        hash = add(hash, (uint64_t)s->code << 24 | (uint64_t)s->value[0] << 16 |
                             (uint64_t)s->value[1] << 8 | s->value[2]);
    }
    return hash ^ hash >> 29;
}

static bool same_tape(const weft_tape *a, const weft_tape *b)
{
    if (a->klass != b->klass || a->n_operands != b->n_operands || a->n_steps != b->n_steps) {
        return false;
    }
    for (int i = 0; i < a->n_steps; i++) {
        const weft_tape_step *x = &a->steps[i], *y = &b->steps[i];
        if (x->code != y->code || memcmp(x->value, y->value, sizeof x->value) != 0 ||
            bits_of(x->constant) != bits_of(y->constant)) {
            return false;
        }
    }
    return true;
}

static bool same_plan(const spirv_plan *a, const spirv_plan *b)
{
    if (a->n_in != b->n_in || a->out != b->out || a->lanes != b->lanes ||
        !same_tape(a->tape, b->tape)) {
        return false;
    }
    for (int i = 0; i < a->n_in; i++) {
        if (a->in[i] != b->in[i] || a->place[i] != b->place[i] || a->splat[i] != b->splat[i]) {
            return false;
        }
    }
    return true;
}

static entry *write_entry(const spirv_plan *plan, uint64_t hash)
{
    entry *e = weft_malloc(sizeof *e);
    if (!e) {
        weft_fail(WEFT_MEMORY, "vulkan: out of memory");
        return NULL;
    }
    spirv_words words = {0};
    if (!weft__spirv_write(plan, &words)) {
        weft_free(words.at);
        weft_free(e);
        return NULL;
    }
    *e = (entry){.hash = hash, .plan = *plan, .tape = *plan->tape};
    e->plan.tape = &e->tape;
    e->shader = (weft__vulkan_shader){"elementwise", words.at, words.n};
    return e;
}

const weft__vulkan_shader *weft__spirv_shader(const spirv_plan *plan)
{
    uint64_t hash = hash_of(plan);
    pthread_mutex_lock(&cache.lock);
    entry **bucket = &cache.buckets[hash % BUCKETS], *e = *bucket;
    while (e && (e->hash != hash || !same_plan(&e->plan, plan))) {
        e = e->next;
    }
    if (!e && (e = write_entry(plan, hash)) != NULL) {
        e->next = *bucket;
        *bucket = e;
    }
    pthread_mutex_unlock(&cache.lock);
    return e ? &e->shader : NULL;
}
