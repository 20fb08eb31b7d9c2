/* backends/vulkan/spirv/library.c -- reads the library module and links it with a written main.
 *
 * A linked module keeps the library's ids: the declarations and functions that main reaches are
 * copied unchanged, and only the library's main is replaced.
 */
#include "backends/vulkan/spirv/library.h"

#include <pthread.h>

#include "backends/vulkan/shaders.h"
#include "backends/vulkan/spirv/opcodes.h"

struct spirv_library {
    const uint32_t *words;
    uint32_t n, bound;
    uint32_t declarations, functions; /* start of the types, start of the functions */
    uint32_t entry;                   /* position of OpEntryPoint */
    uint32_t *definition; /* per id: position of its declaration; 0: within a function */
};

static uint32_t opcode_at(const spirv_library *l, uint32_t at)
{
    return l->words[at] & 0xffffu;
}

static uint32_t length_at(const spirv_library *l, uint32_t at)
{
    return l->words[at] >> 16;
}

/* ---- operands of instructions ---------------------------------------------------------------- */

/* 'i' for an id, '.' for anything else; the last letter repeats. */
static const char *operands_of(uint32_t opcode)
{
    switch (opcode) {
    case SPIRV_OP_TYPE_INT:
    case SPIRV_OP_TYPE_FLOAT:
    case SPIRV_OP_SELECTION_MERGE:
    case SPIRV_OP_DECORATE:
    case SPIRV_OP_MEMBER_DECORATE:
    case SPIRV_OP_TYPE_FORWARD_POINTER:
        return "i.";
    case SPIRV_OP_TYPE_VECTOR:
    case SPIRV_OP_CONSTANT:
    case SPIRV_OP_LOOP_MERGE:
    case SPIRV_OP_STORE:
        return "ii.";
    case SPIRV_OP_LOAD:
    case SPIRV_OP_BRANCH_CONDITIONAL:
    case SPIRV_OP_COMPOSITE_EXTRACT:
        return "iii.";
    case SPIRV_OP_VECTOR_SHUFFLE:
    case SPIRV_OP_COMPOSITE_INSERT:
        return "iiii.";
    case SPIRV_OP_TYPE_POINTER:
        return "i.i";
    case SPIRV_OP_VARIABLE:
    case SPIRV_OP_FUNCTION:
        return "ii.i";
    case SPIRV_OP_EXT_INST:
        return "iii.i";
    default:
        return "i";
    }
}

/* The position within an instruction of the id that it defines; 0: none. */
static uint32_t result_of(uint32_t opcode)
{
    switch (opcode) {
    case SPIRV_OP_EXT_INST_IMPORT:
        return 1;
    case SPIRV_OP_TYPE_FORWARD_POINTER:
        return 0;
    default:
        return opcode >= SPIRV_OP_TYPE_VOID && opcode < SPIRV_OP_TYPE_FORWARD_POINTER ? 1 : 2;
    }
}

/* ---- reading the library -------------------------------------------------------------------- */

static void read_module(spirv_library *l)
{
    uint32_t at = SPIRV_HEADER_WORDS;
    for (; at < l->n && opcode_at(l, at) != SPIRV_OP_FUNCTION; at += length_at(l, at)) {
        uint32_t opcode = opcode_at(l, at);
        bool declares = opcode >= SPIRV_OP_TYPE_VOID && opcode < SPIRV_OP_DECORATE;
        l->entry = opcode == SPIRV_OP_ENTRY_POINT ? at : l->entry;
        l->declarations = declares && !l->declarations ? at : l->declarations;
        if ((declares || opcode == SPIRV_OP_EXT_INST_IMPORT) && result_of(opcode)) {
            l->definition[l->words[at + result_of(opcode)]] = at;
        }
    }
    l->functions = at;
    for (; at < l->n; at += length_at(l, at)) {
        if (opcode_at(l, at) == SPIRV_OP_FUNCTION) {
            l->definition[l->words[at + 2]] = at;
        }
    }
}

const spirv_library *weft__spirv_library(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static spirv_library library;
    pthread_mutex_lock(&lock);
    if (!library.words) {
        const weft__vulkan_shader *shader = &weft__shader_library;
        library.bound = shader->words[SPIRV_BOUND];
        library.definition = weft_calloc(library.bound, sizeof *library.definition);
        if (library.definition) {
            library.n = (uint32_t)shader->n_words;
            library.words = shader->words;
            read_module(&library);
        }
    }
    pthread_mutex_unlock(&lock);
    if (!library.words) {
        weft_fail(WEFT_MEMORY, "vulkan: out of memory");
        return NULL;
    }
    return &library;
}

uint32_t weft__spirv_bound(const spirv_library *l)
{
    return l->bound;
}

uint32_t weft__spirv_find(const spirv_library *l, const char *name)
{
    size_t length = strlen(name);
    bool whole = name[length - 1] == ';';
    for (uint32_t at = SPIRV_HEADER_WORDS; at < l->declarations; at += length_at(l, at)) {
        if (opcode_at(l, at) == SPIRV_OP_NAME && l->definition[l->words[at + 1]] >= l->functions) {
            const char *text = (const char *)(l->words + at + 2); /* padded with zeros */
            if (strncmp(text, name, length) == 0 && (!whole || text[length] == 0)) {
                return l->words[at + 1];
            }
        }
    }
    return 0;
}

uint32_t weft__spirv_result(const spirv_library *l, uint32_t function)
{
    return l->words[l->definition[function] + 1];
}

uint32_t weft__spirv_parameter(const spirv_library *l, uint32_t function, int i)
{
    uint32_t type = l->words[l->definition[function] + 4];
    return l->words[l->definition[type] + 3 + (uint32_t)i];
}

/* ---- linking -------------------------------------------------------------------------------- */

typedef struct linking {
    const spirv_library *library;
    bool *reached; /* per id */
} linking;

static void reach(linking *k, uint32_t id);

static void reach_operands(linking *k, uint32_t at)
{
    const uint32_t *words = k->library->words;
    const char *kind = operands_of(words[at] & 0xffffu);
    for (uint32_t i = 1; i < words[at] >> 16; i++) {
        if (*kind == 'i') {
            reach(k, words[at + i]);
        }
        kind += kind[1] != 0;
    }
}

/* Marks an id, and everything that its declaration, or its function, refers to. */
static void reach(linking *k, uint32_t id)
{
    const spirv_library *l = k->library;
    if (id >= l->bound || k->reached[id]) {
        return;
    }
    k->reached[id] = true;
    uint32_t at = l->definition[id];
    if (at >= l->functions) {
        for (; opcode_at(l, at) != SPIRV_OP_FUNCTION_END; at += length_at(l, at)) {
            reach_operands(k, at);
        }
    } else if (at >= l->declarations) {
        reach_operands(k, at);
    }
}

/* The entry point keeps its id and lists all global variables. */
static void reach_main(linking *k, const spirv_main *main)
{
    const spirv_library *l = k->library;
    uint32_t entry = l->words[l->entry + 2];
    uint32_t at = l->definition[entry];
    k->reached[entry] = true;
    reach(k, l->words[at + 1]);
    reach(k, l->words[at + 4]);
    uint32_t name_words = (uint32_t)strlen((const char *)(l->words + l->entry + 3)) / 4 + 1;
    for (uint32_t i = 3 + name_words; i < length_at(l, l->entry); i++) {
        reach(k, l->words[l->entry + i]);
    }
    const spirv_words *pieces[] = {&main->constants, &main->body};
    for (int p = 0; p < 2; p++) {
        const uint32_t *words = pieces[p]->at;
        for (size_t i = 0; i < pieces[p]->n; i += words[i] >> 16) {
            const char *kind = operands_of(words[i] & 0xffffu);
            for (uint32_t j = 1; j < words[i] >> 16; j++, kind += kind[1] != 0) {
                if (*kind == 'i') {
                    reach(k, words[i + j]);
                }
            }
        }
    }
}

/* Device features that the reached types need. */
typedef struct needs {
    bool float64, int64, int8;
} needs;

static needs find_needs(const linking *k)
{
    const spirv_library *l = k->library;
    needs n = {0};
    for (uint32_t at = l->declarations; at < l->functions; at += length_at(l, at)) {
        uint32_t opcode = opcode_at(l, at), width = l->words[at + 2];
        if (opcode == SPIRV_OP_TYPE_FLOAT && k->reached[l->words[at + 1]]) {
            n.float64 |= width == 64;
        } else if (opcode == SPIRV_OP_TYPE_INT && k->reached[l->words[at + 1]]) {
            n.int64 |= width == 64;
            n.int8 |= width == 8;
        }
    }
    return n;
}

static void add_capabilities(spirv_words *out, needs n)
{
    SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_SHADER);
    SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_STORAGE16);
    SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_ADDRESSES);
    if (n.float64) {
        SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_FLOAT64);
    }
    if (n.int64) {
        SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_INT64);
    }
    if (n.int8) {
        SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, SPIRV_STORAGE8);
    }
}

/* Copies the section from the imports to the global variables. */
static void add_declarations(const linking *k, spirv_words *out)
{
    const spirv_library *l = k->library;
    for (uint32_t at = SPIRV_HEADER_WORDS; at < l->functions; at += length_at(l, at)) {
        uint32_t opcode = opcode_at(l, at);
        bool kept;
        switch (opcode) {
        case SPIRV_OP_MEMORY_MODEL:
        case SPIRV_OP_ENTRY_POINT:
        case SPIRV_OP_EXECUTION_MODE:
            kept = true;
            break;
        case SPIRV_OP_DECORATE:
        case SPIRV_OP_MEMBER_DECORATE:
        case SPIRV_OP_TYPE_FORWARD_POINTER:
            kept = k->reached[l->words[at + 1]];
            break;
        case SPIRV_OP_EXT_INST_IMPORT:
            kept = true;
            break;
        default:
            kept = at >= l->declarations && k->reached[l->words[at + result_of(opcode)]];
        }
        if (kept) {
            spirv_add(out, l->words + at, length_at(l, at));
        }
    }
}

static void add_functions(const linking *k, const spirv_main *main, spirv_words *out)
{
    const spirv_library *l = k->library;
    uint32_t entry = l->words[l->entry + 2], begin = l->functions;
    for (uint32_t at = begin; at < l->n; at += length_at(l, at)) {
        if (opcode_at(l, at) != SPIRV_OP_FUNCTION_END) {
            continue;
        }
        uint32_t end = at + length_at(l, at), id = l->words[begin + 2];
        if (id == entry) {
            spirv_add(out, l->words + begin, length_at(l, begin));
            SPIRV_EMIT(out, SPIRV_OP_LABEL, main->label);
            spirv_add(out, main->body.at, main->body.n);
            spirv_emit(out, SPIRV_OP_FUNCTION_END, NULL, 0);
        } else if (k->reached[id]) {
            spirv_add(out, l->words + begin, end - begin);
        }
        begin = end;
    }
}

void weft__spirv_link(const spirv_library *l, const spirv_main *main, spirv_words *out)
{
    linking k = {l, weft_calloc(l->bound, sizeof *k.reached)};
    if (!k.reached || main->constants.failed || main->body.failed) {
        out->failed = true;
        weft_free(k.reached);
        return;
    }
    reach_main(&k, main);
    needs n = find_needs(&k);
    const uint32_t header[SPIRV_HEADER_WORDS] = {SPIRV_MAGIC, l->words[1], 0, main->bound, 0};
    spirv_add(out, header, SPIRV_HEADER_WORDS);
    add_capabilities(out, n);
    add_declarations(&k, out);
    spirv_add(out, main->constants.at, main->constants.n);
    add_functions(&k, main, out);
    weft_free(k.reached);
}
