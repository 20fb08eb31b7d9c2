/* backends/cpu/isa/gemv.c -- weight rows times one to eight vectors, each weight read once.
 *
 * The weights stream from memory in one sequence; the row after next is asked for ahead, which
 * keeps more of it on the way than the hardware does alone. 16-bit weights are decoded on load.
 * Must equal the GEMM within rounding (tests/cpu/test_gemm.c).
 */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

#if defined(__AVX512F__)
enum { REGISTERS = 24 };
#else
enum { REGISTERS = 12 };
#endif

/* A row's vector at p, filled up with zeros beyond k. */
SIMD vf load_tail(weft_dtype dtype, const void *row, int64_t p, int64_t k)
{
    float part[LANES] = {0};
    for (int64_t i = p; i < k; i++)
        part[i - p] = get_as(dtype, row, i);
    return vload(part);
}

/* sum[i] += x_i . w_r at once for `r` rows of w and m rows of x, in `steps` independent parts; all
 * three and dtype are constants where this is inlined. */
SIMD void dot_rows(weft_dtype dtype, int m, int r, int steps, int64_t k, const float *x,
                   const char *w, int64_t w_bytes, float *sum)
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
                __builtin_prefetch(w + (j + r) * w_bytes + at * (dtype == WEFT_FLOAT32 ? 4 : 2));
                vf wv = vload_as(dtype, w + j * w_bytes, at);
#pragma GCC unroll 8
                for (int i = 0; i < m; i++)
                    part[(s * r + j) * m + i] += wv * vload(x + (p + s * LANES) * m + i * LANES);
            }
        }
    }
    for (; p < k; p += LANES) {
        for (int j = 0; j < r; j++) {
            vf wv = p + LANES <= k ? vload_as(dtype, w + j * w_bytes, p)
                                   : load_tail(dtype, w + j * w_bytes, p, k);
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
        sum[i] = vsum(part[i]);
    }
}

SIMD void put(int m, int r, const float *sum, const float *bias, float *y, int64_t y_row)
{
    for (int j = 0; j < r; j++)
        for (int i = 0; i < m; i++)
            y[i * y_row + j] = sum[j * m + i] + (bias ? bias[j] : 0.0f);
}

SIMD void rows(weft_dtype dtype, int m, int64_t k, const float *x, const char *w, int64_t w_row,
               int64_t n, const float *bias, float *y, int64_t y_row)
{
    /* One vector: the weights' stream alone is the limit, so one row at a time. More: several rows
     * for each read of x. The parts per row are the same wherever a row falls. */
    const int fit = REGISTERS / m;
    const int r = m == 1 ? 1 : fit < 4 ? fit : 4;
    const int steps = m == 1 ? 4 : 1;
    const int64_t w_bytes = w_row * (dtype == WEFT_FLOAT32 ? 4 : 2);
    float sum[REGISTERS];
    int64_t f = 0;
    for (; f + r <= n; f += r) {
        dot_rows(dtype, m, r, steps, k, x, w + f * w_bytes, w_bytes, sum);
        put(m, r, sum, bias ? bias + f : NULL, y + f, y_row);
    }
    for (; f < n; f++) {
        dot_rows(dtype, m, 1, steps, k, x, w + f * w_bytes, w_bytes, sum);
        put(m, 1, sum, bias ? bias + f : NULL, y + f, y_row);
    }
}

/* A function for each dtype and number of vectors: in one, the compiler would take minutes. */
#define ROWS(LETTER, DTYPE, M)                                                                     \
    static __attribute__((noinline)) void rows_##LETTER##M(                                        \
        int64_t k, const float *x, const void *w, int64_t w_row, int64_t n, const float *bias,     \
        float *y, int64_t y_row)                                                                   \
    {                                                                                              \
        rows(DTYPE, M, k, x, w, w_row, n, bias, y, y_row);                                         \
    }
#define ONE_TO_EIGHT(FUNCTION, LETTER, DTYPE)                                                      \
    FUNCTION(LETTER, DTYPE, 1) FUNCTION(LETTER, DTYPE, 2) FUNCTION(LETTER, DTYPE, 3)               \
    FUNCTION(LETTER, DTYPE, 4) FUNCTION(LETTER, DTYPE, 5) FUNCTION(LETTER, DTYPE, 6)               \
    FUNCTION(LETTER, DTYPE, 7) FUNCTION(LETTER, DTYPE, 8)

ONE_TO_EIGHT(ROWS, f, WEFT_FLOAT32)
ONE_TO_EIGHT(ROWS, h, WEFT_FLOAT16)
ONE_TO_EIGHT(ROWS, b, WEFT_BFLOAT16)

#undef ROWS
#define NAME(LETTER, DTYPE, M) rows_##LETTER##M,

typedef void rows_function(int64_t k, const float *x, const void *w, int64_t w_row, int64_t n,
                           const float *bias, float *y, int64_t y_row);
static rows_function *const rows_of[3][8] = {{ONE_TO_EIGHT(NAME, f, WEFT_FLOAT32)},
                                             {ONE_TO_EIGHT(NAME, h, WEFT_FLOAT16)},
                                             {ONE_TO_EIGHT(NAME, b, WEFT_BFLOAT16)}};

#undef NAME

static int dtype_index(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 2 : dtype == WEFT_FLOAT16;
}

static void gemv(weft_dtype dtype, int m, int64_t k, const float *x, const void *w, int64_t w_row,
                 int64_t n, const float *bias, float *y, int64_t y_row)
{
    rows_of[dtype_index(dtype)][m - 1](k, x, w, w_row, n, bias, y, y_row);
}

/* ---- The other way: sums of rows ----------------------------------------------------------------
 */

enum { AHEAD = 8 }; /* rows that are asked for ahead */

/* out_i += sum over s of p_i[s] v_s, for `c` vectors of columns at `at`; m, c and dtype are
 * constants where this is inlined. */
SIMD void add_columns(weft_dtype dtype, int m, int c, int64_t n, const float *p, int64_t p_row,
                      const char *v, int64_t v_bytes, int64_t at, float *out, int64_t out_row)
{
    vf sum[REGISTERS];
#pragma GCC unroll 24
    for (int i = 0; i < m; i++)
        for (int j = 0; j < c; j++)
            sum[i * c + j] = vload(out + i * out_row + at + j * LANES);
    for (int64_t s = 0; s < n; s++) {
        const char *row = v + s * v_bytes;
#pragma GCC unroll 8
        for (int j = 0; j < c; j++) {
            const int64_t column = at + j * LANES;
            __builtin_prefetch(row + AHEAD * v_bytes + column * (dtype == WEFT_FLOAT32 ? 4 : 2));
            vf x = vload_as(dtype, row, column);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++)
                sum[i * c + j] += vset(p[i * p_row + s]) * x;
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < m; i++)
        for (int j = 0; j < c; j++)
            vstore(out + i * out_row + at + j * LANES, sum[i * c + j]);
}

SIMD void add_rows(weft_dtype dtype, int m, int64_t n, const float *p, int64_t p_row, const char *v,
                   int64_t v_row, int64_t width, float *out, int64_t out_row)
{
    const int c = REGISTERS / m < 8 ? REGISTERS / m : 8;
    const int half = c > 1 ? c / 2 : 1;
    const int64_t v_bytes = v_row * (dtype == WEFT_FLOAT32 ? 4 : 2);
    int64_t at = 0;
    for (; at + c * LANES <= width; at += c * LANES)
        add_columns(dtype, m, c, n, p, p_row, v, v_bytes, at, out, out_row);
    for (; at + half * LANES <= width; at += half * LANES)
        add_columns(dtype, m, half, n, p, p_row, v, v_bytes, at, out, out_row);
    for (; at + LANES <= width; at += LANES)
        add_columns(dtype, m, 1, n, p, p_row, v, v_bytes, at, out, out_row);
    for (; at < width; at++)
        for (int64_t s = 0; s < n; s++)
            for (int i = 0; i < m; i++)
                out[i * out_row + at] += p[i * p_row + s] * get_as(dtype, v + s * v_bytes, at);
}

#define ADD(LETTER, DTYPE, M)                                                                      \
    static __attribute__((noinline)) void add_##LETTER##M(                                         \
        int64_t n, const float *p, int64_t p_row, const void *v, int64_t v_row, int64_t width,     \
        float *out, int64_t out_row)                                                               \
    {                                                                                              \
        add_rows(DTYPE, M, n, p, p_row, v, v_row, width, out, out_row);                            \
    }

ONE_TO_EIGHT(ADD, f, WEFT_FLOAT32)
ONE_TO_EIGHT(ADD, h, WEFT_FLOAT16)
ONE_TO_EIGHT(ADD, b, WEFT_BFLOAT16)

#undef ADD
#define NAME(LETTER, DTYPE, M) add_##LETTER##M,

typedef void add_function(int64_t n, const float *p, int64_t p_row, const void *v, int64_t v_row,
                          int64_t width, float *out, int64_t out_row);
static add_function *const add_of[3][8] = {{ONE_TO_EIGHT(NAME, f, WEFT_FLOAT32)},
                                           {ONE_TO_EIGHT(NAME, h, WEFT_FLOAT16)},
                                           {ONE_TO_EIGHT(NAME, b, WEFT_BFLOAT16)}};

#undef NAME
#undef ONE_TO_EIGHT

static void gemv_across(weft_dtype dtype, int m, int64_t n, const float *p, int64_t p_row,
                        const void *v, int64_t v_row, int64_t width, float *out, int64_t out_row)
{
    add_of[dtype_index(dtype)][m - 1](n, p, p_row, v, v_row, width, out, out_row);
}

static void gemv_pack(weft_dtype dtype, int m, int64_t k, const void *x, int64_t x_row, float *out)
{
    for (int64_t p = 0; p < k; p += LANES)
        for (int i = 0; i < m; i++) {
            const char *row = (const char *)x + i * x_row * (dtype == WEFT_FLOAT32 ? 4 : 2);
            for (int64_t l = 0; l < LANES; l++)
                out[p * m + i * LANES + l] = p + l < k ? get_as(dtype, row, p + l) : 0.0f;
        }
}

void CPU_NAME(weft__fill_gemv)(cpu_kernels *table)
{
    table->gemv_across = gemv_across;
    table->gemv_pack = gemv_pack;
    table->gemv = gemv;
}
