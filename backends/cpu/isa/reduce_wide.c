/* backends/cpu/isa/reduce_wide.c -- reductions and scans of rows in double and 64-bit integers,
 * where float32 is not sufficient. */
#include <math.h>

#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

enum { CHAINS = 8 };

/* ---- loads ---------------------------------------------------------------------------------- */

#define LOAD(type, TO, VALUE)                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type e = ((const type *)x)[i * stride];                                                    \
        out[i] = (TO)(VALUE);                                                                      \
    }                                                                                              \
    break

static void load_reals(weft_dtype dtype, const void *x, int64_t stride, double *out, int64_t n)
{
    switch (dtype) {
    case WEFT_FLOAT64:
        LOAD(double, double, e);
    case WEFT_FLOAT32:
        LOAD(float, double, e);
    case WEFT_BFLOAT16:
        LOAD(uint16_t, double, weft_bfloat16_to_float(e));
    default:
        LOAD(uint16_t, double, weft_float16_to_float(e));
    }
}

static void load_wholes(weft_dtype dtype, const void *x, int64_t stride, int64_t *out, int64_t n)
{
    switch (dtype) {
    case WEFT_INT8:
        LOAD(int8_t, int64_t, e);
    case WEFT_INT16:
        LOAD(int16_t, int64_t, e);
    case WEFT_INT32:
        LOAD(int32_t, int64_t, e);
    case WEFT_UINT16:
        LOAD(uint16_t, int64_t, e);
    case WEFT_UINT32:
        LOAD(uint32_t, int64_t, e);
    case WEFT_INT64:
    case WEFT_UINT64:
        LOAD(int64_t, int64_t, e);
    default:
        LOAD(uint8_t, int64_t, e);
    }
}

/* 1 where the element is nonzero; NaN is nonzero. */
static void load_truths(weft_dtype dtype, const void *x, int64_t stride, int64_t *out, int64_t n)
{
    switch (dtype) {
    case WEFT_FLOAT64:
        LOAD(double, int64_t, e != 0);
    case WEFT_FLOAT32:
        LOAD(float, int64_t, e != 0);
    case WEFT_BFLOAT16:
    case WEFT_FLOAT16:
        LOAD(uint16_t, int64_t, (e & 0x7fff) != 0);
    default:
        switch (weft_dtype_size(dtype)) {
        case 1:
            LOAD(uint8_t, int64_t, e != 0);
        case 2:
            LOAD(uint16_t, int64_t, e != 0);
        case 4:
            LOAD(uint32_t, int64_t, e != 0);
        default:
            LOAD(uint64_t, int64_t, e != 0);
        }
    }
}
#undef LOAD

/* ---- folds: to one value, and elementwise ---------------------------------------------------- */

/* Eight accumulators, so that an element need not wait for the previous one. */
#define FOLD(type, FIRST, JOIN)                                                                    \
    do {                                                                                           \
        type chains[CHAINS], b;                                                                    \
        int64_t i = 0;                                                                             \
        for (int c = 0; c < CHAINS; c++)                                                           \
            chains[c] = (FIRST);                                                                   \
        for (; i + CHAINS <= n; i += CHAINS)                                                       \
            for (int c = 0; c < CHAINS; c++) {                                                     \
                type a = chains[c];                                                                \
                b = x[i + c];                                                                      \
                chains[c] = (JOIN);                                                                \
            }                                                                                      \
        type a = chains[0];                                                                        \
        for (int c = 1; c < CHAINS; c++) {                                                         \
            b = chains[c];                                                                         \
            a = (JOIN);                                                                            \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            b = x[i];                                                                              \
            a = (JOIN);                                                                            \
        }                                                                                          \
        return a;                                                                                  \
    } while (0)

#define ACROSS(type, JOIN)                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type a = sums[i], b = x[i];                                                                \
        sums[i] = (JOIN);                                                                          \
    }                                                                                              \
    break

#define LARGER (((b > a) | (b != b)) != 0 ? b : a)
#define SMALLER (((b < a) | (b != b)) != 0 ? b : a)

static double fold_reals(cpu_fold fold, const double *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        FOLD(double, 0, a + b);
    case CPU_PROD:
        FOLD(double, 1, a *b);
    case CPU_MAX:
        FOLD(double, -INFINITY, LARGER);
    default:
        FOLD(double, INFINITY, SMALLER);
    }
}

static void fold_reals_across(cpu_fold fold, double *sums, const double *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        ACROSS(double, a + b);
    case CPU_PROD:
        ACROSS(double, a *b);
    case CPU_MAX:
        ACROSS(double, LARGER);
    default:
        ACROSS(double, SMALLER);
    }
}
#undef LARGER
#undef SMALLER

/* Sums and products wrap. */
#define PLUS ((int64_t)((uint64_t)a + (uint64_t)b))
#define TIMES ((int64_t)((uint64_t)a * (uint64_t)b))
#define LARGER (b > a ? b : a)
#define SMALLER (b < a ? b : a)

static int64_t fold_wholes(cpu_fold fold, const int64_t *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        FOLD(int64_t, 0, PLUS);
    case CPU_PROD:
        FOLD(int64_t, 1, TIMES);
    case CPU_MAX:
        FOLD(int64_t, INT64_MIN, LARGER);
    default:
        FOLD(int64_t, INT64_MAX, SMALLER);
    }
}

static void fold_wholes_across(cpu_fold fold, int64_t *sums, const int64_t *x, int64_t n)
{
    switch (fold) {
    case CPU_SUM:
        ACROSS(int64_t, PLUS);
    case CPU_PROD:
        ACROSS(int64_t, TIMES);
    case CPU_MAX:
        ACROSS(int64_t, LARGER);
    default:
        ACROSS(int64_t, SMALLER);
    }
}
#undef FOLD
#undef ACROSS

/* ---- squares of deviations ------------------------------------------------------------------ */

static double squares_row(const double *x, double mean, int64_t n)
{
    double chains[CHAINS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int c = 0; c < CHAINS; c++)
            chains[c] += (x[i + c] - mean) * (x[i + c] - mean);
    for (int c = 0; c < CHAINS; c++)
        sum += chains[c];
    for (; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void squares_across(double *sums, const double *x, const double *means, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += (x[i] - means[i]) * (x[i] - means[i]);
}

void CPU_NAME(weft__fill_reduce_wide)(cpu_kernels *table)
{
    table->load_reals = load_reals;
    table->load_wholes = load_wholes;
    table->load_truths = load_truths;
    table->fold_reals = fold_reals;
    table->fold_reals_across = fold_reals_across;
    table->fold_wholes = fold_wholes;
    table->fold_wholes_across = fold_wholes_across;
    table->squares_row = squares_row;
    table->squares_across = squares_across;
}
