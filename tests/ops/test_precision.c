/* tests/ops/test_precision.c -- precision of sums in 16-bit floats: an error of at most one unit in
 * the last place of the dtype and n 2^-24 of the sum of the terms' magnitudes, by the device's
 * kernels and by the definitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/hidden.h"
#include "weft/ops.h"

enum { ROWS = 2 };

static const int64_t sizes[] = {1, 7, 1000, 4097, 100000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ROWS rows of n numbers of the dtype, mostly positive, whose sums need a wide accumulator. */
typedef struct sample {
    weft_dtype dtype;
    int64_t n;
    double *x;     /* the elements */
    weft_array *a; /* (ROWS, n) */
} sample;

static uint64_t state;

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) * 0x1p-53;
}

static sample make(weft_dtype dtype, int64_t n)
{
    sample s = {dtype, n, malloc((size_t)(ROWS * n) * sizeof(double)), NULL};
    state = 17 + (uint64_t)n;
    for (int64_t i = 0; i < ROWS * n; i++) {
        s.x[i] = draw() * 1.5 - 0.25;
    }
    s.a = weft_astype(weft_from_data(s.x, WEFT_FLOAT64, WEFT_DIMS(ROWS, n)), dtype);
    CHECK_OK(weft_read(s.a, WEFT_FLOAT64, s.x, ROWS * n));
    return s;
}

static double unit_at(weft_dtype dtype, double value)
{
    int digits = dtype == WEFT_BFLOAT16 ? 8 : dtype == WEFT_FLOAT16 ? 11 : 24, exponent;
    int least = dtype == WEFT_FLOAT16 ? -13 : -125;
    frexp(value, &exponent);
    return ldexp(1, (exponent > least ? exponent : least) - digits);
}

/* Compares n elements with the expected ones; magnitudes[i]: the sum of the magnitudes of element
 * i's `terms` terms. */
static void expect(weft_array *actual, const double *expected, const double *magnitudes, int64_t n,
                   double terms, const char *label)
{
    double *y = malloc((size_t)n * sizeof *y);
    weft_dtype dtype = weft_dtype_of(actual);
    if (CHECK_OK(weft_read(actual, WEFT_FLOAT64, y, n))) {
        for (int64_t i = 0; i < n; i++) {
            double bound = unit_at(dtype, expected[i]) + terms * 0x1p-24 * magnitudes[i];
            /* A running product that was flushed stays zero while this grows again. */
            if (check_may_be_flushed(expected[i] * 0x1p-26))
                continue;
            bool overflow = dtype == WEFT_FLOAT16 && fabs(expected[i]) > 65504;
            if (!(fabs(y[i] - expected[i]) <= bound) && !(overflow && isinf(y[i]))) {
                CHECK_FAIL("%s (%s, %lld terms, %s): element %lld: expected %.9g, got %.9g", label,
                           weft_dtype_name(dtype), (long long)terms,
                           weft_device_name(weft_default_device()), (long long)i, expected[i],
                           y[i]);
                break;
            }
        }
    }
    free(y);
}

/* ---- reductions ----------------------------------------------------------------------------- */

static void reductions(const sample *s)
{
    double sum[ROWS] = {0}, size[ROWS] = {0}, mean[ROWS], var[ROWS] = {0}, average[ROWS];
    double spread[ROWS], total[ROWS], logs[ROWS], one[ROWS] = {1, 1};
    for (int r = 0; r < ROWS; r++) {
        const double *x = s->x + r * s->n;
        for (int64_t i = 0; i < s->n; i++) {
            sum[r] += x[i];
            size[r] += fabs(x[i]);
        }
        mean[r] = sum[r] / (double)s->n;
        average[r] = size[r] / (double)s->n;
        total[r] = 0;
        for (int64_t i = 0; i < s->n; i++) {
            var[r] += (x[i] - mean[r]) * (x[i] - mean[r]) / (double)s->n;
            total[r] += exp(x[i]);
        }
        spread[r] = sqrt(var[r]);
        logs[r] = log(total[r]);
    }
    double n = (double)s->n;
    expect(weft_sum(s->a, WEFT_DIMS(-1), false), sum, size, ROWS, n, "sum");
    expect(weft_mean(s->a, WEFT_DIMS(-1), false), mean, average, ROWS, n, "mean");
    expect(weft_var(s->a, WEFT_DIMS(-1), false, 0), var, var, ROWS, n, "var");
    expect(weft_std(s->a, WEFT_DIMS(-1), false, 0), spread, spread, ROWS, n, "std");
    expect(weft_logsumexp(s->a, WEFT_DIMS(-1), false), logs, one, ROWS, n, "logsumexp");
    /* The same elements in columns. */
    weft_array *columns = weft_contiguous(weft_transpose(s->a, WEFT_DIMS(1, 0)));
    expect(weft_sum(columns, WEFT_DIMS(0), false), sum, size, ROWS, n, "sum of columns");
    columns = weft_contiguous(weft_transpose(s->a, WEFT_DIMS(1, 0)));
    expect(weft_mean(columns, WEFT_DIMS(0), false), mean, average, ROWS, n, "mean of columns");
}

/* ---- scans, softmax and norms --------------------------------------------------------------- */

typedef struct results {
    double *y, *magnitude;
} results;

static results room_for(const sample *s)
{
    size_t bytes = (size_t)(ROWS * s->n) * sizeof(double);
    return (results){malloc(bytes), malloc(bytes)};
}

static void expect_all(const sample *s, weft_array *actual, results r, const char *label)
{
    expect(actual, r.y, r.magnitude, ROWS * s->n, (double)s->n, label);
    free(r.y);
    free(r.magnitude);
}

static void scans(const sample *s)
{
    results sums = room_for(s), products = room_for(s), logs = room_for(s);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, size = 0, product = 1, total = 0;
        for (int64_t i = r * s->n; i < (r + 1) * s->n; i++) {
            sums.y[i] = sum += s->x[i];
            sums.magnitude[i] = size += fabs(s->x[i]);
            products.y[i] = product *= s->x[i];
            products.magnitude[i] = fabs(product);
            total += exp(s->x[i]);
            logs.y[i] = log(total);
            logs.magnitude[i] = 1;
        }
    }
    expect_all(s, weft_cumsum(s->a, -1, false, true), sums, "cumsum");
    expect_all(s, weft_cumprod(s->a, -1, false, true), products, "cumprod");
    expect_all(s, weft_logcumsumexp(s->a, -1, false, true), logs, "logcumsumexp");
}

static void softmax_and_norms(const sample *s)
{
    results soft = room_for(s), rms = room_for(s), layer = room_for(s);
    for (int r = 0; r < ROWS; r++) {
        const double *x = s->x + r * s->n;
        double total = 0, squares = 0, mean = 0, var = 0, n = (double)s->n;
        for (int64_t i = 0; i < s->n; i++) {
            total += exp(x[i]);
            squares += x[i] * x[i] / n;
            mean += x[i] / n;
        }
        for (int64_t i = 0; i < s->n; i++) {
            var += (x[i] - mean) * (x[i] - mean) / n;
        }
        for (int64_t i = 0; i < s->n; i++) {
            int64_t at = r * s->n + i;
            soft.y[at] = soft.magnitude[at] = exp(x[i]) / total;
            rms.y[at] = x[i] / sqrt(squares + 1e-3);
            rms.magnitude[at] = fabs(rms.y[at]);
            layer.y[at] = (x[i] - mean) / sqrt(var + 1e-3);
            layer.magnitude[at] = (fabs(x[i]) + fabs(mean)) / sqrt(var + 1e-3);
        }
    }
    expect_all(s, weft_softmax(s->a, -1), soft, "softmax");
    expect_all(s, weft_rms_norm(s->a, NULL, 1e-3, 0), rms, "rms_norm");
    expect_all(s, weft_layer_norm(s->a, NULL, NULL, 1e-3), layer, "layer_norm");
}

/* ---- products ------------------------------------------------------------------------------- */

/* Row by row with themselves: (ROWS, n) (n, ROWS). */
static void products(const sample *s)
{
    double y[ROWS * ROWS] = {0}, size[ROWS * ROWS] = {0};
    for (int a = 0; a < ROWS; a++) {
        for (int b = 0; b < ROWS; b++) {
            for (int64_t i = 0; i < s->n; i++) {
                double term = s->x[a * s->n + i] * s->x[b * s->n + i];
                y[a * ROWS + b] += term;
                size[a * ROWS + b] += fabs(term);
            }
        }
    }
    double n = (double)s->n;
    weft_array *turned = weft_transpose(s->a, WEFT_DIMS(1, 0));
    expect(weft_matmul(s->a, turned), y, size, ROWS * ROWS, n, "matmul");
    turned = weft_contiguous(weft_transpose(s->a, WEFT_DIMS(1, 0)));
    expect(weft_matmul(s->a, turned), y, size, ROWS * ROWS, n, "matmul of rows");
    expect(weft_linear(s->a, s->a, NULL), y, size, ROWS * ROWS, n, "linear");
}

/* The definitions are tested once, with the CPU. */
static int ways(void)
{
    return weft_default_device() == weft_device_get("cpu") ? 2 : 1;
}

static void all_sizes(void (*check)(const sample *))
{
    static const weft_dtype dtypes[] = {WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT32};
    weft_device *tested = weft_default_device();
    int n_ways = ways();
    for (int d = 0; d < 3; d++) {
        for (int i = 0; i < SIZES; i++) {
            for (int by_definition = 0; by_definition < n_ways; by_definition++) {
                weft_set_default_device(by_definition ? hidden_device() : tested);
                weft_scope_open();
                sample s = make(dtypes[d], sizes[i]);
                check(&s);
                free(s.x);
                weft_scope_close(NULL);
            }
        }
    }
    weft_set_default_device(tested);
}

static void reductions_are_rounded_once(void)
{
    all_sizes(reductions);
}

static void scans_are_rounded_once(void)
{
    all_sizes(scans);
}

static void softmax_and_norms_are_rounded_once(void)
{
    all_sizes(softmax_and_norms);
}

static void products_are_rounded_once(void)
{
    all_sizes(products);
}

/* 70000 to the nearest bfloat16, where adding in bfloat16 stops at 256. */
static void seventy_thousand_ones(void)
{
    weft_device *tested = weft_default_device();
    int n_ways = ways();
    for (int by_definition = 0; by_definition < n_ways; by_definition++) {
        weft_set_default_device(by_definition ? hidden_device() : tested);
        weft_scope_open();
        weft_array *ones = weft_ones(WEFT_DIMS(70000), WEFT_BFLOAT16);
        CHECK_OK(weft_eval(ones));
        CHECK_CLOSE(weft_item(weft_sum(ones, WEFT_ALL_AXES, false)), 70144, 0);
        CHECK_CLOSE(weft_item(weft_mean(ones, WEFT_ALL_AXES, false)), 1, 0);
        weft_array *running = weft_cumsum(ones, 0, false, true);
        CHECK_CLOSE(weft_item(weft_slice_axis(running, 0, 69999, 70000)), 70144, 0);
        weft_array *row = weft_reshape(ones, WEFT_DIMS(1, 70000));
        CHECK_CLOSE(weft_item(weft_linear(row, row, NULL)), 70144, 0);
        weft_scope_close(NULL);
    }
    weft_set_default_device(tested);
}

CHECK_MAIN("precision", CHECK_CASE(reductions_are_rounded_once), CHECK_CASE(scans_are_rounded_once),
           CHECK_CASE(softmax_and_norms_are_rounded_once), CHECK_CASE(products_are_rounded_once),
           CHECK_CASE(seventy_thousand_ones))
