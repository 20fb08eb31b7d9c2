/* ops/reduce/var.c -- variance and standard deviation. */
#include "ops/reduce/scan.h"

static int64_t count_of(weft_array *node)
{
    int64_t outputs = weft_size(node);
    return outputs > 0 ? weft_size(weft_node_input(node, 0)) / outputs : 0;
}

/* x minus its mean, in at least float32. */
static weft_array *deviations(weft_array *node)
{
    const weft_var_params *p = weft_node_params(node);
    weft_array *x = weft__wide(weft_node_input(node, 0));
    return weft_subtract(x, weft_mean(x, p->axes, true));
}

/* As in NumPy, no remaining degrees of freedom means division by 0. */
static double weight_of(weft_array *node)
{
    double freedom =
        (double)count_of(node) - (double)((const weft_var_params *)weft_node_params(node))->ddof;
    return 1 / (freedom > 0 ? freedom : 0);
}

/* The corrected two-pass algorithm: subtracts the effect of the mean's rounding error on the
 * squares (Chan, Golub, LeVeque 1983). */
static void var_expand(weft_array *node, weft_array **outs)
{
    const weft_var_params *p = weft_node_params(node);
    weft_array *d = deviations(node);
    weft_array *rest = weft_sum(d, p->axes, p->keepdims);
    weft_array *sum = weft_sum(weft_square(d), p->axes, p->keepdims);
    sum = weft_subtract(sum, weft_scale(weft_square(rest), 1 / (double)count_of(node)));
    outs[0] = weft_astype(weft_scale(sum, weight_of(node)), weft_dtype_of(node));
}

/* dx = 2 (x - mean) / (n - ddof) */
static void var_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    if (wanted[0]) {
        weft_array *ct = weft__unreduce(node, weft_scale(weft__wide(cts[0]), 2 * weight_of(node)));
        grads[0] = weft_astype(weft_multiply(deviations(node), ct), weft_dtype_of(cts[0]));
    }
}

static bool var_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    weft_dtype dtype = input_dtype(node, 0);
    if (!weft_dtype_is_float(dtype)) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    return weft__reduced_shape(node, &shape, why) && set_spec(out, dtype, &shape);
}

static const weft_field var_fields[] = {
    WEFT_FIELD(DIMS, weft_var_params, axes),
    WEFT_FIELD(BOOL, weft_var_params, keepdims),
    WEFT_FIELD(INT, weft_var_params, ddof),
    WEFT_FIELDS_END,
};

static const weft_case var_cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_var_params){DIMS(-1), false, 0}},
    {.name = "first",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 2, 3)}},
     .params = &(const weft_var_params){DIMS(-3), true, 1}},
    {.name = "around",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const weft_var_params){DIMS(-3, -1), false, 1}},
    {.name = "all",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 350), .lo = 99, .hi = 101}},
     .params = &(const weft_var_params){DIMS(-2, -1), false, 0}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 3)}},
     .params = &(const weft_var_params){DIMS(-1), false, 0}},
};

const weft_op weft_op_var = {
    .name = "var",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(weft_var_params),
    .params_fields = var_fields,
    .infer = var_infer,
    .vjp = var_vjp,
    .takes_leading_axis = true,
    .expand = var_expand,
    .cases = var_cases,
    .n_cases = sizeof var_cases / sizeof *var_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
};

/* The mean of |x - mean|^2, which is real: the sum over both parts. */
static weft_array *complex_var(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof)
{
    weft_array *re = weft_var(weft_real(x), axes, keepdims, ddof);
    return weft_add(re, weft_var(weft_imag(x), axes, keepdims, ddof));
}

weft_array *weft_var(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof)
{
    weft_scope_open();
    if (weft_ok(x) && weft_dtype_of(x) == WEFT_COMPLEX64) {
        return weft_scope_close(complex_var(x, axes, keepdims, ddof));
    }
    weft_var_params params = {.keepdims = keepdims, .ddof = ddof};
    weft_why why;
    x = as_inexact(x);
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_scope_close(weft_error_array("var: %s", why.text));
    }
    return weft_scope_close(apply1(&weft_op_var, x, &params));
}

/* The derivative of the square root is infinite at 0; 0 is used instead. */
weft_array *weft_std(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof)
{
    weft_scope_open();
    weft_array *v = weft_var(weft__wide(x), axes, keepdims, ddof);
    weft_array *none = weft_equal(v, weft_scalar(0, weft_dtype_of(v)));
    weft_array *root = weft_sqrt(weft_where(none, weft_scalar(1, weft_dtype_of(v)), v));
    root = weft_where(none, weft_scalar(0, weft_dtype_of(v)), root);
    const weft_dtype dtype = weft_dtype_of(as_inexact(x));
    return weft_scope_close(weft_astype(root, dtype == WEFT_COMPLEX64 ? WEFT_FLOAT32 : dtype));
}
