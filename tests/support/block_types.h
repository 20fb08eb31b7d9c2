/* tests/support/block_types.h -- the block types of GGUF files, and random blocks. */
#ifndef TESTS_SUPPORT_BLOCK_TYPES_H
#define TESTS_SUPPORT_BLOCK_TYPES_H

#include <stdint.h>

/* A type, and the offsets of the float16 numbers in its block; -1: no second one. */
typedef struct block_type {
    const char *name;
    int halves[2];
} block_type;

static const block_type block_types[] = {
    {"q4_0", {0, -1}},   {"q4_1", {0, 2}},    {"q5_0", {0, -1}},   {"q5_1", {0, 2}},
    {"q8_0", {0, -1}},   {"q2_k", {80, 82}},  {"q3_k", {108, -1}}, {"q4_k", {0, 2}},
    {"q5_k", {0, 2}},    {"q6_k", {208, -1}}, {"iq4_nl", {0, -1}}, {"iq4_xs", {0, -1}},
    {"gguf_mxfp4", {-1}}};
enum { N_BLOCK_TYPES = sizeof block_types / sizeof *block_types };

/* Fills n bytes with random blocks. The high bytes of their float16 scales are `exponent` and up to
 * 4 more: with 0x18 scales are 2^-9 to 2^-7. Scales of other types are powers of two. */
static inline void block_fill(uint8_t *bytes, int64_t n, const block_type *type,
                              int64_t block_bytes, int exponent, uint32_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(*state >> 24);
    }
    for (int64_t at = 0; at < n; at += block_bytes) {
        for (int h = 0; h < 2 && type->halves[h] >= 0; h++)
            bytes[at + type->halves[h] + 1] = (uint8_t)(exponent + bytes[at] % 4 + h);
        if (type->halves[0] < 0)
            bytes[at] = (uint8_t)(118 + at % 5);
    }
}

#endif
