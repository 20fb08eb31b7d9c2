/* backends/vulkan/spirv/words.h -- a growing buffer of SPIR-V words. */
#ifndef BACKENDS_VULKAN_SPIRV_WORDS_H
#define BACKENDS_VULKAN_SPIRV_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weft/memory.h"

typedef struct spirv_words {
    uint32_t *at;
    size_t n, capacity;
    bool failed; /* out of memory: later additions were lost */
} spirv_words;

static inline void spirv_add(spirv_words *w, const uint32_t *from, size_t n)
{
    if (w->n + n > w->capacity) {
        size_t capacity = 2 * (w->n + n) + 64;
        uint32_t *grown = w->failed ? NULL : weft_realloc(w->at, capacity * sizeof *grown);
        if (!grown) {
            w->failed = true;
            return;
        }
        w->at = grown;
        w->capacity = capacity;
    }
    if (n > 0) {
        memcpy(w->at + w->n, from, n * sizeof *from);
    }
    w->n += n;
}

/* Appends an instruction with `n` operands. */
static inline void spirv_emit(spirv_words *w, uint32_t opcode, const uint32_t *operands, size_t n)
{
    uint32_t first = (uint32_t)(n + 1) << 16 | opcode;
    spirv_add(w, &first, 1);
    spirv_add(w, operands, n);
}

#define SPIRV_EMIT(w, opcode, ...)                                                                 \
    spirv_emit(w, opcode, (const uint32_t[]){__VA_ARGS__},                                         \
               sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

#endif
