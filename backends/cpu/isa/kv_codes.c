/* backends/cpu/isa/kv_codes.c -- quantized keys and values: products with queries, sums weighted by
 * probabilities, and decoding.
 *
 * The product with a group is step * (sum of codes times x) + least * (sum of x): codes become
 * floats only in registers. Must equal products with decoded rows within rounding.
 */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

enum {
    MOST = 8,   /* accumulator vectors at a time */
    AHEAD = 32, /* rows that are prefetched */
};

/* Half `part` of each byte as a code; the whole byte for 8-bit codes. */
SIMD vf code_values(vi bytes, int bits, int part)
{
    const vi codes = bits == 8 ? bytes : part == 0 ? bytes & 15 : bytes >> 4;
    return __builtin_convertvector(codes, vf);
}

static float code_value(uint8_t byte, int bits, int64_t part)
{
    return (float)(bits == 8 ? byte : part == 0 ? byte & 15 : byte >> 4);
}

static int64_t parts_of(const cpu_kv_codes *c)
{
    return c->bits == 4 ? 2 : 1;
}

/* ---- Products ------------------------------------------------------------------------------- */

typedef struct dot_call {
    const cpu_kv_codes *c;
    int m;
    const float *x;
    int64_t x_row;
    const float *sums;
    int64_t n;
    float *y;
    int64_t y_row;
} dot_call;

/* The products with keys s .. s + r; the last key may be repeated. */
SIMD void dot_keys(int bits, int m, int r, const dot_call *d, const int64_t *key)
{
    const cpu_kv_codes *c = d->c;
    const int P = bits == 4 ? 2 : 1;
    const int64_t half = c->width / P, groups = half / c->group;
    const float *x[8];
    vf total[MOST];
    float rest[MOST];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
        x[i] = d->x + (i < d->m ? i : d->m - 1) * d->x_row;
#pragma GCC unroll 8
    for (int i = 0; i < m * r; i++) {
        total[i] = (vf){0};
        rest[i] = 0;
    }
    for (int64_t g = 0; g < groups; g++) {
        vf part[2 * MOST];
#pragma GCC unroll 16
        for (int i = 0; i < P * m * r; i++)
            part[i] = (vf){0};
        for (int64_t at = g * c->group; at < (g + 1) * c->group; at += LANES) {
#pragma GCC unroll 4
            for (int j = 0; j < r; j++) {
                const uint8_t *row = c->codes + key[j] * c->code_row + at;
                const vi bytes = vload_bytes(row);
#pragma GCC unroll 2
                for (int p = 0; p < P; p++) {
                    const vf codes = code_values(bytes, bits, p);
#pragma GCC unroll 8
                    for (int i = 0; i < m; i++)
                        part[(p * r + j) * m + i] += codes * vload(x[i] + p * half + at);
                }
            }
        }
#pragma GCC unroll 2
        for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
            for (int j = 0; j < r; j++) {
                const int64_t group = p * groups + g;
                const float step = c->steps[key[j] * c->step_row + group];
                const float least = c->least[key[j] * c->least_row + group];
#pragma GCC unroll 8
                for (int i = 0; i < m; i++) {
                    total[j * m + i] += vset(step) * part[(p * r + j) * m + i];
                    rest[j * m + i] +=
                        least * d->sums[(i < d->m ? i : d->m - 1) * P * groups + group];
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < r; j++)
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            if (i < d->m)
                d->y[i * d->y_row + key[j]] = vsum(total[j * m + i]) + rest[j * m + i];
}

SIMD void dot_all(int bits, int m, const dot_call *d)
{
    const int r = MOST / m < 4 ? MOST / m : 4;
    for (int64_t s = 0; s < d->n; s += r) {
        int64_t key[4];
#pragma GCC unroll 4
        for (int j = 0; j < r; j++) {
            key[j] = s + j < d->n ? s + j : d->n - 1;
            const uint8_t *later = d->c->codes + (key[j] + AHEAD) * d->c->code_row;
            for (int64_t at = 0; at < d->c->width * bits / 8; at += 64)
                __builtin_prefetch(later + at);
        }
        dot_keys(bits, m, r, d, key);
    }
}

/* For groups that are not a multiple of the vector length. */
static void dot_any(const dot_call *d)
{
    const cpu_kv_codes *c = d->c;
    const int64_t P = parts_of(c), half = c->width / P, groups = c->width / c->group;
    for (int64_t s = 0; s < d->n; s++) {
        for (int i = 0; i < d->m; i++) {
            float sum = 0;
            for (int64_t g = 0; g < groups; g++) {
                const int64_t p = g / (groups / P), from = g * c->group - p * half;
                const uint8_t *codes = c->codes + s * c->code_row + from;
                const float *x = d->x + i * d->x_row + g * c->group;
                float part = 0;
#pragma omp simd reduction(+ : part)
                for (int64_t j = 0; j < c->group; j++)
                    part += code_value(codes[j], c->bits, p) * x[j];
                sum += c->steps[s * c->step_row + g] * part +
                       c->least[s * c->least_row + g] * d->sums[i * groups + g];
            }
            d->y[i * d->y_row + s] = sum;
        }
    }
}

#define DOT(BITS, M)                                                                               \
    static __attribute__((noinline)) void dot_##BITS##_##M(const dot_call *d)                      \
    {                                                                                              \
        dot_all(BITS, M, d);                                                                       \
    }
DOT(8, 1)
DOT(8, 2)
DOT(8, 4)
DOT(8, 8)
DOT(4, 1)
DOT(4, 2)
DOT(4, 4)
DOT(4, 8)
#undef DOT

typedef void dot_function(const dot_call *d);
static dot_function *const dot_of[2][9] = {
    {[1] = dot_8_1, [2] = dot_8_2, [4] = dot_8_4, [8] = dot_8_8},
    {[1] = dot_4_1, [2] = dot_4_2, [4] = dot_4_4, [8] = dot_4_8},
};

static void kv_dot(const cpu_kv_codes *c, int m, const float *x, int64_t x_row, const float *sums,
                   int64_t n, float *y, int64_t y_row)
{
    const dot_call d = {c, m, x, x_row, sums, n, y, y_row};
    if (c->group % LANES != 0)
        dot_any(&d);
    else
        dot_of[c->bits == 4][weft__cpu_gemv_rows(m)](&d);
}

/* ---- Sums ----------------------------------------------------------------------------------- */

typedef struct add_call {
    const cpu_kv_codes *c;
    int64_t n;
    const float *p;
    int64_t p_row;
    float *out;
    int64_t out_row;
} add_call;

/* out_i += sum over s of p_i[s] (step code + least), for v vectors of bytes at `at`, which are in
 * group g of each half. */
SIMD void add_columns(int bits, int m, int v, const add_call *a, int64_t g, int64_t at)
{
    const cpu_kv_codes *c = a->c;
    const int P = bits == 4 ? 2 : 1;
    const int64_t half = c->width / P, groups = half / c->group;
    vf sum[32];
#pragma GCC unroll 32
    for (int i = 0; i < P * m * v; i++)
        sum[i] = vload(a->out + i / v % m * a->out_row + i / v / m * half + at + i % v * LANES);
    float rest[8] = {0};
    for (int64_t s = 0; s < a->n; s++) {
        const uint8_t *row = c->codes + s * c->code_row + at;
        const float *steps = c->steps + s * c->step_row + g;
        const float *least = c->least + s * c->least_row + g;
        __builtin_prefetch(row + AHEAD * c->code_row);
        vf weight[8];
#pragma GCC unroll 8
        for (int i = 0; i < P * m; i++) {
            const float p = a->p[i % m * a->p_row + s];
            weight[i] = vset(p * steps[i / m * groups]);
            rest[i] += p * least[i / m * groups];
        }
#pragma GCC unroll 4
        for (int j = 0; j < v; j++) {
            const vi bytes = vload_bytes(row + j * LANES);
#pragma GCC unroll 2
            for (int p = 0; p < P; p++) {
                const vf codes = code_values(bytes, bits, p);
#pragma GCC unroll 4
                for (int i = 0; i < m; i++)
                    sum[(p * m + i) * v + j] += weight[p * m + i] * codes;
            }
        }
    }
#pragma GCC unroll 32
    for (int i = 0; i < P * m * v; i++)
        vstore(a->out + i / v % m * a->out_row + i / v / m * half + at + i % v * LANES,
               sum[i] + vset(rest[i / v]));
}

SIMD void add_all(int bits, int m, const add_call *a)
{
    const int64_t width = bits == 4 ? a->c->width / 2 : a->c->width, group = a->c->group;
    const int most = bits == 4 && m == 4 ? 2 : 4;
    for (int64_t g = 0; g < width / group; g++) {
        int64_t at = g * group;
        const int64_t end = at + group;
        for (; at + most * LANES <= end; at += most * LANES)
            add_columns(bits, m, most, a, g, at);
        for (; at < end; at += LANES)
            add_columns(bits, m, 1, a, g, at);
    }
}

static void add_any(int m, const add_call *a)
{
    const cpu_kv_codes *c = a->c;
    const int64_t P = parts_of(c), half = c->width / P, groups = c->width / c->group;
    for (int64_t s = 0; s < a->n; s++) {
        for (int64_t g = 0; g < groups; g++) {
            const int64_t p = g / (groups / P), from = g * c->group - p * half;
            const uint8_t *codes = c->codes + s * c->code_row + from;
            for (int i = 0; i < m; i++) {
                const float p_s = a->p[i * a->p_row + s];
                const float weight = p_s * c->steps[s * c->step_row + g];
                const float rest = p_s * c->least[s * c->least_row + g];
                float *out = a->out + i * a->out_row + g * c->group;
#pragma omp simd
                for (int64_t j = 0; j < c->group; j++)
                    out[j] += weight * code_value(codes[j], c->bits, p) + rest;
            }
        }
    }
}

#define ADD(BITS, M)                                                                               \
    static __attribute__((noinline)) void add_##BITS##_##M(const add_call *a)                      \
    {                                                                                              \
        add_all(BITS, M, a);                                                                       \
    }
ADD(8, 1)
ADD(8, 2)
ADD(8, 4)
ADD(4, 1)
ADD(4, 2)
ADD(4, 4)
#undef ADD

typedef void add_function(const add_call *a);
static add_function *const add_of[2][5] = {
    {[1] = add_8_1, [2] = add_8_2, [4] = add_8_4},
    {[1] = add_4_1, [2] = add_4_2, [4] = add_4_4},
};

static void kv_add(const cpu_kv_codes *c, int m, int64_t n, const float *p, int64_t p_row,
                   float *out, int64_t out_row)
{
    for (int i = 0; i < m;) {
        const int take = i + 4 <= m ? 4 : i + 2 <= m ? 2 : 1;
        const add_call a = {c, n, p + i * p_row, p_row, out + i * out_row, out_row};
        if (c->group % LANES != 0)
            add_any(take, &a);
        else
            add_of[c->bits == 4][take](&a);
        i += take;
    }
}

/* ---- Decoding -------------------------------------------------------------------------------- */

static void kv_decode(const cpu_kv_codes *c, int64_t n, float *out, int64_t out_row)
{
    const int64_t P = parts_of(c), half = c->width / P, groups = c->width / c->group;
    for (int64_t s = 0; s < n; s++) {
        for (int64_t g = 0; g < groups; g++) {
            const int64_t p = g / (groups / P), from = g * c->group - p * half;
            const uint8_t *codes = c->codes + s * c->code_row + from;
            const float step = c->steps[s * c->step_row + g];
            const float least = c->least[s * c->least_row + g];
            float *row = out + s * out_row + g * c->group;
#pragma omp simd
            for (int64_t j = 0; j < c->group; j++)
                row[j] = step * code_value(codes[j], c->bits, p) + least;
        }
    }
}

void CPU_NAME(weft__fill_kv_codes)(cpu_kernels *table)
{
    table->kv_dot = kv_dot;
    table->kv_add = kv_add;
    table->kv_decode = kv_decode;
}
