/* backends/cpu/isa/amx_codes.h -- the codes of 16 rows of quantized weights as AMX tiles of
 * bfloat16, and their scales.
 *
 * Four bytes of each row, whose codes are looked up as pairs of bfloat16 numbers, become rows of a
 * tile. Codes of 8 bits are the sum of two numbers, in two tiles.
 */
#ifndef BACKENDS_CPU_ISA_AMX_CODES_H
#define BACKENDS_CPU_ISA_AMX_CODES_H

#include "backends/cpu/isa/amx.h"
#include "backends/cpu/isa/group_scales.h"
#include "backends/cpu/isa/transpose.h"

enum { BATCH = 8 }; /* steps whose scales are read together */

/* 16 rows of weights; after the last, it is read again. */
typedef struct panel {
    const uint8_t *codes[SIDE], *scale[SIDE], *bias[SIDE];
    const uint8_t *later; /* codes to prefetch */
} panel;

/* The tiles of two steps: pair `index` of the groups `at` bytes after the begin of each row. */
typedef void read_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out);

/* 16 bytes of each row: lane r of v[j] has the four from 4 j on of row r. Four lines are
 * prefetched, other ones for each `call` of a pair. */
SIMD void load_columns(const panel *p, int64_t at, int call, __m512i *v)
{
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __builtin_prefetch(p->later + (4 * call + i) * TILE_LINE, 0, 2);
        const __m128i first = _mm_loadu_si128((const void *)(p->codes[i] + at));
        q[i] = _mm512_castsi128_si512(first);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 4] + at)), 1);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 8] + at)), 2);
        q[i] = _mm512_inserti32x4(q[i], _mm_loadu_si128((const void *)(p->codes[i + 12] + at)), 3);
    }
    const __m512i low = _mm512_unpacklo_epi32(q[0], q[1]), high = _mm512_unpackhi_epi32(q[0], q[1]);
    const __m512i low2 = _mm512_unpacklo_epi32(q[2], q[3]);
    const __m512i high2 = _mm512_unpackhi_epi32(q[2], q[3]);
    v[0] = _mm512_unpacklo_epi64(low, low2);
    v[1] = _mm512_unpackhi_epi64(low, low2);
    v[2] = _mm512_unpacklo_epi64(high, high2);
    v[3] = _mm512_unpackhi_epi64(high, high2);
}

SIMD __m512i of_numbers(vf low, vf high)
{
    return (__m512i)join_along((vu)low, (vu)high);
}

/* The multiples of `factor` from that of `first` on, 32 of them; and 16 of them twice. */
SIMD __m512i multiples(int first, float factor)
{
    return of_numbers(floats(lane_numbers() + first) * factor,
                      floats(lane_numbers() + first + LANES) * factor);
}

SIMD __m512i multiples_twice(int first, float factor)
{
    const vf values = floats(lane_numbers() + first) * factor;
    return of_numbers(values, values);
}

/* The multiples of 16 from -8 to 7, in the order of a nibble with a sign. */
SIMD __m512i signed_sixteens(void)
{
    const vf values = floats((lane_numbers() ^ 8) - 8) * 16;
    return of_numbers(values, values);
}

SIMD __m512i float4(float factor)
{
    const vf values = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return of_numbers(values * factor, values * factor);
}

SIMD __m512i uneven(void)
{
    const vf values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return of_numbers(values, values);
}

/* Looks up the lowest five bits of each 16; a table of 16 values has them twice. */
SIMD void look_up(__m512i codes, __m512i table, uint32_t *out)
{
    _mm512_store_si512(out, _mm512_permutexvar_epi16(codes, table));
}

/* A step of 16 bytes of nibbles (BY_HALVES or BY_NIBBLES). */
SIMD void nibbles_step(const panel *p, int64_t at, int call, __m512i table, uint32_t *out)
{
    __m512i v[4];
    load_columns(p, at, call, v);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++)
            look_up(_mm512_srli_epi16(v[j], (unsigned)s * 4), table, out + (4 * j + s) * LANES);
}

/* Two groups, whose nibbles begin `at` bytes after the begin of a row. */
SIMD void nibbles_of(const cpu_codes *c, const panel *p, int64_t at, __m512i table, uint32_t *out)
{
    nibbles_step(p, at, 0, table, out);
    nibbles_step(p, at + c->code_group, 1, table, out + TILE);
}

/* Two tiles: the low nibbles of 32 bytes, and the high ones (BY_BYTES). */
SIMD void bytes_step(const panel *p, int64_t at, int call, __m512i low, __m512i high, uint32_t *out)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i v[4];
        load_columns(p, at + 16 * half, call + half, v);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, out += 2 * LANES) {
            look_up(v[j], low, out);
            look_up(_mm512_srli_epi16(v[j], 8), low, out + LANES);
            look_up(_mm512_srli_epi16(v[j], 4), high, out + TILE);
            look_up(_mm512_srli_epi16(v[j], 12), high, out + TILE + LANES);
        }
    }
}

SIMD void q8_0_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    bytes_step(p, at + 2, 0, multiples_twice(0, 1), signed_sixteens(), out);
    bytes_step(p, at + c->code_group + 2, 2, multiples_twice(0, 1), signed_sixteens(),
               out + 2 * TILE);
}

/* Where the second step of a pair begins: in the same affine group, or in the next of 32 weights.
 */
SIMD int64_t second(const cpu_codes *c, int64_t at, int64_t bytes)
{
    return at + (c->group == STEP ? c->code_group : bytes);
}

SIMD void affine8_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i low = multiples_twice(0, 1), high = multiples_twice(0, 16);
    at += index * 2 * STEP;
    bytes_step(p, at, 0, low, high, out);
    bytes_step(p, second(c, at, STEP), 2, low, high, out + 2 * TILE);
}

SIMD void affine4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    at += index * STEP;
    nibbles_step(p, at, 0, multiples_twice(0, 1), out);
    nibbles_step(p, second(c, at, STEP / 2), 1, multiples_twice(0, 1), out + TILE);
}

SIMD void mxfp4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at, float4(1), out);
}

SIMD void q4_0_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 2, multiples_twice(-8, 1), out);
}

SIMD void q4_1_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 4, multiples_twice(0, 1), out);
}

SIMD void iq4_nl_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 2, uneven(), out);
}

SIMD void gguf_mxfp4_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)index;
    nibbles_of(c, p, at + 1, float4(2), out);
}

SIMD void iq4_xs_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    (void)c;
    nibbles_step(p, at + 8 + index * STEP, 0, uneven(), out);
    nibbles_step(p, at + 8 + index * STEP + STEP / 2, 1, uneven(), out + TILE);
}

/* The low nibbles of 32 bytes are a step, the high ones the next. */
SIMD void q4_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i table = multiples_twice(0, 1);
    (void)c;
    bytes_step(p, at + 16 + index * STEP, 0, table, table, out);
}

/* The lowest four bits of low, and above them those of high, whose lowest is bit `from`. */
SIMD __m512i above(__m512i low, __m512i high, int from)
{
    const __m512i moved = from > 4 ? _mm512_srlv_epi16(high, _mm512_set1_epi16((short)(from - 4)))
                                   : _mm512_sllv_epi16(high, _mm512_set1_epi16((short)(4 - from)));
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(15), low, moved, 0xca);
}

SIMD void q5_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i table = multiples(0, 1);
    (void)c;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i v[4], high[4];
        load_columns(p, at + 48 + index * STEP + 16 * half, half, v);
        load_columns(p, at + 16 + 16 * half, 2 + half, high);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++, out += 2 * LANES) {
            const __m512i later = _mm512_srli_epi16(v[j], 8),
                          above8 = _mm512_srli_epi16(high[j], 8);
            look_up(above(v[j], high[j], 2 * index), table, out);
            look_up(above(later, above8, 2 * index), table, out + LANES);
            look_up(above(_mm512_srli_epi16(v[j], 4), high[j], 2 * index + 1), table, out + TILE);
            look_up(above(_mm512_srli_epi16(v[j], 12), above8, 2 * index + 1), table,
                    out + TILE + LANES);
        }
    }
}

SIMD void look_up_64(__m512i codes, uint32_t *out)
{
    _mm512_store_si512(out, _mm512_permutex2var_epi16(multiples(-32, 1), codes, multiples(0, 1)));
}

SIMD void q6_k_pair(const cpu_codes *c, const panel *p, int64_t at, int index, uint32_t *out)
{
    const __m512i nibble = _mm512_set1_epi16((short)(index % 2 * 4));
    (void)c;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i high[4];
        load_columns(p, at + 128 + index / 2 * STEP + 16 * half, half, high);
#pragma GCC unroll 2
        for (int step = 0; step < 2; step++) {
            const int from = index % 2 * 4 + step * 2;
            uint32_t *to = out + step * TILE + half * TILE / 2;
            __m512i v[4];
            load_columns(p, at + index / 2 * 64 + step * STEP + 16 * half, 2 + 2 * half + step, v);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++, to += 2 * LANES) {
                const __m512i low = _mm512_srlv_epi16(v[j], nibble);
                look_up_64(above(low, high[j], from), to);
                look_up_64(above(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high[j], 8), from),
                           to + LANES);
            }
        }
    }
}

/* ---- Scales ---------------------------------------------------------------------------------- */

/* Of a batch, for each row of the panel: one for each step, or for each half of one. */
typedef struct batch_scales {
    float s[2 * BATCH][LANES], b[2 * BATCH][LANES];
} batch_scales;

/* n of them, of the groups `at` bytes after the begin of each row's scales. */
typedef void read_batch(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                        batch_scales *out);

/* By the reader of a row. */
SIMD void by_rows(read_scales *read, bool minima, const cpu_codes *c, const panel *p, int64_t at,
                  int64_t n, batch_scales *out)
{
    vf s[SIDE], b[SIDE];
#pragma GCC unroll 1
    for (int i = 0; i < SIDE; i++) {
        group_scales own = {.s = {0}, .b = {0}};
        read(c, p->scale[i] + at, p->bias[i] + at, n, &own);
        s[i] = vload(own.s);
        b[i] = vload(own.b);
    }
    transpose(s);
    if (minima)
        transpose(b);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        vstore(out->s[i], s[i]);
        if (minima)
            vstore(out->b[i], b[i]);
    }
}

#define BY_ROWS(NAME, MINIMA)                                                                      \
    SIMD void batch_##NAME(const cpu_codes *c, const panel *p, int64_t at, int64_t n,              \
                           batch_scales *out)                                                      \
    {                                                                                              \
        by_rows(NAME, MINIMA, c, p, at, n, out);                                                   \
    }
BY_ROWS(affine_scales, true)
BY_ROWS(mx_scales, false)
BY_ROWS(gguf_mx_scales, false)
BY_ROWS(xs_scales, false)
BY_ROWS(q6_scales, false)
#undef BY_ROWS

/* float16 numbers of n groups, the first `at` bytes after the begin of each row's scales. */
SIMD void read_halves(const cpu_codes *c, const panel *p, int64_t at, int64_t n, float out[][LANES])
{
    _Alignas(32) uint16_t bits[BATCH][LANES];
    for (int64_t g = 0; g < n; g++)
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            memcpy(&bits[g][i], p->scale[i] + at + g * c->scale_group, sizeof **bits);
    for (int64_t g = 0; g < n; g++)
        vstore(out[g], vload_float16(bits[g]));
}

SIMD void batch_half_scales(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                            batch_scales *out)
{
    read_halves(c, p, at, n, out->s);
}

SIMD void batch_half_minima(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                            batch_scales *out)
{
    read_halves(c, p, at, n, out->s);
    read_halves(c, p, at + 2, n, out->b);
}

/* Byte `at` of each lane. */
SIMD __m512i byte_at(__m512i x, int at)
{
    return _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)at * 8), _mm512_set1_epi32(255));
}

/* Of a Q4_K or Q5_K block (k_scales), for all rows at once. */
SIMD void batch_k_scales(const cpu_codes *c, const panel *p, int64_t at, int64_t n,
                         batch_scales *out)
{
    __m512i v[4];
    (void)c, (void)n;
    load_columns(p, at, 0, v); /* the block begins with them */
    const vf d = (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(v[0]));
    const vf m = -(vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v[0], 16)));
    const __m512i six = _mm512_set1_epi32(0x3f3f3f3f), four = _mm512_set1_epi32(0x0f0f0f0f);
    const __m512i two = _mm512_set1_epi32(0x30303030);
    const __m512i scales[] = {
        _mm512_and_si512(v[1], six),
        _mm512_or_si512(_mm512_and_si512(v[3], four),
                        _mm512_and_si512(_mm512_srli_epi32(v[1], 2), two)),
    };
    const __m512i minima[] = {
        _mm512_and_si512(v[2], six),
        _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(v[3], 4), four),
                        _mm512_and_si512(_mm512_srli_epi32(v[2], 2), two)),
    };
#pragma GCC unroll 8
    for (int i = 0; i < BATCH; i++) {
        vstore(out->s[i], floats((vi)byte_at(scales[i / 4], i % 4)) * d);
        vstore(out->b[i], floats((vi)byte_at(minima[i / 4], i % 4)) * m);
    }
}

#endif
