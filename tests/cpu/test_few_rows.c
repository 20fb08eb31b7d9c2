/* tests/cpu/test_few_rows.c -- linear with few rows of x: every encoding of weights against its
 * decoded weights in float64; the same bits with any number of threads; numbers that are not
 * finite.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/cpu/tensors.h"
#include "weft/gguf.h"
#include "weft/op_params.h"
#include "weft/quantize.h"

/* Numbers of rows for which matrix-vector kernels, kernels of few rows, decoding in pieces and the
 * GEMM are used. */
static const int64_t rows_tried[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 25, 33, 192, 193};
enum { ROWS_TRIED = sizeof rows_tried / sizeof *rows_tried };

/* ---- Weights --------------------------------------------------------------------------------- */

/* HEIGHT: panels of 16 rows and a part of one. NARROW: not a whole number of superblocks. */
enum { WIDTH = 768, NARROW = 320, HEIGHT = 45 };

static const char *const encodings[] = {
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
    "mxfp4",
    "nvfp4",
    "mxfp8",
    "affine-4-32-float32",
    "affine-4-64-bfloat16",
    "affine-4-128-float16",
    "affine-6-64-float16",
    "affine-8-32-float16",
    "affine-8-64-bfloat16",
};
enum { ENCODINGS = sizeof encodings / sizeof *encodings };

typedef struct weights {
    weft_tensor t;
    owned_tensor own;
    char *blocks;
    double *decoded;
} weights;

static const weft_encoding *encoding_of(const char *name)
{
    const weft_encoding *e = weft_gguf_encoding(name);
    return e ? e : weft_encoding_find(name);
}

static void encode_rows(const weft_encoding *e, const float *w, int64_t width, char *blocks,
                        double *decoded)
{
    float row[WIDTH];
    const int64_t bytes = weft_encoding_bytes(e, width);
    for (int64_t i = 0; i < HEIGHT; i++) {
        char *to = blocks + i * bytes;
        if (e->encode)
            e->encode(e, w + i * width, width, to);
        else /* any bytes that are normal scales in float16 */
            for (int64_t j = 0; j < bytes; j++)
                to[j] = (char)(0x20 + (7 * i + 11 * j) % 16);
        e->decode(e, to, width, row);
        for (int64_t j = 0; j < width; j++)
            decoded[i * width + j] = row[j];
    }
}

/* e NULL: dense weights of the dtype. */
static weights make_weights(const weft_encoding *e, weft_dtype dtype, int64_t width)
{
    weights w = {.own = tensor_random(dtype, WEFT_DIMS(HEIGHT, width), LIE_DENSE, -1, 1, 4)};
    w.t = w.own.t;
    if (e == NULL) {
        w.decoded = tensor_doubles(&w.t);
        return w;
    }
    w.blocks = malloc((size_t)(HEIGHT * weft_encoding_bytes(e, width)));
    w.decoded = malloc((size_t)(HEIGHT * width) * sizeof *w.decoded);
    encode_rows(e, w.t.data, width, w.blocks, w.decoded);
    w.t.data = w.blocks;
    w.t.encoding = e;
    return w;
}

static void free_weights(weights *w)
{
    tensor_free(&w->own);
    free(w->blocks);
    free(w->decoded);
}

/* ---- Against decoded weights ----------------------------------------------------------------- */

/* y in y_dtype, which need not be that of x. */
static void try_encoded(const weights *w, int64_t rows, weft_dtype dtype, weft_dtype y_dtype)
{
    const int64_t width = w->t.shape.at[1];
    owned_tensor x = tensor_random(dtype, WEFT_DIMS(rows, width), LIE_DENSE, -1, 1, 3);
    owned_tensor bias = tensor_random(WEFT_FLOAT32, WEFT_DIMS(HEIGHT), LIE_DENSE, -1, 1, 5);
    owned_tensor y = tensor_empty(y_dtype, WEFT_DIMS(rows, HEIGHT));
    double *expected = malloc((size_t)(rows * HEIGHT) * sizeof *expected);
    double *xs = tensor_doubles(&x.t), *biases = tensor_doubles(&bias.t);
    double largest = 0;
    for (int64_t i = 0; i < rows * HEIGHT; i++) {
        double size = 0;
        expected[i] = biases[i % HEIGHT];
        for (int64_t p = 0; p < width; p++) {
            const double product = xs[i / HEIGHT * width + p] * w->decoded[i % HEIGHT * width + p];
            expected[i] += product;
            size += fabs(product);
        }
        largest = size > largest ? size : largest;
    }
    const weft_tensor in[] = {x.t, w->t, bias.t};
    const weft_linear_params params = {.dtype = y_dtype};
    run_row("linear", &params, in, 3, &y.t, 1);
    char what[160];
    snprintf(what, sizeof what, "linear %s %s -> %s rows %lld width %lld", w->t.encoding->name,
             weft_dtype_name(dtype), weft_dtype_name(y_dtype), (long long)rows, (long long)width);
    check_tensor(&y.t, expected, 4 * epsilon_of(y_dtype), largest / 2, what);
    free(expected);
    free(xs);
    free(biases);
    tensor_free(&x);
    tensor_free(&bias);
    tensor_free(&y);
}

static void check_encoding(const weft_encoding *e, int64_t width)
{
    weights w = make_weights(e, WEFT_FLOAT32, width);
    for (int r = 0; r < ROWS_TRIED; r++) {
        try_encoded(&w, rows_tried[r], WEFT_FLOAT32, WEFT_FLOAT32);
        try_encoded(&w, rows_tried[r], WEFT_BFLOAT16, WEFT_BFLOAT16);
        try_encoded(&w, rows_tried[r], WEFT_FLOAT16, WEFT_FLOAT32); /* in sums of products */
    }
    free_weights(&w);
}

static void check_encoded(void)
{
    for (int n = 0; n < ENCODINGS; n++) {
        const weft_encoding *e = encoding_of(encodings[n]);
        if (!CHECK(e != NULL))
            continue;
        check_encoding(e, WIDTH);
        if (NARROW % e->block == 0)
            check_encoding(e, NARROW);
    }
}

static void test_encoded(void)
{
    each_isa(check_encoded);
}

/* ---- Any number of threads ------------------------------------------------------------------- */

static void check_threads(const weights *w, int64_t rows)
{
    const int64_t width = w->t.shape.at[1];
    owned_tensor x = tensor_random(WEFT_FLOAT32, WEFT_DIMS(rows, width), LIE_DENSE, -1, 1, 3);
    owned_tensor one = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(rows, HEIGHT));
    owned_tensor many = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(rows, HEIGHT));
    const weft_tensor in[] = {x.t, w->t};
    const weft_linear_params params = {.dtype = WEFT_FLOAT32};
    weft_set_threads(1);
    run_row("linear", &params, in, 2, &one.t, 1);
    for (int threads = 2; threads <= 4; threads++) {
        weft_set_threads(threads);
        run_row("linear", &params, in, 2, &many.t, 1);
        CHECK_BYTES(many.t.data, one.t.data, (size_t)one.bytes);
    }
    tensor_free(&x);
    tensor_free(&one);
    tensor_free(&many);
}

/* A row has the same bits in every position and beside any other rows of products that are computed
 * in the same way: 25 to 192 rows. */
static void check_positions(void)
{
    enum { MOST = 192, LEAST = 25 };
    if (weft__cpu_kernels()->parts.rows.least)
        return; /* by AMX */
    for (int n = 0; n < ENCODINGS; n++) {
        weights w = make_weights(encoding_of(encodings[n]), WEFT_FLOAT32, WIDTH);
        owned_tensor x = tensor_random(WEFT_FLOAT32, WEFT_DIMS(MOST, WIDTH), LIE_DENSE, -1, 1, 3);
        owned_tensor all = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(MOST, HEIGHT));
        owned_tensor some = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(MOST, HEIGHT));
        const weft_linear_params params = {.dtype = WEFT_FLOAT32};
        weft_tensor in[] = {x.t, w.t};
        run_row("linear", &params, in, 2, &all.t, 1);
        for (int64_t rows = LEAST; rows < MOST; rows += 31) {
            in[0].shape.at[0] = some.t.shape.at[0] = rows;
            in[0].data = (char *)x.t.data + (MOST - rows) * WIDTH * (int64_t)sizeof(float);
            run_row("linear", &params, in, 2, &some.t, 1);
            CHECK_BYTES(some.t.data, (char *)all.t.data + (MOST - rows) * HEIGHT * 4,
                        (size_t)(rows * HEIGHT) * sizeof(float));
        }
        tensor_free(&x);
        tensor_free(&all);
        tensor_free(&some);
        free_weights(&w);
    }
}

static void test_positions(void)
{
    each_isa(check_positions);
}

static void test_threads(void)
{
    const int before = weft_threads();
    for (int n = 0; n < ENCODINGS; n++) {
        weights w = make_weights(encoding_of(encodings[n]), WEFT_FLOAT32, WIDTH);
        for (int r = 0; r < ROWS_TRIED; r++)
            check_threads(&w, rows_tried[r]);
        free_weights(&w);
    }
    for (weft_dtype dtype = WEFT_FLOAT32; dtype <= WEFT_BFLOAT16; dtype++) {
        if (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT16 && dtype != WEFT_BFLOAT16)
            continue;
        weights w = make_weights(NULL, dtype, WIDTH);
        for (int r = 0; r < ROWS_TRIED; r++)
            check_threads(&w, rows_tried[r]);
        free_weights(&w);
    }
    weft_set_threads(before);
}

/* ---- Not finite ------------------------------------------------------------------------------ */

/* Whether results are finite where those of float64 are: elements of x are infinite, NaN, or so
 * large that only products with factors below 1 are finite. Where scales are applied to sums, an
 * infinity may be NaN. */
static void try_not_finite(const weights *w, const char *name, int64_t rows)
{
    const int64_t width = w->t.shape.at[1];
    owned_tensor x = tensor_random(WEFT_FLOAT32, WEFT_DIMS(rows, width), LIE_DENSE, -1, 1, 3);
    owned_tensor y = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(rows, HEIGHT));
    float *numbers = x.t.data;
    numbers[5] = INFINITY;
    if (rows > 1)
        numbers[width + 7] = NAN;
    if (rows > 2) {
        memset(numbers + 2 * width, 0, (size_t)width * sizeof *numbers);
        numbers[2 * width + 40] = FLT_MAX;
    }
    const weft_tensor in[] = {x.t, w->t};
    const weft_linear_params params = {.dtype = WEFT_FLOAT32};
    run_row("linear", &params, in, 2, &y.t, 1);
    for (int64_t i = 0; i < rows; i++) {
        bool same = true;
        for (int64_t f = 0; f < HEIGHT; f++) {
            double sum = 0;
            for (int64_t p = 0; p < width; p++)
                sum += (double)numbers[i * width + p] * w->decoded[f * width + p];
            const float want = (float)sum, got = ((float *)y.t.data)[i * HEIGHT + f];
            same = same && (isfinite(want) ? fabs(got - sum) <= 1e-5 * ((double)width + fabs(sum))
                                           : !isfinite(got));
        }
        if (!same)
            CHECK_FAIL("%s: row %lld of %lld", name, (long long)i, (long long)rows);
    }
    CHECK(true);
    tensor_free(&x);
    tensor_free(&y);
}

static void check_not_finite(void)
{
    static const char *const names[] = {"Q4_0", "Q8_0", "Q6_K", "affine-4-64-bfloat16"};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int n = 0; n < 7; n++) {
        const bool dense = n >= 4;
        weights w = make_weights(dense ? NULL : encoding_of(names[n]),
                                 dense ? dtypes[n - 4] : WEFT_FLOAT32, WIDTH);
        for (int r = 0; r < ROWS_TRIED; r++)
            try_not_finite(&w, dense ? weft_dtype_name(dtypes[n - 4]) : names[n], rows_tried[r]);
        free_weights(&w);
    }
}

static void test_not_finite(void)
{
    each_isa(check_not_finite);
}

CHECK_MAIN("few_rows", CHECK_CASE(test_encoded), CHECK_CASE(test_positions),
           CHECK_CASE(test_threads), CHECK_CASE(test_not_finite))
