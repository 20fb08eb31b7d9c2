/* ops/products/hadamard.c -- the Walsh-Hadamard transform along the last axis, for m 2^k elements.
 */
#include <math.h>

#include "ops/products/chosen.h"

/* Hadamard matrices from N. J. A. Sloane's library (had.12, had.20.will, had.28.will): bit j of row
 * i is set where the element is -1. */
static const uint32_t of_12[] = {0x002, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba,
                                 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a};
static const uint32_t of_20[] = {0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2,
                                 0x8d764, 0x1aee8, 0x359f0, 0x0fa53, 0x174a7, 0x26d4e, 0x45e9c,
                                 0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36};
static const uint32_t of_28[] = {0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df,
                                 0x66b4f3f, 0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8,
                                 0xac9aff0, 0x5b31fe1, 0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a,
                                 0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
                                 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c};

enum { MOST_ROWS = 64 }; /* largest factor; products by such factors are faster than steps of two */

/* m in {1, 12, 20, 28} with n = m 2^k, or 0. */
static int64_t odd_part(int64_t n)
{
    static const int64_t sizes[] = {1, 12, 20, 28};
    for (int i = 0; i < 4 && n > 0; i++) {
        int64_t rest = n / sizes[i];
        if (n % sizes[i] == 0 && (rest & (rest - 1)) == 0) {
            return sizes[i];
        }
    }
    return 0;
}

static bool is_negative(int64_t m, int64_t row, int64_t column)
{
    switch (m) {
    case 12:
        return of_12[row] >> column & 1;
    case 20:
        return of_20[row] >> column & 1;
    case 28:
        return of_28[row] >> column & 1;
    default: /* Sylvester's construction, for powers of two */
        return __builtin_popcountll((uint64_t)(row & column)) & 1;
    }
}

/* The matrix (n, n) that multiplies row vectors x: element (i, j) is H[j, i], or H[i, j] if
 * transposed. */
static weft_array *matrix(int64_t n, bool transposed, weft_array *like)
{
    float values[MOST_ROWS * MOST_ROWS];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            bool negative = transposed ? is_negative(n, i, j) : is_negative(n, j, i);
            values[i * n + j] = negative ? -1.0f : 1.0f;
        }
    }
    weft_array *h = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(n, n));
    return weft_astype(weft_to(h, weft_device_of(like)), weft_dtype_of(like));
}

/* Applies the factor n along axis -2 of x (rows, before, n, after). */
static weft_array *apply_factor(weft_array *x, int64_t n, int64_t after, bool transposed)
{
    int64_t size = weft_dim(x, -1);
    int64_t before = size / n / after;
    if (after == 1) {
        weft_array *y = weft_reshape(x, WEFT_DIMS(weft_dim(x, 0), before, n));
        return weft_reshape(weft_matmul(y, matrix(n, transposed, x)), weft_shape(x));
    }
    weft_array *y = weft_reshape(x, WEFT_DIMS(weft_dim(x, 0) * before, n, after));
    weft_array *h = weft_swapaxes(matrix(n, transposed, x), 0, 1);
    return weft_reshape(weft_matmul(weft_expand_dims(h, 0), y), weft_shape(x));
}

/* H_m (x) H_2 (x) ... (x) H_2, one factor at a time, in at least float32. */
static void expand(weft_array *node, weft_array **outs)
{
    const weft_hadamard_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0);
    weft_dtype dtype = weft_dtype_of(x);
    int64_t n = weft_dim(x, -1), m = odd_part(n), after = 1;
    weft_array *y = weft_reshape(x, WEFT_DIMS(n > 0 ? weft_size(x) / n : 0, n));
    y = weft_astype(y, dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32);
    for (int64_t rest = n / m; rest > 1;) {
        int64_t factor = rest < MOST_ROWS ? rest : MOST_ROWS;
        y = apply_factor(y, factor, after, false);
        after *= factor;
        rest /= factor;
    }
    y = m > 1 ? apply_factor(y, m, after, p->transposed) : y;
    y = p->scale == 1 ? y : weft_scale(y, p->scale);
    outs[0] = weft_reshape(weft_astype(y, dtype), weft_shape(x));
}

static void vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    weft_hadamard_params p = *(const weft_hadamard_params *)weft_node_params(node);
    p.transposed = !p.transposed;
    if (wanted[0]) {
        grads[0] = apply1(&weft_op_hadamard, cts[0], &p);
    }
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    if (!weft_dtype_is_float(input_dtype(node, 0))) {
        return weft_because(why, "expected floats, got %s", weft_dtype_name(input_dtype(node, 0)));
    }
    if (shape.n < 1 || odd_part(shape.at[shape.n - 1]) == 0) {
        return weft_because(why,
                            "expected m 2^k elements along the last axis, with m of 1, 12, 20 "
                            "or 28, got %lld",
                            (long long)(shape.n < 1 ? 1 : shape.at[shape.n - 1]));
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_hadamard_params, scale),
    WEFT_FIELD(BOOL, weft_hadamard_params, transposed),
    WEFT_FIELDS_END,
};

static const weft_case cases[] = {
    {.name = "power",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 8)}},
     .params = &(const weft_hadamard_params){.scale = 0.5}},
    {.name = "twelve",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 24)}},
     .params = &(const weft_hadamard_params){.scale = 1}},
    {.name = "transposed",
     .n_inputs = 1,
     .in = {{.shape = DIMS(20)}},
     .params = &(const weft_hadamard_params){.scale = 0.25, .transposed = true}},
    {.name = "factors",
     .n_inputs = 1,
     .in = {{.shape = DIMS(1, 128)}},
     .params = &(const weft_hadamard_params){.scale = 0.125}},
    {.name = "nothing",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 28)}},
     .params = &(const weft_hadamard_params){.scale = 1}},
};

const weft_op weft_op_hadamard = {
    .name = "hadamard",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(weft_hadamard_params),
    .params_fields = fields,
    .infer = infer,
    .vjp = vjp,
    .linear = true,
    .takes_leading_axis = true,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
    .tolerance = 4e-6, /* sums of up to 128 terms of magnitude up to 2 */
};

weft_array *weft_hadamard_transform(weft_array *x, double scale)
{
    weft_scope_open();
    x = as_inexact(x);
    if (weft_ok(x) && weft_ndim(x) == 0) { /* H_1 is 1 */
        return weft_scale(x, scale != 0 ? scale : 1);
    }
    int64_t n = weft_ok(x) ? weft_dim(x, -1) : 1;
    weft_hadamard_params p = {.scale = scale != 0 ? scale : 1 / sqrt((double)(n > 0 ? n : 1))};
    return weft_scope_close(apply1(&weft_op_hadamard, x, &p));
}
