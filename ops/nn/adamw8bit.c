/* ops/nn/adamw8bit.c -- one AdamW step with 8-bit moments (Dettmers et al. 2022). Each block of 256
 * has its largest magnitude in float32 and, for each element, the nearest of 256 values up to it,
 * which are denser near 0 (dynamic quantization). */
#include <math.h>

#include "ops/nn/adamw8bit.h"
#include "ops/nn/nn.h"

enum { PARAMETER, GRADIENT, M, V, M_SCALE, V_SCALE, HYPER };
enum { BLOCK = WEFT__MOMENT_BLOCK };

/* ---- codes ---------------------------------------------------------------------------------- */

/* Magnitudes are in seven decades from 1e-7 to 1. Decade d has first * 2^d values, which are the
 * centers of equal intervals. Two more codes represent 0 and 1. The first moment has one value in
 * the lowest decade, and also the negatives of all values except -1; its code for 0 is 127. The
 * second moment has two, and its code for 0 is 0. */
typedef struct coding {
    double zero;  /* the code of 0, which the code of the smallest magnitude follows */
    double first; /* number of values in the lowest decade */
} coding;

enum { DECADES = 7, LAST = 255 };

static const coding first_moment = {127, 1}, second_moment = {0, 2};

/* Value i of the n values of a decade, relative to the decade's upper end. */
static double middle(double i, double n)
{
    return 0.1 + 0.9 * (i + 0.5) / n;
}

/* The decade of each element: its number of values, and its upper end or the reciprocal of that. */
typedef struct decade {
    weft_array *n, *end;
} decade;

/* Whether the decade of an element is d >= 1 or a higher one. */
typedef weft_array *decade_test(const coding *c, weft_array *x, int d);

/* Multiplying by `factor` takes `end` from one decade to the next. */
static decade decade_of(const coding *c, weft_array *x, decade_test *is_in, double end,
                        double factor)
{
    weft_array *none = weft_scale(x, 0);
    decade out = {weft_add_scalar(none, c->first), weft_add_scalar(none, end)};
    for (int d = 1; d < DECADES; d++) {
        weft_array *in = is_in(c, x, d);
        out.n = weft_where(in, weft_scale(out.n, 2), out.n);
        out.end = weft_where(in, weft_scale(out.end, factor), out.end);
    }
    return out;
}

/* The midpoint between the last value of the decade before d and the first value of d. */
static double first_magnitude(const coding *c, int d)
{
    const double n = c->first * (1 << d), end = pow(10, d - DECADES + 1);
    return (end / 10 * middle(n / 2 - 1, n / 2) + end * middle(0, n)) / 2;
}

static weft_array *has_magnitude(const coding *c, weft_array *x, int d)
{
    return weft_greater_scalar(x, first_magnitude(c, d));
}

static weft_array *has_code(const coding *c, weft_array *x, int d)
{
    return weft_greater_equal_scalar(x, c->first * ((1 << d) - 1));
}

/* x in [-1, 1] -> the code of the nearest value, as a float. */
static weft_array *codes_of(const coding *c, weft_array *x)
{
    weft_array *size = weft_abs(x);
    const decade d = decade_of(c, size, has_magnitude, 1e6, 0.1);
    weft_array *part = weft_add_scalar(weft_multiply(size, d.end), -0.1); /* 0 to 0.9 */
    weft_array *i = weft_floor(weft_multiply(weft_scale(part, 1 / 0.9), d.n));
    i = weft_minimum(weft_maximum_scalar(i, 0), weft_add_scalar(d.n, -1));
    weft_array *rank = weft_add_scalar(weft_add(i, d.n), 1 - c->first); /* from 1 */
    weft_array *none = weft_scale(rank, 0);
    weft_array *is_zero = weft_less_equal_scalar(size, 0.5e-6 * middle(0, c->first));
    weft_array *up = weft_add_scalar(weft_where(is_zero, none, rank), c->zero);
    weft_array *down = weft_add_scalar(weft_negative(up), 2 * c->zero);
    const double n = c->first * (1 << (DECADES - 1)), one = (1 + middle(n - 1, n)) / 2;
    up = weft_where(weft_greater_scalar(x, one), weft_add_scalar(none, LAST), up);
    return weft_where(weft_less_scalar(x, 0), down, up);
}

/* The values of codes, which are given as floats. */
static weft_array *values_of(const coding *c, weft_array *codes)
{
    weft_array *rank = weft_add_scalar(codes, -c->zero);
    weft_array *index = weft_add_scalar(weft_abs(rank), -1);
    const decade d = decade_of(c, index, has_code, 1e-6, 10);
    weft_array *i = weft_add_scalar(weft_subtract(index, d.n), c->first + 0.5);
    weft_array *part = weft_add_scalar(weft_scale(weft_divide(i, d.n), 0.9), 0.1);
    weft_array *size = weft_minimum_scalar(weft_multiply(part, d.end), 1); /* of the last code */
    return weft_multiply(size, weft_sign(rank));
}

/* ---- encoding and decoding ------------------------------------------------------------------ */

/* Splits the elements into blocks, padding the last one with zeros: (blocks, 256). */
static weft_array *in_blocks(weft_array *x)
{
    const int64_t size = weft_size(x), n = weft__moment_blocks(size);
    weft_array *flat = weft_reshape(x, WEFT_DIMS(size));
    if (n * BLOCK != size)
        flat = weft_pad(flat, 0, 0, n * BLOCK - size, 0);
    return weft_reshape(flat, WEFT_DIMS(n, BLOCK));
}

static weft_array *out_of_blocks(weft_array *blocks, weft_dims shape, int64_t size)
{
    weft_array *flat = weft_reshape(blocks, WEFT_DIMS(weft_size(blocks)));
    return weft_reshape(weft_slice_axis(flat, 0, 0, size), shape);
}

weft_array *weft__moment_decode(weft_array *codes, weft_array *scale, bool second, weft_dtype dtype)
{
    const coding *c = second ? &second_moment : &first_moment;
    weft_array *blocks = weft_astype(in_blocks(codes), WEFT_FLOAT32);
    weft_array *values = weft_multiply(values_of(c, blocks), weft_expand_dims(scale, 1));
    return weft_astype(out_of_blocks(values, weft_shape(codes), weft_size(codes)), dtype);
}

/* A positive v never becomes 0. Otherwise m would be divided by almost nothing when a small
 * gradient follows, which makes the step a hundred times too large. */
weft_array *weft__moment_encode(weft_array *x, bool second, weft_array **scale)
{
    weft_array *blocks = in_blocks(weft_astype(x, WEFT_FLOAT32));
    weft_array *most = weft_max(weft_abs(blocks), WEFT_DIMS(1), true); /* (blocks, 1) */
    weft_array *filled = weft_where(weft_greater_scalar(most, 0), most, weft_exp(most));
    weft_array *share = weft_divide(blocks, filled); /* in [-1, 1] */
    weft_array *codes = codes_of(second ? &second_moment : &first_moment, share);
    if (second)
        codes = weft_where(weft_greater_scalar(share, 0), weft_maximum_scalar(codes, 1), codes);
    *scale = weft_squeeze(most, 1);
    return out_of_blocks(weft_astype(codes, WEFT_UINT8), weft_shape(x), weft_size(x));
}

/* ---- the op --------------------------------------------------------------------------------- */

static void expand(weft_array *node, weft_array **outs)
{
    const weft_adamw_params *k = weft_node_params(node);
    weft_array *in[7], *three[3];
    for (int i = 0; i < 7; i++)
        in[i] = weft_node_input(node, i);
    const weft_dtype dtype = input_dtype(node, HYPER);
    weft_array *m = weft__moment_decode(in[M], in[M_SCALE], false, dtype);
    weft_array *v = weft__moment_decode(in[V], in[V_SCALE], true, dtype);
    weft_adamw(in[PARAMETER], in[GRADIENT], m, v, in[HYPER], k->beta1, k->beta2, k->eps, k->decay,
               three);
    outs[0] = three[0];
    outs[1] = weft__moment_encode(three[1], false, &outs[3]);
    outs[2] = weft__moment_encode(three[2], true, &outs[4]);
    weft_array *apply =
        weft_astype(weft_squeeze(weft_slice_axis(in[HYPER], 0, 4, 5), 0), WEFT_BOOL);
    for (int i = 0; i < 4; i++)
        outs[1 + i] = weft_where(apply, outs[1 + i], in[M + i]);
}

static bool expect_dtype(const weft_array *node, int i, const char *name, weft_dtype dtype,
                         weft_why *why)
{
    return input_dtype(node, i) == dtype ||
           weft_because(why, "%s is %s, expected %s", name, weft_dtype_name(input_dtype(node, i)),
                        weft_dtype_name(dtype));
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    static const char *const names[] = {"the parameter", "the gradient", "m",    "v",
                                        "m's scale",     "v's scale",    "hyper"};
    const weft_dims shape = input_shape(node, PARAMETER);
    int64_t size = 1;
    for (int i = 0; i < shape.n; i++)
        size *= shape.at[i];
    const weft_dims blocks = WEFT_DIMS(weft__moment_blocks(size)), five = WEFT_DIMS(5);
    for (int i = 0; i < 7; i++) {
        const bool code = i == M || i == V, scale = i == M_SCALE || i == V_SCALE;
        const bool fits = code    ? expect_dtype(node, i, names[i], WEFT_UINT8, why)
                          : scale ? expect_dtype(node, i, names[i], WEFT_FLOAT32, why)
                                  : weft__expect_float(node, i, names[i], why);
        if (!fits || !weft__expect_shape(node, i, names[i],
                                         i == HYPER ? five
                                         : scale    ? blocks
                                                    : shape,
                                         why))
            return false;
    }
    const weft_dtype dtype = input_dtype(node, HYPER);
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT64)
        return weft_because(why, "hyper is %s, expected float32 or float64",
                            weft_dtype_name(dtype));
    out[0] = dense(input_dtype(node, PARAMETER), shape);
    out[1] = out[2] = dense(WEFT_UINT8, shape);
    out[3] = out[4] = dense(WEFT_FLOAT32, blocks);
    return true;
}

static const weft_adamw_params usual = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-3, .decay = 0.01};

/* Codes have any value; scales and the five numbers of hyper are positive. */
#define INPUTS(BLOCKS, ...)                                                                        \
    {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}, .bytes = true},   \
        {.shape = {__VA_ARGS__}, .bytes = true},                                                   \
        {.shape = {1, {BLOCKS}}, .lo = 0.1, .hi = 2, .fixed_float32 = true},                       \
        {.shape = {1, {BLOCKS}}, .lo = 0.1, .hi = 2, .fixed_float32 = true},                       \
    {                                                                                              \
        .shape = {1, {5}}, .lo = 0.1, .hi = 1                                                      \
    }
static const weft_case cases[] = {
    {"matrix", 7, {INPUTS(3, 2, {20, 30})}, &usual},
    {"a block", 7, {INPUTS(1, 1, {256})}, &usual},
    {"nothing", 7, {INPUTS(0, 1, {0})}, &usual},
};
#undef INPUTS

const weft_op weft_op_adamw8bit = {
    .name = "adamw8bit",
    .family = WEFT_COMPOSITE,
    .arity = 7,
    .n_outputs = 5,
    .params_size = sizeof(weft_adamw_params),
    .params_fields = weft__adamw_fields,
    .infer = infer,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};

void weft__adamw8bit(weft_array *parameter, weft_array *gradient, weft_array *const state[4],
                     weft_array *hyper, const weft_adamw_params *params, weft_array *out[5])
{
    weft_scope_open();
    weft_array *inputs[] = {parameter, gradient, state[0], state[1], state[2], state[3], hyper};
    weft_array *node = weft_apply(&weft_op_adamw8bit, inputs, 7, params);
    for (int i = 0; i < 5; i++)
        out[i] = weft_pick(node, i);
    weft_scope_close_n(out, 5);
}
