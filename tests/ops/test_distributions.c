/* tests/ops/test_distributions.c -- random numbers against JAX's and MLX's for the same keys, and
 * against the distribution functions (Kolmogorov-Smirnov, chi-square). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/random.h"

static const uint64_t seeds[] = {0, 1, 42, (UINT64_C(1) << 63) + 12345};
enum { SEEDS = sizeof seeds / sizeof *seeds, MANY = 1 << 16 };

static const char *named(const char *kind, int number)
{
    static char name[64];
    snprintf(name, sizeof name, "%s.%d", kind, number);
    return name;
}

static void randint_is_that_of_jax(void)
{
    static const struct {
        weft_dtype dtype;
        int ranges;
    } kinds[] = {{WEFT_INT8, 2},  {WEFT_UINT8, 2},  {WEFT_INT16, 1}, {WEFT_UINT16, 1},
                 {WEFT_INT32, 3}, {WEFT_UINT32, 1}, {WEFT_INT64, 2}, {WEFT_UINT64, 1}};
    if (!golden_open("ops/random")) {
        return;
    }
    weft_scope_open();
    for (int s = 0; s < SEEDS; s++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            for (int r = 0; r < kinds[k].ranges; r++) {
                char name[96];
                int64_t ends[2];
                snprintf(name, sizeof name, "bounds.%s.%d", weft_dtype_name(kinds[k].dtype), r);
                CHECK_OK(weft_read(golden_get(name), WEFT_INT64, ends, 2));
                snprintf(name, sizeof name, "randint.%d.%s.%d", s, weft_dtype_name(kinds[k].dtype),
                         r);
                weft_array *x = weft_random_randint(weft_random_key(seeds[s]), WEFT_DIMS(3, 7),
                                                    ends[0], ends[1], kinds[k].dtype);
                CHECK_EQ_INT(weft_dtype_of(x), kinds[k].dtype);
                golden_check(x, name, 0);
            }
        }
        weft_array *low = weft_arange(0, 5, 1, WEFT_INT32);
        weft_array *high = weft_add_scalar(weft_scale(weft_arange(0, 5, 1, WEFT_INT32), 7), 3);
        weft_array *x = weft_random_randint_array(weft_random_key(seeds[s]), WEFT_DIMS(4, 5), low,
                                                  high, WEFT_INT32);
        golden_check(x, named("randint_array", s), 0);
    }
    weft_scope_close(NULL);
    golden_close();
}

static weft_array *floats(const float *x, int64_t n)
{
    return weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(n));
}

/* The words are the same and so are the formulas; functions may differ in the last bits. */
static void formulas_are_those_of_mlx(void)
{
    const float low[] = {-1, 0, 2}, high[] = {0.5f, 8, 3}, p[] = {0.1f, 0.5f, 0.9f};
    if (!golden_open("ops/random")) {
        return;
    }
    for (int s = 0; s < SEEDS; s++) {
        weft_scope_open();
        weft_array *key = weft_random_key(seeds[s]);
        weft_dims shape = WEFT_DIMS(4, 3), row = WEFT_DIMS(17);
        weft_dtype f = WEFT_FLOAT32;
        golden_check(weft_random_uniform_array(key, shape, floats(low, 3), floats(high, 3), f),
                     named("uniform", s), 5e-7);
        golden_check(weft_random_normal_array(key, shape, floats(low, 3), floats(high, 3), f),
                     named("normal", s), 1e-6);
        golden_check(weft_random_bernoulli_array(key, WEFT_DIMS(20, 3), floats(p, 3)),
                     named("bernoulli", s), 0);
        golden_check(weft_random_truncated_normal(key, row, -1.5, 2, f), named("truncated", s),
                     2e-6);
        golden_check(weft_random_gumbel(key, row, f), named("gumbel", s), 1e-6);
        golden_check(weft_random_laplace(key, row, 1, 2, f), named("laplace", s), 1e-6);
        golden_check(weft_random_permutation(key, 31), named("permutation", s), 0);
        weft_array *grid = weft_reshape(weft_arange(0, 24, 1, WEFT_INT32), WEFT_DIMS(4, 6));
        golden_check(weft_random_permute(key, grid, 1), named("permuted", s), 0);
        weft_array *logits = weft_add_scalar(weft_scale(weft_arange(0, 15, 1, f), 1.0 / 7), -1);
        logits = weft_reshape(logits, WEFT_DIMS(3, 5));
        CHECK_OK(weft_eval(logits)); /* it is used more than once */
        golden_check(weft_random_categorical(key, logits, -1), named("categorical", s), 0);
        golden_check(weft_random_categorical_n(key, logits, 0, 6), named("categorical_n", s), 0);
        golden_check(weft_random_categorical_shape(key, logits, -1, WEFT_DIMS(4, 3)),
                     named("categorical_shape", s), 0);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* The words are the same, and so are the factors up to rounding. */
static void multivariate_is_that_of_mlx_and_jax(void)
{
    const weft_dtype f = WEFT_FLOAT32;
    const weft_dims five = WEFT_DIMS(5);
    if (!golden_open("ops/random")) {
        return;
    }
    for (int s = 0; s < SEEDS; s++) {
        weft_scope_open();
        weft_array *key = weft_random_key(seeds[s]);
        weft_array *mean = golden_get("multivariate_mean");
        weft_array *covariance = golden_get("multivariate_covariance");
        golden_check(
            weft_random_multivariate_normal(key, five, mean, covariance, WEFT_NORMAL_SVD, f),
            named("multivariate_svd", s), 3e-6);
        golden_check(
            weft_random_multivariate_normal(key, five, mean, covariance, WEFT_NORMAL_EIGH, f),
            named("multivariate_svd", s), 3e-6);
        golden_check(
            weft_random_multivariate_normal(key, five, mean, covariance, WEFT_NORMAL_CHOLESKY, f),
            named("multivariate_cholesky", s), 2e-5 /* JAX's normal numbers */);
        golden_check(weft_random_multivariate_normal(
                         key, WEFT_SCALAR, golden_get("multivariate_means"),
                         golden_get("multivariate_covariances"), WEFT_NORMAL_SVD, f),
                     named("multivariate_batch", s), 6e-6);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* Of MANY draws the covariance is within five standard errors, sqrt((c_ii c_jj + c_ij^2) / MANY);
 * the matrix has rank 2, so the third number is the sum of the others. */
static void multivariate_has_its_covariance(void)
{
    static const float c[9] = {2, -0.5f, 1.5f, -0.5f, 1, 0.5f, 1.5f, 0.5f, 2};
    weft_scope_open();
    weft_array *mean = weft_keep(weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32));
    weft_array *covariance = weft_keep(weft_from_data(c, WEFT_FLOAT32, WEFT_DIMS(3, 3)));
    for (int method = WEFT_NORMAL_SVD; method <= WEFT_NORMAL_EIGH; method++) {
        double got[9];
        float most;
        weft_array *x =
            weft_random_multivariate_normal(weft_random_key(5), WEFT_DIMS(MANY), mean, covariance,
                                            (weft_normal_method)method, WEFT_FLOAT32);
        weft_keep(x);
        weft_array *product = weft_matmul(weft_swapaxes(x, -1, -2), x);
        CHECK_OK(weft_read(weft_scale(product, 1.0 / (double)MANY), WEFT_FLOAT64, got, 9));
        for (int i = 0; i < 9; i++) {
            double variance = (double)(c[i / 3 * 4] * c[i % 3 * 4] + c[i] * c[i]) / (double)MANY;
            CHECK_CLOSE(got[i], (double)c[i], 5 * sqrt(variance));
        }
        weft_array *sum = weft_add(weft_slice_axis(x, 1, 0, 1), weft_slice_axis(x, 1, 1, 2));
        weft_array *off = weft_abs(weft_subtract(weft_slice_axis(x, 1, 2, 3), sum));
        CHECK_OK(weft_read(weft_max(off, WEFT_ALL_AXES, false), WEFT_FLOAT32, &most, 1));
        weft_drop(x);
        CHECK((double)most < 5e-3); /* the square root of the eigenvalue 0 after rounding */
    }
    CHECK(strstr(weft_error(weft_random_multivariate_normal(NULL, WEFT_DIMS(2), mean, mean,
                                                            WEFT_NORMAL_SVD, WEFT_FLOAT32)),
                 "expected a mean of (..., N)"));
    weft_drop(mean);
    weft_drop(covariance);
    weft_scope_close(NULL);
}

/* ---- distribution functions ----------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov: the largest distance from the distribution function is below
 * 1.95 / sqrt(n), which fails once in a thousand; the keys are fixed. `step` is what rounding to
 * the dtype adds. */
static void follows(weft_array *a, double (*function)(double), double step)
{
    double *x = malloc(MANY * sizeof *x), worst = 0;
    if (CHECK(x) && CHECK_OK(weft_read(a, WEFT_FLOAT64, x, MANY))) {
        qsort(x, MANY, sizeof *x, ascending);
        for (int i = 0; i < MANY; i++) {
            double f = function(x[i]);
            worst = fmax(worst, fmax(fabs(f - (double)i / (double)MANY),
                                     fabs(f - (i + 1.0) / (double)MANY)));
        }
        CHECK_CLOSE(worst, 0, 1.95 / sqrt(MANY) + step);
    }
    free(x);
}

static double normal_function(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double truncated_function(double x)
{
    double low = normal_function(-0.5), high = normal_function(3);
    return (normal_function(x) - low) / (high - low);
}

static double gumbel_function(double x)
{
    return exp(-exp(-x));
}

/* Mean 1, scale 2. */
static double laplace_function(double x)
{
    double z = (x - 1) / 2;
    return z < 0 ? 0.5 * exp(z) : 1 - 0.5 * exp(-z);
}

static double uniform_function(double x)
{
    return (x + 3) / 8;
}

static void samples_follow_their_distributions(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT16};
    static const double steps[] = {0, 0, 0x1p-6, 0x1p-9};
    weft_dims shape = WEFT_DIMS(MANY);
    for (int d = 0; d < 4; d++) {
        weft_scope_open();
        weft_dtype t = dtypes[d];
        uint64_t k = 100 + (uint64_t)d;
        follows(weft_random_normal_array(weft_random_key(k), shape, NULL, NULL, t), normal_function,
                steps[d]);
        follows(weft_random_truncated_normal(weft_random_key(k + 10), shape, -0.5, 3, t),
                truncated_function, steps[d]);
        follows(weft_random_gumbel(weft_random_key(k + 20), shape, t), gumbel_function, steps[d]);
        follows(weft_random_laplace(weft_random_key(k + 30), shape, 1, 2, t), laplace_function,
                steps[d]);
        follows(weft_random_uniform_array(weft_random_key(k + 40), shape,
                                          weft_scalar(-3, WEFT_FLOAT32),
                                          weft_scalar(5, WEFT_FLOAT32), t),
                uniform_function, steps[d]);
        weft_scope_close(NULL);
    }
}

/* Chi-square with 12 degrees of freedom is above 32.9 once in a thousand. */
static void integers_are_uniform(void)
{
    static const weft_dtype dtypes[] = {WEFT_INT8, WEFT_UINT16, WEFT_INT32, WEFT_UINT64};
    for (int d = 0; d < 4; d++) {
        double x[MANY], squares = 0;
        int64_t counts[13] = {0};
        weft_scope_open();
        int64_t low = weft_dtype_is_signed(dtypes[d]) ? -6 : 0;
        weft_array *a = weft_random_randint(weft_random_key(7 + (uint64_t)d), WEFT_DIMS(MANY), low,
                                            low + 13, dtypes[d]);
        CHECK_OK(weft_read(a, WEFT_FLOAT64, x, MANY));
        for (int i = 0; i < MANY; i++) {
            int64_t at = (int64_t)x[i] - low;
            if (!CHECK(at >= 0 && at < 13)) {
                break;
            }
            counts[at]++;
        }
        for (int i = 0; i < 13; i++) {
            double expected = (double)MANY / 13.0, off = (double)counts[i] - expected;
            squares += off * off / expected;
        }
        CHECK(squares < 32.9);
        weft_scope_close(NULL);
    }
}

static void permutations_have_each_element_once(void)
{
    double first = 0;
    weft_scope_open();
    for (uint64_t k = 0; k < 400; k++) {
        weft_array *order = weft_random_permutation(weft_random_key(k), 10);
        CHECK_OK(weft_eval(order));
        CHECK(weft_item_int(
            weft_array_equal(weft_sort(order, 0), weft_arange(0, 10, 1, WEFT_UINT32), false)));
        first += weft_item(weft_slice_axis(order, 0, 0, 1));
    }
    CHECK_CLOSE(first / 400, 4.5, 0.5); /* 3.5 standard deviations of the mean */
    CHECK_EQ_INT(weft_size(weft_random_permutation(weft_random_key(0), 0)), 0);
    weft_scope_close(NULL);
}

/* Every float is below the upper bound, whatever the bounds and the rounding. */
static void array_bounds_are_kept(void)
{
    static const double lows[] = {0, 1, -1, -3, -0.5, 1e-3}, highs[] = {1, 2, 0, -1, 0.5, 1e3};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT16};
    for (int d = 0; d < 4; d++) {
        weft_scope_open();
        weft_array *low = weft_from_data(lows, WEFT_FLOAT64, WEFT_DIMS(6));
        weft_array *high = weft_from_data(highs, WEFT_FLOAT64, WEFT_DIMS(6));
        low = weft_astype(low, dtypes[d]);
        high = weft_astype(high, dtypes[d]);
        weft_array *x = weft_random_uniform_array(weft_random_key(3), WEFT_DIMS(20000, 6), low,
                                                  high, dtypes[d]);
        CHECK_OK(weft_eval(x));
        CHECK_EQ_INT(weft_dtype_of(x), dtypes[d]);
        CHECK(weft_item_int(weft_all(weft_less(x, high), WEFT_ALL_AXES, false)));
        CHECK(weft_item_int(weft_all(weft_greater_equal(x, low), WEFT_ALL_AXES, false)));
        weft_scope_close(NULL);
    }
}

/* All elements of x are `value`. */
static void check_all(weft_array *x, double value)
{
    double got[64];
    int64_t n = weft_size(x);
    CHECK(n <= 64);
    CHECK_OK(weft_read(x, WEFT_FLOAT64, got, n));
    for (int64_t i = 0; i < n; i++) {
        CHECK_CLOSE(got[i], value, 0);
    }
}

/* Equal bounds, a scale of 0 and certain events leave one possible value; with bounds far out in
 * one tail, values are in range and near its densest end. */
static void degenerate_parameters_leave_one_value(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16, WEFT_BFLOAT16};
    weft_dims n = {1, {50}};
    weft_scope_open();
    weft_array *key = weft_random_key(4);
    CHECK_OK(weft_eval(key));
    for (int d = 0; d < 4; d++) {
        weft_array *low = weft_scalar(-3, dtypes[d]), *two = weft_full(n, 2, dtypes[d]);
        check_all(weft_random_uniform(key, n, 2.5, 2.5, dtypes[d]), 2.5);
        check_all(weft_random_uniform(key, n, 0, 0, dtypes[d]), 0);
        check_all(weft_random_uniform_array(key, n, low, low, dtypes[d]), -3);
        check_all(weft_random_normal(key, n, 1.5, 0, dtypes[d]), 1.5);
        check_all(weft_random_normal_array(key, n, two, weft_scalar(0, dtypes[d]), dtypes[d]), 2);
        check_all(weft_random_laplace(key, n, -4, 0, dtypes[d]), -4);
        check_all(weft_random_truncated_normal(key, n, 0.5, 0.5, dtypes[d]), 0.5);
        check_all(weft_random_truncated_normal(key, n, 30, 32, dtypes[d]), 30);
        check_all(weft_random_truncated_normal(key, n, -32, -30, dtypes[d]), -30);
    }
    check_all(weft_astype(weft_random_bernoulli(key, n, 0), WEFT_FLOAT32), 0);
    check_all(weft_astype(weft_random_bernoulli(key, n, 1), WEFT_FLOAT32), 1);
    check_all(weft_random_randint(key, n, 1, 2, WEFT_BOOL), 1);
    check_all(weft_random_randint(key, n, 0, 1, WEFT_BOOL), 0);
    weft_array *both = weft_random_randint(key, WEFT_DIMS(10000), 0, 2, WEFT_BOOL);
    CHECK_EQ_INT(weft_dtype_of(both), WEFT_BOOL);
    CHECK_CLOSE(weft_item(weft_mean(both, WEFT_ALL_AXES, false)), 0.5, 0.02);
    weft_array *zero = weft_scalar_int(0, WEFT_INT32), *two = weft_scalar_int(2, WEFT_INT32);
    weft_array *drawn = weft_random_randint_array(key, WEFT_DIMS(10000), zero, two, WEFT_BOOL);
    CHECK_EQ_INT(weft_dtype_of(drawn), WEFT_BOOL);
    CHECK_CLOSE(weft_item(weft_mean(drawn, WEFT_ALL_AXES, false)), 0.5, 0.02);
    check_all(weft_random_randint(key, n, 7, 8, WEFT_INT64), 7);
    check_all(weft_random_randint(key, n, INT64_MAX - 1, INT64_MAX, WEFT_INT64), 0x1p63);
    check_all(weft_random_permutation(key, 1), 0);
    check_all(weft_random_categorical(key, weft_zeros(WEFT_DIMS(5, 1), WEFT_FLOAT32), -1), 0);
    check_all(weft_random_multivariate_normal(key, n, weft_ones(WEFT_DIMS(1), WEFT_FLOAT32),
                                              weft_zeros(WEFT_DIMS(1, 1), WEFT_FLOAT32),
                                              WEFT_NORMAL_SVD, WEFT_FLOAT32),
              1);
    weft_scope_close(NULL);
}

static void bad_arguments_say_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *key = weft_random_key(0), *none = NULL;
    CHECK_CONTAINS(weft_error(weft_random_randint(key, WEFT_DIMS(2), 0, 3, WEFT_BOOL)),
                   "expected low < high in bool, got 0 and 3");
    CHECK_CONTAINS(weft_error(weft_random_randint(key, WEFT_DIMS(2), 3, 3, WEFT_INT32)),
                   "low < high in int32, got 3 and 3");
    CHECK_CONTAINS(weft_error(weft_random_randint(key, WEFT_DIMS(2), 0, 300, WEFT_UINT8)), "uint8");
    CHECK_CONTAINS(weft_error(weft_random_randint(key, WEFT_DIMS(2), 0, 3, WEFT_FLOAT32)),
                   "integer dtype or bool, got float32");
    CHECK_CONTAINS(weft_error(weft_random_gumbel(key, WEFT_DIMS(2), WEFT_INT8)),
                   "floating dtype, got int8");
    CHECK_CONTAINS(weft_error(weft_random_truncated_normal(key, WEFT_DIMS(2), 2, 1, WEFT_FLOAT32)),
                   "lower <= upper");
    CHECK_CONTAINS(weft_error(weft_random_permutation(key, -1)), "n >= 0");
    CHECK_CONTAINS(weft_error(weft_random_permute(key, weft_ones(WEFT_DIMS(2), WEFT_INT8), 1)),
                   "axis 1");
    CHECK_CONTAINS(weft_error(weft_random_categorical_shape(
                       key, weft_ones(WEFT_DIMS(2, 3, 4), WEFT_FLOAT32), -1, WEFT_DIMS(2))),
                   "a shape of rank 1");
    weft_random_seed(9); /* a missing key is the default generator's next */
    weft_array *a = weft_random_gumbel(none, WEFT_DIMS(3), WEFT_FLOAT32);
    weft_random_seed(9);
    weft_array *b = weft_random_gumbel(weft_random_next_key(), WEFT_DIMS(3), WEFT_FLOAT32);
    CHECK(weft_item_int(weft_array_equal(a, b, false)));
    weft_random_seed(9);
    CHECK_EQ_INT(weft_size(weft_random_randint(none, WEFT_DIMS(3), 0, 9, WEFT_INT32)), 3);
    weft_array *first, *second;
    weft_random_split_pair(key, &first, &second);
    CHECK_EQ_INT(weft_size(first) + weft_size(second), 4);
    weft_scope_close(NULL);
}

CHECK_MAIN("distributions", CHECK_CASE(randint_is_that_of_jax),
           CHECK_CASE(formulas_are_those_of_mlx), CHECK_CASE(multivariate_is_that_of_mlx_and_jax),
           CHECK_CASE(multivariate_has_its_covariance),
           CHECK_CASE(samples_follow_their_distributions), CHECK_CASE(integers_are_uniform),
           CHECK_CASE(permutations_have_each_element_once), CHECK_CASE(array_bounds_are_kept),
           CHECK_CASE(degenerate_parameters_leave_one_value),
           CHECK_CASE(bad_arguments_say_what_is_wrong))
