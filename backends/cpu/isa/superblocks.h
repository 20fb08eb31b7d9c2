/* backends/cpu/isa/superblocks.h -- decodes superblocks of 256 weights to float32.
 *
 * Codes are first joined from their bits, eight bytes at a time, into a byte each, and the scales
 * of all groups are computed; then every group is widened in the same way. Values must equal the
 * reference decoders bit for bit (tests/io/test_gguf.c).
 */
#ifndef BACKENDS_CPU_ISA_SUPERBLOCKS_H
#define BACKENDS_CPU_ISA_SUPERBLOCKS_H

#include "backends/cpu/isa/gemv_rows.h"

/* A superblock: the weights of group g are codes * scales.s[g] + scales.b[g]. */
typedef struct superblock {
    int8_t codes[SUPERBLOCK];
    group_scales scales;
} superblock;

typedef void read_superblock(const uint8_t *block, superblock *out);

/* Part of a run, as words and as bytes. */
enum { PART = LANES == 4 ? 16 : RUN };
typedef uint64_t part_words __attribute__((vector_size(PART), aligned(1), may_alias));
typedef int8_t part_bytes __attribute__((vector_size(PART)));

/* A byte, eight times. */
#define EIGHT(BYTE) ((uint64_t)0x0101010101010101 * (BYTE))

/* For 32 bytes: (low >> low_at & low_mask) | (high >> high_at & high_mask) << up, less `offset`. */
SIMD void join_bits(const uint8_t *low, int low_at, int low_mask, const uint8_t *high, int high_at,
                    int high_mask, int up, int offset, int8_t *out)
{
#pragma GCC unroll 2
    for (int i = 0; i < RUN; i += PART) {
        part_words codes = *(const part_words *)(low + i) >> low_at & EIGHT(low_mask);
        if (high)
            codes |= (*(const part_words *)(high + i) >> high_at & EIGHT(high_mask)) << up;
        const part_bytes bytes = (part_bytes)codes - (int8_t)offset;
        memcpy(out + i, &bytes, sizeof bytes);
    }
}

SIMD void read_q4_k(const uint8_t *p, superblock *out)
{
    k_scales(NULL, p, NULL, 8, &out->scales);
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        join_bits(p + 16 + r / 2 * RUN, r % 2 * 4, 15, NULL, 0, 0, 0, 0, out->codes + r * RUN);
}

SIMD void read_q5_k(const uint8_t *p, superblock *out)
{
    k_scales(NULL, p, NULL, 8, &out->scales);
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        join_bits(p + 48 + r / 2 * RUN, r % 2 * 4, 15, p + 16, r, 1, 4, 0, out->codes + r * RUN);
}

SIMD void read_q6_k(const uint8_t *p, superblock *out)
{
    const vf d = vset(half_at(p + 208));
#pragma GCC unroll 4
    for (int g = 0; g < CHUNK; g += LANES)
        vstore(out->scales.s + g, floats(vload_signed(p + 192 + g)) * d);
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        join_bits(p + r / 4 * 64 + r % 2 * RUN, r % 4 / 2 * 4, 15, p + 128 + r / 4 * RUN, r % 4 * 2,
                  3, 4, 32, out->codes + r * RUN);
}

SIMD void read_q2_k(const uint8_t *p, superblock *out)
{
    const vf d = vset(half_at(p + 80)), least = vset(half_at(p + 82));
#pragma GCC unroll 4
    for (int g = 0; g < CHUNK; g += LANES) {
        const vi both = vload_bytes(p + g);
        vstore(out->scales.s + g, floats(both & 15) * d);
        vstore(out->scales.b + g, -(floats(both >> 4) * least));
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        join_bits(p + 16 + r / 4 * RUN, r % 4 * 2, 3, NULL, 0, 0, 0, 0, out->codes + r * RUN);
}

SIMD void read_q3_k(const uint8_t *p, superblock *out)
{
    const float d = half_at(p + 108);
    for (int g = 0; g < CHUNK; g++) {
        const int low = p[96 + g % 8] >> g / 8 * 4 & 15, high = p[104 + g % 4] >> g / 4 * 2 & 3;
        out->scales.s[g] = d * (float)((low | high << 4) - 32);
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        join_bits(p + 32 + r / 4 * RUN, r % 4 * 2, 3, p, r, 1, 2, 4, out->codes + r * RUN);
}

/* Widens a superblock, whose groups have `group` weights. These are constants where it is inlined.
 */
SIMD void widen(const superblock *block, int group, bool minima, float *out)
{
#pragma GCC unroll 16
    for (int i = 0; i < SUPERBLOCK; i += group) {
        const vf s = vset(block->scales.s[i / group]);
        const vf b = minima ? vset(block->scales.b[i / group]) : (vf){0};
#pragma GCC unroll 8
        for (int l = i; l < i + group; l += LANES) {
            const vf product = apart(floats(vload_signed((const uint8_t *)block->codes + l)) * s);
            vstore(out + l, minima ? product + b : product);
        }
    }
}

SIMD void decode_superblocks(read_superblock *read, int group, bool minima, const cpu_codes *c,
                             const uint8_t *p, int64_t blocks, float *out)
{
    superblock block[2];
    if (blocks <= 0)
        return;
    read(p, &block[0]);
    for (int64_t i = 0; i < blocks; i++, out += SUPERBLOCK) {
        p += c->code_group;
        if (i + 1 < blocks)
            read(p, &block[(i + 1) % 2]); /* before this one is widened, which would wait for it */
        __asm__("" : "+m"(block)); /* or gcc widens codes from registers, at twice the length */
        widen(&block[i % 2], group, minima, out);
    }
}

#undef EIGHT

#endif
