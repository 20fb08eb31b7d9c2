/* backends/cpu/isa/gemv.c -- products of weight rows with one to eight vectors; each weight is read
 * once.
 *
 * The weights are read from memory sequentially. Rows that come later are prefetched, which keeps
 * more memory requests in flight than hardware prefetching alone. 16-bit weights are decoded when
 * loaded. Must equal the GEMM within rounding (tests/cpu/test_gemm.c).
 */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

#if defined(__AVX512F__) || defined(__aarch64__)
enum { REGISTERS = 24 };
#else
enum { REGISTERS = 12 };
#endif

enum {
    SHORT = 1024, /* bytes of a short row, such as a key */
    AHEAD = 8192  /* bytes that are prefetched, if rows are short */
};

static int64_t bytes_of(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 ? 4 : 2;
}

/* How many rows of so many bytes to prefetch: `least` unless they are short. Long rows of weights
 * are slower with more. */
static int64_t rows_ahead(int64_t bytes, int64_t least)
{
    return bytes > 0 && bytes <= SHORT ? AHEAD / bytes : least;
}

static int dtype_index(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 2 : dtype == WEFT_FLOAT16;
}

/* A vector of the row at p, with zeros beyond k. Not inlined, since it is needed only once per row.
 */
static __attribute__((noinline)) vf load_tail(weft_dtype dtype, const void *row, int64_t p,
                                              int64_t k)
{
    float part[LANES] = {0};
    for (int64_t i = p; i < k; i++)
        part[i - p] = get_as(dtype, row, i);
    return vload(part);
}

/* ---- Dot products --------------------------------------------------------------------------- */

/* sum[j * m + i] = x_i . row_j for `r` rows of w and m of x, with `steps` independent accumulators.
 * These three and dtype are compile-time constants at each inlined call. What is `ahead` bytes
 * after each row is prefetched. */
SIMD void dot_rows(weft_dtype dtype, int m, int r, int steps, int64_t k, const float *x,
                   const char *const *row, int64_t ahead, float *sum)
{
    vf part[REGISTERS];
#pragma GCC unroll 24
    for (int i = 0; i < m * r * steps; i++)
        part[i] = (vf){0};
    int64_t p = 0;
    for (; p + steps * LANES <= k; p += steps * LANES) {
#pragma GCC unroll 4
        for (int s = 0; s < steps; s++) {
#pragma GCC unroll 4
            for (int j = 0; j < r; j++) {
                const int64_t at = p + s * LANES;
                __builtin_prefetch(row[j] + ahead + at * bytes_of(dtype));
                vf wv = vload_as(dtype, row[j], at);
#pragma GCC unroll 8
                for (int i = 0; i < m; i++)
                    part[(s * r + j) * m + i] += wv * vload(x + at * m + i * LANES);
            }
        }
    }
    for (; p < k; p += LANES) {
#pragma GCC unroll 4
        for (int j = 0; j < r; j++) {
            vf wv = p + LANES <= k ? vload_as(dtype, row[j], p) : load_tail(dtype, row[j], p, k);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++)
                part[j * m + i] += wv * vload(x + p * m + i * LANES);
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < m * r; i++) {
#pragma GCC unroll 4
        for (int s = 1; s < steps; s++)
            part[i] += part[s * r * m + i];
    }
#pragma GCC unroll 6
    for (int i = 0; i + 4 <= m * r; i += 4)
        vsum4(part + i, sum + i);
#pragma GCC unroll 4
    for (int i = m * r / 4 * 4; i < m * r; i++)
        sum[i] = vsum(part[i]);
}

typedef struct rows_call {
    int m;
    int64_t k, n;
    const float *x;
    const char *w;
    int64_t w_bytes;
    const float *bias;
    float *y;
    int64_t y_row;
} rows_call;

/* Several rows share each load of x, which is read again for the next rows. With one vector memory
 * bandwidth is the limit: AVX-512 reads four rows together, which was faster there; elsewhere that
 * is not measured. */
SIMD void rows(weft_dtype dtype, int m, const rows_call *c)
{
    const int fit = REGISTERS / m;
    const int r = m == 1 ? (LANES == 16 ? 4 : 1) : fit < 4 ? fit : 4;
    const int steps = m == 1 ? (LANES == 16 ? 2 : 4) : 1;
    const int64_t ahead = rows_ahead(c->k * bytes_of(dtype), r);
    for (int64_t f = 0; f < c->n; f += r) {
        const char *row[4];
        float sum[REGISTERS];
        for (int j = 0; j < r; j++)
            row[j] = c->w + (f + j < c->n ? f + j : c->n - 1) * c->w_bytes;
        dot_rows(dtype, m, r, steps, c->k, c->x, row, ahead * c->w_bytes, sum);
        for (int j = 0; j < r; j++)
            for (int i = 0; i < m; i++)
                if (i < c->m && f + j < c->n)
                    c->y[i * c->y_row + f + j] = sum[j * m + i] + (c->bias ? c->bias[f + j] : 0.0f);
    }
}

/* A separate function for each dtype and number of vectors; one function for all would take minutes
 * to compile. */
#define ROWS(LETTER, DTYPE, M)                                                                     \
    static __attribute__((noinline)) void rows_##LETTER##M(const rows_call *c)                     \
    {                                                                                              \
        rows(DTYPE, M, c);                                                                         \
    }
ROWS(f, WEFT_FLOAT32, 1)
ROWS(f, WEFT_FLOAT32, 2)
ROWS(f, WEFT_FLOAT32, 4)
ROWS(f, WEFT_FLOAT32, 8)
ROWS(h, WEFT_FLOAT16, 1)
ROWS(h, WEFT_FLOAT16, 2)
ROWS(h, WEFT_FLOAT16, 4)
ROWS(h, WEFT_FLOAT16, 8)
ROWS(b, WEFT_BFLOAT16, 1)
ROWS(b, WEFT_BFLOAT16, 2)
ROWS(b, WEFT_BFLOAT16, 4)
ROWS(b, WEFT_BFLOAT16, 8)
#undef ROWS

typedef void rows_function(const rows_call *c);
static rows_function *const rows_of[3][9] = {
    {[1] = rows_f1, [2] = rows_f2, [4] = rows_f4, [8] = rows_f8},
    {[1] = rows_h1, [2] = rows_h2, [4] = rows_h4, [8] = rows_h8},
    {[1] = rows_b1, [2] = rows_b2, [4] = rows_b4, [8] = rows_b8},
};

static void gemv(weft_dtype dtype, int m, int64_t k, const float *x, const void *w, int64_t w_row,
                 int64_t n, const float *bias, float *y, int64_t y_row)
{
    rows_call c = {m, k, n, x, w, w_row * bytes_of(dtype), bias, y, y_row};
    rows_of[dtype_index(dtype)][weft__cpu_gemv_rows(m)](&c);
}

static void gemv_pack(weft_dtype dtype, int m, int64_t k, const void *x, int64_t x_row, float *out)
{
    const int all = weft__cpu_gemv_rows(m);
    for (int64_t p = 0; p < k; p += LANES)
        for (int i = 0; i < all; i++) {
            const char *row = (const char *)x + i * x_row * bytes_of(dtype);
            for (int64_t l = 0; l < LANES; l++)
                out[p * all + i * LANES + l] = i < m && p + l < k ? get_as(dtype, row, p + l) : 0;
        }
}

/* ---- The transposed product: weighted sums of rows ------------------------------------------- */

typedef struct sums_call {
    int64_t n;
    const float *p;
    int64_t p_row;
    const char *v;
    int64_t v_bytes, width;
    float *out;
    int64_t out_row;
} sums_call;

/* out_i += sum over s of p_i[s] v_s, for `c` vectors of columns at `at`. m, c and dtype are
 * compile-time constants at each inlined call. */
SIMD void add_columns(weft_dtype dtype, int m, int c, const sums_call *t, int64_t at)
{
    const int64_t ahead = rows_ahead(t->width * bytes_of(dtype), 1) * t->v_bytes;
    vf sum[16];
#pragma GCC unroll 16
    for (int i = 0; i < m * c; i++)
        sum[i] = vload(t->out + i / c * t->out_row + at + i % c * LANES);
    for (int64_t s = 0; s < t->n; s++) {
        const char *row = t->v + s * t->v_bytes;
#pragma GCC unroll 4
        for (int j = 0; j < c; j++) {
            const int64_t column = at + j * LANES;
            __builtin_prefetch(row + ahead + column * bytes_of(dtype));
            vf x = vload_as(dtype, row, column);
#pragma GCC unroll 4
            for (int i = 0; i < m; i++)
                sum[i * c + j] += vset(t->p[i * t->p_row + s]) * x;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m * c; i++)
        vstore(t->out + i / c * t->out_row + at + i % c * LANES, sum[i]);
}

SIMD void add_rows(weft_dtype dtype, int m, const sums_call *t)
{
    const int c = REGISTERS >= 4 * m + 4 ? 4 : 2;
    int64_t at = 0;
    for (; at + c * LANES <= t->width; at += c * LANES)
        add_columns(dtype, m, c, t, at);
    for (; at + LANES <= t->width; at += LANES)
        add_columns(dtype, m, 1, t, at);
    for (; at < t->width; at++)
        for (int64_t s = 0; s < t->n; s++)
            for (int i = 0; i < m; i++)
                t->out[i * t->out_row + at] +=
                    t->p[i * t->p_row + s] * get_as(dtype, t->v + s * t->v_bytes, at);
}

#define ADD(LETTER, DTYPE, M)                                                                      \
    static __attribute__((noinline)) void add_##LETTER##M(const sums_call *t)                      \
    {                                                                                              \
        add_rows(DTYPE, M, t);                                                                     \
    }
ADD(f, WEFT_FLOAT32, 1)
ADD(f, WEFT_FLOAT32, 2)
ADD(f, WEFT_FLOAT32, 4)
ADD(h, WEFT_FLOAT16, 1)
ADD(h, WEFT_FLOAT16, 2)
ADD(h, WEFT_FLOAT16, 4)
ADD(b, WEFT_BFLOAT16, 1)
ADD(b, WEFT_BFLOAT16, 2)
ADD(b, WEFT_BFLOAT16, 4)
#undef ADD

typedef void add_function(const sums_call *t);
static add_function *const add_of[3][5] = {{[1] = add_f1, [2] = add_f2, [4] = add_f4},
                                           {[1] = add_h1, [2] = add_h2, [4] = add_h4},
                                           {[1] = add_b1, [2] = add_b2, [4] = add_b4}};

static void gemv_across(weft_dtype dtype, int m, int64_t n, const float *p, int64_t p_row,
                        const void *v, int64_t v_row, int64_t width, float *out, int64_t out_row)
{
    for (int i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : m - i >= 2 ? 2 : 1;
        sums_call t = {n,     p + i * p_row,     p_row,  v, v_row * bytes_of(dtype),
                       width, out + i * out_row, out_row};
        add_of[dtype_index(dtype)][rows](&t);
        i += rows;
    }
}

void CPU_NAME(weft__fill_gemv)(cpu_kernels *table)
{
    table->gemv = gemv;
    table->gemv_across = gemv_across;
    table->gemv_pack = gemv_pack;
}
