/* backends/cpu/isa/reduce.c -- reductions of float32 rows: sums, extremes, exponentials. */
#include <math.h>

#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/vocabulary.h"

/* Half a vector of float widens to a vector of double. */
enum { WIDE = LANES / 2, CHAINS = 4 };
typedef float half_vf __attribute__((vector_size(WIDE * 4), aligned(4), may_alias));
typedef double vd __attribute__((vector_size(WIDE * 8)));

SIMD vd widen(const float *p)
{
    return __builtin_convertvector(*(const half_vf *)p, vd);
}

SIMD double total(const vd *sums)
{
    double sum = 0;
    vd all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int l = 0; l < WIDE; l++)
        sum += all[l];
    return sum;
}

static double sum_row(const float *x, int64_t n)
{
    vd sums[CHAINS] = {{0}};
    int64_t i = 0;
    for (; i + CHAINS * WIDE <= n; i += CHAINS * WIDE) {
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++)
            sums[c] += widen(x + i + c * WIDE);
    }
    double sum = total(sums);
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

static double dot_row(const float *x, const float *y, int64_t n)
{
    vd sums[CHAINS] = {{0}};
    int64_t i = 0;
    for (; i + CHAINS * WIDE <= n; i += CHAINS * WIDE) {
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++)
            sums[c] += widen(x + i + c * WIDE) * widen(y + i + c * WIDE);
    }
    double sum = total(sums);
    for (; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* ---- extremes: NaN wins --------------------------------------------------------------------- */

SIMD vf choose(vi take, vf a, vf b)
{
    return (vf)(((vi)a & take) | ((vi)b & ~take));
}

/* A NaN in `best` stays, since comparisons with it are false. */
SIMD vf better(vf x, vf best, int largest)
{
    vi take = (largest ? x > best : x < best) | (x != x);
    return choose(take, x, best);
}

SIMD float better_one(float x, float best, int largest)
{
    return ((largest ? x > best : x < best) | (x != x)) != 0 ? x : best;
}

SIMD float extreme_row(const float *x, int64_t n, int largest)
{
    float best = largest ? -INFINITY : INFINITY;
    int64_t i = 0;
    if (n >= CHAINS * LANES) {
        vf chains[CHAINS];
        for (int c = 0; c < CHAINS; c++)
            chains[c] = vset(best);
        for (; i + CHAINS * LANES <= n; i += CHAINS * LANES) {
#pragma GCC unroll 4
            for (int c = 0; c < CHAINS; c++)
                chains[c] = better(vload(x + i + c * LANES), chains[c], largest);
        }
        for (int c = 0; c < CHAINS; c++)
            for (int l = 0; l < LANES; l++)
                best = better_one(chains[c][l], best, largest);
    }
    for (; i < n; i++)
        best = better_one(x[i], best, largest);
    return best;
}

static float max_row(const float *x, int64_t n)
{
    return extreme_row(x, n, 1);
}

static float min_row(const float *x, int64_t n)
{
    return extreme_row(x, n, 0);
}

/* ---- columns -------------------------------------------------------------------------------- */

static void sum_columns(double *sums, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += (double)x[i];
}

static void max_columns(double *best, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double value = (double)x[i];
        best[i] = ((value > best[i]) | (value != value)) != 0 ? value : best[i];
    }
}

static void min_columns(double *best, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double value = (double)x[i];
        best[i] = ((value < best[i]) | (value != value)) != 0 ? value : best[i];
    }
}

/* ---- softmax -------------------------------------------------------------------------------- */

static double exp_row(const float *x, int64_t n, float shift, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = exp_f32(x[i] - shift);
    return sum_row(out, n);
}

static void softmax_grad_row(const float *y, const float *dy, int64_t n, float dot, float *dx)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

static void log_softmax_grad_row(const float *y, const float *dy, int64_t n, float sum, float *dx)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] - exp_f32(y[i]) * sum;
}

void CPU_NAME(weft__fill_reduce)(cpu_kernels *table)
{
    table->sum_row = sum_row;
    table->dot_row = dot_row;
    table->max_row = max_row;
    table->min_row = min_row;
    table->sum_columns = sum_columns;
    table->max_columns = max_columns;
    table->min_columns = min_columns;
    table->exp_row = exp_row;
    table->softmax_grad_row = softmax_grad_row;
    table->log_softmax_grad_row = log_softmax_grad_row;
}
