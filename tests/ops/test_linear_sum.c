/* tests/ops/test_linear_sum.c -- sums of products on the CPU as one kernel, against float64 sums of
 * the same inputs; dtypes that differ from pair to pair, encoded weights, a bias, views. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/quantize.h"
#include "weft/weft.h"

enum { MOST_PAIRS = 8, MANY_ROWS = 25 };

typedef struct sum {
    int64_t rows, columns, terms[MOST_PAIRS]; /* terms end with 0 */
    bool transposed, bias;
    const char *encodings[2]; /* of the first weights, or NULL */
    weft_dtype x, w, y;
} sum;

static weft_array *draw(weft_dims shape, weft_dtype dtype)
{
    static uint64_t seed;
    return weft_astype(weft_random_uniform(weft_random_key(seed++), shape, -1, 1, WEFT_FLOAT32),
                       dtype);
}

/* The inputs of the op; every second x is a view of the rows of a wider array. */
static int draw_inputs(const sum *s, weft_array **inputs)
{
    int n = 0;
    for (int i = 0; i < MOST_PAIRS && s->terms[i] > 0; i++) {
        const int64_t K = s->terms[i];
        weft_array *x = draw(WEFT_DIMS(s->rows, K + i % 2 * 3), s->x);
        weft_array *w =
            draw(s->transposed ? WEFT_DIMS(K, s->columns) : WEFT_DIMS(s->columns, K), s->w);
        if (i < 2 && s->encodings[i]) /* of another dtype, decoded values would be rounded */
            w = weft_encode(weft_astype(w, WEFT_FLOAT32), weft_encoding_find(s->encodings[i]));
        inputs[n++] = weft_slice_axis(x, 1, 0, K);
        inputs[n++] = w;
    }
    if (s->bias)
        inputs[n++] = draw(WEFT_DIMS(s->columns), WEFT_FLOAT32);
    CHECK_OK(weft_eval_n(inputs, n));
    return n;
}

/* In float64, and the sum of the magnitudes of all terms. */
static weft_array *expected(const sum *s, weft_array **inputs, int n, weft_array **magnitude)
{
    weft_array *y = NULL, *all = NULL;
    for (int i = 0; i + 1 < n; i += 2) {
        weft_array *x = weft_astype(inputs[i], WEFT_FLOAT64), *w = inputs[i + 1];
        w = weft_astype(weft_encoding_of(w) ? weft_decode(w) : w, WEFT_FLOAT64);
        w = s->transposed ? w : weft_swapaxes(w, 0, 1);
        weft_array *part = weft_matmul(x, w), *size = weft_matmul(weft_abs(x), weft_abs(w));
        y = y ? weft_add(y, part) : part;
        all = all ? weft_add(all, size) : size;
    }
    *magnitude = all;
    return s->bias ? weft_add(y, inputs[n - 1]) : y;
}

static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 0x1p-8 : dtype == WEFT_FLOAT16 ? 0x1p-11 : 0x1p-24;
}

static void check_values(const sum *s, const char *label, weft_array *y, weft_array *want,
                         weft_array *magnitude)
{
    const int64_t n = s->rows * s->columns;
    double *values = calloc((size_t)(3 * n), sizeof *values);
    double *got = values, *exact = values + n, *all = values + 2 * n, terms = 0;
    for (int i = 0; i < MOST_PAIRS; i++)
        terms += (double)s->terms[i];
    bool fine = CHECK_OK(weft_read(y, WEFT_FLOAT64, got, n)) &&
                CHECK_OK(weft_read(want, WEFT_FLOAT64, exact, n)) &&
                CHECK_OK(weft_read(magnitude, WEFT_FLOAT64, all, n));
    for (int64_t i = 0; i < n && fine; i++) {
        /* Float32 sums of `terms` products with practically independent errors, then rounded. */
        const double bound =
            sqrt(terms) * 0x1p-24 * all[i] + 1.01 * rounding(s->y) * fabs(exact[i]) + 0x1p-25;
        fine = check_that(fabs(got[i] - exact[i]) <= bound, __FILE__, __LINE__,
                          "%s: element %lld: expected %.9g, got %.9g", label, (long long)i,
                          exact[i], got[i]);
    }
    free(values);
}

static void check_sum(const sum *s)
{
    char label[160];
    snprintf(label, sizeof label, "%s %s to %s, %lld x %lld, %lld and %lld terms ...%s%s",
             weft_dtype_name(s->x), weft_dtype_name(s->w), weft_dtype_name(s->y),
             (long long)s->rows, (long long)s->columns, (long long)s->terms[0],
             (long long)s->terms[1], s->transposed ? ", transposed" : "",
             s->encodings[0] ? s->encodings[0] : "");
    weft_scope_open();
    weft_array *inputs[2 * MOST_PAIRS + 1], *magnitude;
    const int n = draw_inputs(s, inputs);
    const weft_linear_sum_params params = {.transposed = s->transposed, .dtype = s->y};
    weft_array *y = weft_apply(weft_op_find("linear_sum"), inputs, n, &params);
    weft_array *want = expected(s, inputs, n, &magnitude);
    const int64_t before = weft_device_counts(weft_default_device()).expansions;
    CHECK_OK(weft_eval(y));
    const bool expanded = weft_device_counts(weft_default_device()).expansions > before;
    check_that(expanded == (s->rows < MANY_ROWS), __FILE__, __LINE__, "%s: %s", label,
               expanded ? "expanded" : "not expanded");
    check_values(s, label, y, want, magnitude);
    weft_scope_close(NULL);
}

static void check_dtypes(sum s)
{
    static const weft_dtype dtypes[][3] = {{WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32},
                                           {WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_BFLOAT16},
                                           {WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT16},
                                           {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT32},
                                           {WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT32}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        s.x = dtypes[d][0];
        s.w = dtypes[d][1];
        s.y = dtypes[d][2];
        check_sum(&s);
    }
}

/* Sizes with partial tiles and panels, with A in place and packed, and several passes. */
static void sums_are_those_of_float64(void)
{
    static const sum sums[] = {
        {.rows = 25, .columns = 33, .terms = {7, 16}},
        {.rows = 100, .columns = 600, .terms = {70, 16}},
        {.rows = 101, .columns = 520, .terms = {530, 1}, .bias = true},
        {.rows = 64, .columns = 48, .terms = {16, 100, 3, 5, 8, 1, 2, 9}, .bias = true},
        {.rows = 40, .columns = 1300, .terms = {2048, 16, 300}},
        {.rows = 24, .columns = 64, .terms = {64, 16}},
        {.rows = 97, .columns = 530, .terms = {90, 16, 33}, .transposed = true},
        {.rows = 26, .columns = 17, .terms = {530, 4}, .transposed = true},
    };
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        check_dtypes(sums[i]);
}

static void encoded_weights(void)
{
    static const char *const encodings[] = {"q8_0", "q4_0", "affine-4-64-float32"};
    for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++)
        for (int transposed = 0; transposed < 2; transposed++) {
            sum s = {.rows = 50,
                     .columns = 512,
                     .terms = {256, 16},
                     .transposed = transposed,
                     .encodings = {encodings[e], NULL}};
            check_dtypes(s);
            s.terms[1] = 768;
            s.terms[2] = 10;
            s.encodings[1] = "q8_0";
            check_dtypes(s);
        }
}

CHECK_MAIN("linear_sum", CHECK_CASE(sums_are_those_of_float64), CHECK_CASE(encoded_weights))
