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
#include "backends/cpu/isa/group_scales.h"

enum { MOST_ROWS = 4, LINE = 64, AHEAD_BYTES = 3072 };
enum { SUMS = LANES == 16 ? 24 : LANES == 8 ? 12 : 8 }; /* accumulators in registers */

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

/* Rows of weights that share a load of x, with 32 registers; in fewer, x comes from memory. With
 * AVX2 one row at a time is faster, which is one sequence of addresses for hardware prefetching. */
SIMD int rows_together(int m)
{
    const int fit = SUMS / m;
    return LANES < 16 ? 1 : fit < MOST_ROWS ? fit : MOST_ROWS;
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
