/* backends/cpu/isa/gemv_rows.h -- the loop over rows of quantized weights times one to eight
 * vectors, each code read once.
 *
 * Several rows share each load of x. Scales are decoded for many groups at once, in vectors, and
 * lie in memory until their group needs them: a load broadcasts without a shuffle. The group at the
 * same position of later rows is prefetched.
 */
#ifndef BACKENDS_CPU_ISA_GEMV_ROWS_H
#define BACKENDS_CPU_ISA_GEMV_ROWS_H

#include "backends/cpu/isa/blocks.h"
#include "backends/cpu/isa/scales.h"

/* CHUNK: groups whose scales are decoded together. */
enum { CHUNK = 16, RUN = 32, SUPERBLOCK = 256, MOST_ROWS = 4, LINE = 64, AHEAD_BYTES = 3072 };
enum { SUMS = LANES == 16 ? 24 : LANES == 8 ? 12 : 8 }; /* accumulators in registers */

/* Scales and minima of groups: one for each, or one for each run of a superblock. */
typedef struct group_scales {
    float s[CHUNK], b[CHUNK];
} group_scales;

/* Those of `n` groups; `from` and `bias` point to the first one's. */
typedef void read_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                         group_scales *out);

/* A unit of weights: where its codes are, or words of them in registers; tables of weights, or
 * their scales and minima. */
typedef struct unit {
    const uint8_t *p;
    int index;
    vi words[4];
    vf low, high, s, b;
} unit;

/* Unit `index` of a group; its first scale and minimum are at s and b. */
typedef void open_unit(const uint8_t *codes, int index, const float *s, const float *b, unit *u);
/* Vector v of the unit. */
typedef vf unit_weights(const unit *u, int v);

/* How a type's rows are read: constants where it is inlined. */
typedef struct rows_type {
    read_scales *scales;
    open_unit *open;
    unit_weights *weights;
    int size, units; /* weights of a unit, units of a group */
} rows_type;

/* Rows of weights that share a load of x, with 32 registers; in fewer, x comes from memory. One row
 * at a time is one sequence of addresses, which hardware prefetching follows; two short rows are
 * not. Measured with AVX2; not measured with AVX-512, which keeps two for one vector. */
SIMD int rows_together(int m)
{
    const int fit = SUMS / m;
    return LANES < 16 ? 1 : m == 1 ? 2 : fit < MOST_ROWS ? fit : MOST_ROWS;
}

/* Independent sums for each product, against the latency of additions. */
SIMD int sums_of(int m)
{
    return m == 1 && LANES < 16 ? 4 : m <= 2 ? 2 : 1;
}

/* The distance in bytes to what is prefetched, where `rows` rows of `row` bytes are read together:
 * the smallest multiple of their bytes that is at least AHEAD_BYTES. */
SIMD int64_t ahead_of(int64_t rows, int64_t row)
{
    const int64_t step = rows * row;
    return step >= AHEAD_BYTES || step <= 0 ? step : (AHEAD_BYTES + step - 1) / step * step;
}

/* Makes the compiler read the scales from memory. */
SIMD void in_memory(group_scales *s)
{
    __asm__("" : "+m"(*s));
}

/* The next unit of r rows times m vectors; returns what follows in x. */
SIMD const float *add_unit(const rows_type *t, int m, int k, const uint8_t *const *codes,
                           const group_scales *scales, int64_t q, const float *x, vf *sum)
{
    const int r = rows_together(m), parts = sums_of(m);
    unit u[MOST_ROWS];
#pragma GCC unroll 4
    for (int j = 0; j < r; j++)
        t->open(codes[j], k, scales[j].s + q, scales[j].b + q, &u[j]);
#pragma GCC unroll 16
    for (int v = 0; v < t->size / LANES; v++, x += m * LANES) {
        vf w[MOST_ROWS];
#pragma GCC unroll 4
        for (int j = 0; j < r; j++)
            w[j] = t->weights(&u[j], v);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            vf xv = vload(x + i * LANES);
            if (LANES == 16)
                xv = apart(xv); /* one load for r rows */
#pragma GCC unroll 4
            for (int j = 0; j < r; j++)
                sum[(v % parts * r + j) * m + i] += w[j] * xv;
        }
    }
    return x;
}

/* All groups of r rows. t->units 0: as many as the call's group has. */
SIMD void add_groups(const rows_type *t, int m, const codes_call *d, const uint8_t **codes,
                     const uint8_t **scale, const uint8_t **bias, vf *sum)
{
    const cpu_codes *c = d->c;
    const int r = rows_together(m), together = t->size * t->units == SUPERBLOCK ? 1 : CHUNK;
    const int64_t ahead = ahead_of(r, c->code_row);
    const float *x = d->x;
    for (int64_t g = 0; g < d->groups; g += together) {
        const int64_t count = d->groups - g < together ? d->groups - g : together;
        group_scales scales[MOST_ROWS];
#pragma GCC unroll 4
        for (int j = 0; j < r; j++) {
            for (int64_t at = 0; at < count * c->code_group; at += LINE)
                __builtin_prefetch(codes[j] + ahead + at);
            t->scales(c, scale[j], bias[j], count, &scales[j]);
            in_memory(&scales[j]);
            scale[j] += together * c->scale_group;
            bias[j] += together * c->scale_group;
        }
        for (int64_t q = 0; q < count; q++) {
            if (t->units > 0) {
#pragma GCC unroll 8
                for (int k = 0; k < t->units; k++)
                    x = add_unit(t, m, k, codes, scales, q, x, sum);
            } else {
                for (int k = 0; k < c->group / t->size; k++)
                    x = add_unit(t, m, k, codes, scales, q, x, sum);
            }
#pragma GCC unroll 4
            for (int j = 0; j < r; j++)
                codes[j] += c->code_group;
        }
    }
}

/* m and t are constants where this is inlined. After the last row it is read again. */
SIMD void rows_of(const rows_type *t, int m, const codes_call *d)
{
    const cpu_codes *c = d->c;
    const int r = rows_together(m), parts = sums_of(m);
    for (int64_t f = 0; f < d->n; f += r) {
        const uint8_t *codes[MOST_ROWS], *scale[MOST_ROWS], *bias[MOST_ROWS];
        vf sum[SUMS];
#pragma GCC unroll 24
        for (int i = 0; i < parts * r * m; i++)
            sum[i] = (vf){0};
#pragma GCC unroll 4
        for (int j = 0; j < r; j++) {
            const int64_t row = d->first + (f + j < d->n ? f + j : d->n - 1);
            codes[j] = (const uint8_t *)c->codes + row * c->code_row;
            scale[j] = (const uint8_t *)c->scales + row * c->scale_row;
            bias[j] = (const uint8_t *)c->biases + row * c->scale_row;
        }
        add_groups(t, m, d, codes, scale, bias, sum);
#pragma GCC unroll 4
        for (int j = 0; j < r; j++) {
            const int64_t row = d->first + f + j;
#pragma GCC unroll 8
            for (int i = 0; i < m; i++) {
                vf all = sum[j * m + i];
#pragma GCC unroll 4
                for (int k = 1; k < parts; k++)
                    all += sum[(k * r + j) * m + i];
                if (i < d->m && f + j < d->n)
                    d->y[i * d->y_row + row] = vsum(all) + (d->bias ? d->bias[row] : 0.0f);
            }
        }
    }
}

/* ---- Scales of several types ---------------------------------------------------------------- */

/* Scales are stored one by one: a vector load that follows would wait for the stores to retire. */

/* n numbers of a dtype at from, from + step, ... */
SIMD void read_floats(weft_dtype dtype, const uint8_t *from, int64_t step, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = load_scale(dtype, (const char *)from + i * step);
}

SIMD void affine_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                        group_scales *out)
{
    const int64_t step = c->scale_group;
    if (c->scale == WEFT_BFLOAT16) {
        read_floats(WEFT_BFLOAT16, from, step, n, out->s);
        read_floats(WEFT_BFLOAT16, bias, step, n, out->b);
    } else if (c->scale == WEFT_FLOAT16) {
        read_floats(WEFT_FLOAT16, from, step, n, out->s);
        read_floats(WEFT_FLOAT16, bias, step, n, out->b);
    } else {
        read_floats(WEFT_FLOAT32, from, step, n, out->s);
        read_floats(WEFT_FLOAT32, bias, step, n, out->b);
    }
}

/* Powers of two (E8M0), times 2^-less for less 0 or 1. */
SIMD void read_powers(const uint8_t *from, int64_t step, int less, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = from[i * step], tiny = 0x00400000u >> less << (code & 1);
        const uint32_t bits = code > (uint32_t)less ? (code - (uint32_t)less) << 23 : tiny;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

SIMD void mx_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    (void)bias;
    read_powers(from, c->scale_group, 0, n, out->s);
}

#if defined(__AVX2__)
/* The 8 scales and 8 minima of a Q4_K or Q5_K block, as bytes. Bits 0 to 5 of bytes 4 to 11 are
 * the first four of each; the nibbles of bytes 12 to 15 the lower bits of the others, and bits 6
 * and 7 of bytes 4 to 11 their upper bits. */
SIMD __m128i k_scale_bytes(__m128i block)
{
    const __m128i lower = _mm_shuffle_epi8(
        block, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i upper = _mm_shuffle_epi8(
        block, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i nibbles = _mm_blend_epi16(lower, _mm_srli_epi16(lower, 4), 0xc0);
    const __m128i masks = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i top = _mm_and_si128(_mm_srli_epi16(upper, 2), _mm_set1_epi8(0x30));
    return _mm_or_si128(_mm_and_si128(nibbles, masks), top);
}
#endif

/* Of the 8 runs of a Q4_K or Q5_K block; minima are subtracted. */
SIMD void k_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                   group_scales *out)
{
    (void)c, (void)bias, (void)n;
#if defined(__AVX2__)
    const __m128i block = _mm_loadu_si128((const void *)from), bytes = k_scale_bytes(block);
    const __m128 halves = _mm_cvtph_ps(block); /* d, the minimum's factor */
#endif
#if defined(__AVX512F__)
    const vi sign = lane_numbers() >> 3 << 31;
    const vf factors =
        (vf)((vi)vpermute((vf)_mm512_castps128_ps512(halves), lane_numbers() >> 3) ^ sign);
    const vf all = floats((vi)_mm512_cvtepu8_epi32(bytes)) * factors;
    _mm256_storeu_ps(out->s, _mm512_castps512_ps256((__m512)all));
    _mm256_storeu_ps(out->b, _mm512_extractf32x8_ps((__m512)all, 1));
#elif defined(__AVX2__)
    const vf d = (vf)_mm256_broadcastss_ps(halves);
    const vf m = (vf)_mm256_broadcastss_ps(_mm_movehdup_ps(halves));
    vstore(out->s, floats((vi)_mm256_cvtepu8_epi32(bytes)) * d);
    vstore(out->b, floats((vi)_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))) * -m);
#else
    uint64_t first, scales, minima;
    uint32_t last;
    memcpy(&first, from + 4, sizeof first);
    memcpy(&last, from + 12, sizeof last);
    const uint64_t top = first >> 2 & 0x3030303030303030;
    scales = (first & 0x3f3f3f3f) | ((last & 0x0f0f0f0f) | (top & UINT32_MAX)) << 32;
    minima = (first >> 32 & 0x3f3f3f3f) | ((last >> 4 & 0x0f0f0f0f) | top >> 32) << 32;
    const vf d = vset(half_at(from)), m = vset(-half_at(from + 2));
    uint8_t bytes[2][8];
    memcpy(bytes[0], &scales, sizeof scales);
    memcpy(bytes[1], &minima, sizeof minima);
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += LANES) {
        vstore(out->s + i, floats(vload_bytes(bytes[0] + i)) * d);
        vstore(out->b + i, floats(vload_bytes(bytes[1] + i)) * m);
    }
#endif
}

/* ---- Functions ------------------------------------------------------------------------------ */

/* A function for each number of vectors: in one, the compiler would take minutes. */
typedef void rows_function(const codes_call *d);
#define ROWS_FUNCTION(NAME, M, ...)                                                                \
    static __attribute__((noinline)) void rows_##NAME##_##M(const codes_call *d)                   \
    {                                                                                              \
        const rows_type t = {__VA_ARGS__};                                                         \
        rows_of(&t, M, d);                                                                         \
    }
#define ROWS_FUNCTIONS(NAME, ...)                                                                  \
    ROWS_FUNCTION(NAME, 1, __VA_ARGS__)                                                            \
    ROWS_FUNCTION(NAME, 2, __VA_ARGS__)                                                            \
    ROWS_FUNCTION(NAME, 4, __VA_ARGS__)                                                            \
    ROWS_FUNCTION(NAME, 8, __VA_ARGS__)
#define ROWS_ENTRY(NAME)                                                                           \
    {                                                                                              \
        [1] = rows_##NAME##_1, [2] = rows_##NAME##_2, [4] = rows_##NAME##_4, [8] = rows_##NAME##_8 \
    }

#endif
