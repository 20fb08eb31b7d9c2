/* backends/cpu/isa/gemv_factored.h -- rows of codes of 4 bits times vectors, without making
 * weights.
 *
 * A group's products are s * (sum of code * x) + b * (sum of x), so scales are applied once for a
 * group, and the sums of x are known. Codes are not shifted to the lowest bits: x is divided by the
 * power of two instead. That is an AND, a conversion and a multiply-add for each vector of codes,
 * where decoding takes five instructions. AVX2 only: AVX-512 looks weights up (gemv_codes.c).
 */
#ifndef BACKENDS_CPU_ISA_GEMV_FACTORED_H
#define BACKENDS_CPU_ISA_GEMV_FACTORED_H

#include "backends/cpu/isa/gemv_rows.h"

/* Vectors; with more, decoding takes a smaller part of the time. */
enum { MOST_FACTORED = 1 };

/* A type: a group has `units` units of `words` words of codes, the first `at` bytes after its
 * begin: the low nibbles of all bytes, then the high ones, in one run of one scale or two runs
 * (Q4_K). Codes count from 0, or from -8. */
typedef struct factored_type {
    read_scales *scales;
    int words, at, runs, units;
    bool from_minus_8;
} factored_type;

/* The bit position of lane l's code in vector v of a unit (as nibbles_of). */
SIMD vi code_shifts(int words, int v)
{
    const int step = LANES / words;
    const vi at = v * step + (step > 1 ? lane_numbers() / words : (vi){0});
    return at % 4 * 8 + at / 4 * 4;
}

/* Codes of the highest bits would become negative numbers, so the last vector is shifted. */
SIMD bool shifted(int words, int v)
{
    return v == words - 1;
}

/* Vector v of a unit, in which x is divided by the same powers of two. */
SIMD vf codes_in_place(vi all, int words, int v)
{
    const vi shifts = code_shifts(words, v);
    if (shifted(words, v))
        return floats((vi)((vu)all >> (vu)shifts) & 15);
    return floats(all & (15 << shifts));
}

/* Divides vector v of a unit of x, for one row. */
SIMD void divide_x(int words, int v, float *x)
{
    const vi exponents = (127 - code_shifts(words, v)) << 23;
    if (!shifted(words, v))
        vstore(x, vload(x) * (vf)exponents);
}

/* Floats between the rows of the sums of x, which follow x. */
SIMD int64_t sums_row(int64_t groups)
{
    return (groups + 15) / 16 * 16;
}

/* Adds a unit of codes times m vectors to sums of its one or two runs. */
SIMD void add_codes(const factored_type *t, int m, const uint8_t *p, const float *x, vf *sum)
{
    vi all;
    if (t->words == 4)
        all = (vi)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    else
        memcpy(&all, p, sizeof all);
#pragma GCC unroll 8
    for (int v = 0; v < t->words; v++) {
        const vf codes = codes_in_place(all, t->words, v);
        const int run = v * t->runs / t->words;
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            sum[run * m + i] += codes * vload(x + (v * m + i) * LANES);
    }
}

/* Groups [g, g + count) of a row, whose codes begin at p; returns what follows in x. */
SIMD const float *add_factored(const factored_type *t, int m, const codes_call *d, const uint8_t *p,
                               int64_t count, const group_scales *scales, const float *x, vf *total)
{
    for (int64_t q = 0; q < count; q++, p += d->c->code_group) {
        vf sum[2 * MOST_FACTORED] = {0};
        for (int64_t k = 0; k < t->units; k++, x += 8 * t->words * m) {
            add_codes(t, m, p + t->at + k * t->words * 4, x, sum);
            if (t->runs == 1)
                continue;
#pragma GCC unroll 16
            for (int i = 0; i < 2 * m; i++) {
                total[i % m] += vset(scales->s[2 * k + i / m]) * sum[i];
                sum[i] = (vf){0};
            }
        }
        if (t->runs == 2)
            continue;
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            total[i] += vset(scales->s[q]) * sum[i];
    }
    return x;
}

/* Row `row` of the weights times m vectors. */
SIMD void factored_row(const factored_type *t, int m, const codes_call *d, int64_t row)
{
    const cpu_codes *c = d->c;
    const int64_t runs = t->runs == 2 ? 8 : 1; /* of a group */
    const int64_t together = t->runs == 2 ? 1 : CHUNK, between = sums_row(d->groups * runs);
    const uint8_t *codes = (const uint8_t *)c->codes + row * c->code_row;
    const uint8_t *scale = (const uint8_t *)c->scales + row * c->scale_row;
    const uint8_t *bias = (const uint8_t *)c->biases + row * c->scale_row;
    const float *x = d->x, *sums = d->x + m * d->groups * c->group;
    const int64_t ahead = ahead_of(1, c->code_row);
    vf total[MOST_FACTORED] = {0};
    for (int64_t g = 0; g < d->groups; g += together) {
        const int64_t count = d->groups - g < together ? d->groups - g : together;
        group_scales scales;
        if (count < together)
            scales = (group_scales){0};
        for (int64_t at = 0; at < count * c->code_group; at += LINE)
            __builtin_prefetch(codes + ahead + at);
        t->scales(c, scale, bias, count, &scales);
        in_memory(&scales);
        x = add_factored(t, m, d, codes, count, &scales, x, total);
#pragma GCC unroll 2
        for (int at = 0; at < together * runs; at += LANES) {
            const vf b = t->from_minus_8 ? vload(scales.s + at) * -8 : vload(scales.b + at);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++)
                total[i] += b * vload(sums + i * between + g * runs + at);
        }
        codes += together * c->code_group;
        scale += together * c->scale_group;
        bias += together * c->scale_group;
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
        if (i < d->m)
            d->y[i * d->y_row + row] = vsum(total[i]) + (d->bias ? d->bias[row] : 0.0f);
}

#define FACTORED_FUNCTION(NAME, M, ...)                                                            \
    static __attribute__((noinline)) void factored_##NAME##_##M(const codes_call *d)               \
    {                                                                                              \
        const factored_type t = {__VA_ARGS__};                                                     \
        for (int64_t f = 0; f < d->n; f++)                                                         \
            factored_row(&t, M, d, d->first + f);                                                  \
    }
#define FACTORED(NAME, ...) FACTORED_FUNCTION(NAME, 1, __VA_ARGS__)
#define FACTORED_ENTRY(NAME)                                                                       \
    {                                                                                              \
        [1] = factored_##NAME##_1, [2] = rows_##NAME##_2, [4] = rows_##NAME##_4,                   \
        [8] = rows_##NAME##_8                                                                      \
    }

#endif
