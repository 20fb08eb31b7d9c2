/* ops/reduce/softmax.c -- softmax and log_softmax along an axis, and their gradients as separate
 * ops. Complex numbers are shifted by the largest real part. */
#include <complex.h>
#include <math.h>

#include "ops/reduce/reduce.h"

extern const weft_op weft_op_softmax_grad, weft_op_log_softmax_grad;

/* softmax or log_softmax of the elements base, base + stride, ... of x. */
static void normalize(const weft_call *call, int64_t base, int64_t length, int64_t stride,
                      bool logarithm)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < length; i++) {
        largest = fmax(largest, weft_tensor_get(x, base + i * stride));
    }
    for (int64_t i = 0; i < length; i++) {
        sum += exp(weft_tensor_get(x, base + i * stride) - largest);
    }
    for (int64_t i = 0; i < length; i++) {
        double shifted = weft_tensor_get(x, base + i * stride) - largest;
        weft_tensor_set(out, base + i * stride,
                        logarithm ? shifted - log(sum) : exp(shifted) / sum);
    }
}

/* The same for complex numbers; log_softmax uses the principal logarithm of the sum. */
static void normalize_complex(const weft_call *call, int64_t base, int64_t length, int64_t stride,
                              bool logarithm)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    double largest = -INFINITY, re, im;
    double complex sum = 0;
    for (int64_t i = 0; i < length; i++) {
        get_complex(x, base + i * stride, &re, &im);
        largest = fmax(largest, re);
    }
    for (int64_t i = 0; i < length; i++) {
        get_complex(x, base + i * stride, &re, &im);
        sum += exp(re - largest) * (cos(im) + I * sin(im));
    }
    for (int64_t i = 0; i < length; i++) {
        get_complex(x, base + i * stride, &re, &im);
        double complex shifted = (re - largest) + I * im;
        double complex y = logarithm ? shifted - clog(sum) : cexp(shifted) / sum;
        set_complex(out, base + i * stride, creal(y), cimag(y));
    }
}

static void normalize_all(const weft_call *call, bool logarithm)
{
    const weft_axis_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    bool is_complex = call->in[0].dtype == WEFT_COMPLEX64;
    for (int64_t o = 0; o < e.outer; o++) {
        for (int64_t j = 0; j < e.inner; j++) {
            int64_t base = o * e.length * e.inner + j;
            if (is_complex) {
                normalize_complex(call, base, e.length, e.inner, logarithm);
            } else {
                normalize(call, base, e.length, e.inner, logarithm);
            }
        }
    }
}

static weft_status softmax_reference(const weft_call *call)
{
    normalize_all(call, false);
    return WEFT_OK;
}

static weft_status log_softmax_reference(const weft_call *call)
{
    normalize_all(call, true);
    return WEFT_OK;
}

/* Both gradients are computed from the result y and its cotangent. */
static void softmax_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                        weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = apply2(&weft_op_softmax_grad, node, cts[0], weft_node_params(node));
    }
}

static void log_softmax_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = apply2(&weft_op_log_softmax_grad, node, cts[0], weft_node_params(node));
    }
}

static bool softmax_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    weft_dtype dtype = input_dtype(node, 0);
    if (!weft_dtype_is_float(dtype) && dtype != WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    for (int i = 1; i < weft_node_n_inputs(node); i++) {
        weft_dims other = input_shape(node, i);
        if (!weft__shape_equal(&other, &shape) || input_dtype(node, i) != dtype) {
            return weft_because(why, "y and its cotangent differ in shape or dtype");
        }
    }
    return weft__check_axis(p->axis, shape.n, why) >= 0 && set_spec(out, dtype, &shape);
}

static const weft_case softmax_cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "middle",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 4, 3)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "long",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 67)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_softmax = {
    .name = "softmax",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = softmax_infer,
    .vjp = softmax_vjp,
    .takes_leading_axis = true,
    .reference = softmax_reference,
    .cases = softmax_cases,
    .n_cases = sizeof softmax_cases / sizeof *softmax_cases,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
};

const weft_op weft_op_log_softmax = {
    .name = "log_softmax",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = softmax_infer,
    .vjp = log_softmax_vjp,
    .takes_leading_axis = true,
    .reference = log_softmax_reference,
    .cases = softmax_cases,
    .n_cases = sizeof softmax_cases / sizeof *softmax_cases,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
};

/* Kernels support only the last axis, so other axes are moved to the end. */
static weft_array *apply(const weft_op *op, weft_array *x, int axis)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end(op->name, x, axis, &from_end, &failed)) {
        return failed;
    }
    weft_axis_params params = {.axis = -1};
    weft_array *last = weft_swapaxes(as_inexact(x), (int)from_end, -1);
    return weft_swapaxes(apply1(op, last, &params), (int)from_end, -1);
}

weft_array *weft_softmax(weft_array *x, int axis)
{
    weft_scope_open();
    return weft_scope_close(apply(&weft_op_softmax, x, axis));
}

weft_array *weft_log_softmax(weft_array *x, int axis)
{
    weft_scope_open();
    return weft_scope_close(apply(&weft_op_log_softmax, x, axis));
}

weft_array *weft_softmax_axes(weft_array *x, weft_dims axes)
{
    weft_scope_open();
    weft_dims last, back, shape;
    weft_why why;
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &last, &why)) {
        return weft_scope_close(weft_error_array("softmax: %s", why.text));
    }
    if (last.n == 0) {
        return weft_scope_close(weft_ones_like(as_inexact(x)));
    }
    if (last.n == 1) {
        return weft_scope_close(weft_softmax(x, (int)last.at[0]));
    }
    weft_array *y = weft_softmax(weft__axes_together(x, &last, &back, &shape), -1);
    return weft_scope_close(weft_transpose(weft_reshape(y, shape), back));
}

/* ---- the gradients: y, dy -> dx ------------------------------------------------------------- */

/* Converts to at least float32, so that the summed products are not rounded to 16 bits. */
static weft_array *wide(weft_array *x)
{
    return weft_astype(x, weft_promote(weft_dtype_of(x), WEFT_FLOAT32));
}

/* dx = y (dy - sum(y dy)), with the conjugate of a complex y */
static void softmax_grad_expand(weft_array *node, weft_array **outs)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_array *y = wide(weft_conjugate(weft_node_input(node, 0)));
    weft_array *dy = wide(weft_node_input(node, 1));
    weft_array *dot = weft_sum(weft_multiply(y, dy), WEFT_DIMS(p->axis), true);
    weft_array *dx = weft_multiply(y, weft_subtract(dy, dot));
    outs[0] = weft_astype(dx, weft_dtype_of(node));
}

/* dx = dy - exp(y) sum(dy), with the conjugate of a complex y */
static void log_softmax_grad_expand(weft_array *node, weft_array **outs)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_array *y = wide(weft_conjugate(weft_node_input(node, 0)));
    weft_array *dy = wide(weft_node_input(node, 1));
    weft_array *sum = weft_sum(dy, WEFT_DIMS(p->axis), true);
    weft_array *dx = weft_subtract(dy, weft_multiply(weft_exp(y), sum));
    outs[0] = weft_astype(dx, weft_dtype_of(node));
}

static const weft_case softmax_grad_cases[] = {
    {.name = "last",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 5)}, {.shape = DIMS(3, 5)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "middle",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 4, 3)}, {.shape = DIMS(2, 4, 3)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "long",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 67)}, {.shape = DIMS(2, 67)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "empty",
     .n_inputs = 2,
     .in = {{.shape = DIMS(0, 3)}, {.shape = DIMS(0, 3)}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_softmax_grad = {
    .name = "softmax_grad",
    .family = WEFT_COMPOSITE,
    .arity = 2,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = softmax_infer,
    .takes_leading_axis = true,
    .expand = softmax_grad_expand,
    .cases = softmax_grad_cases,
    .n_cases = sizeof softmax_grad_cases / sizeof *softmax_grad_cases,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
    .tolerance = 4e-6, /* complex sums of 67 terms of magnitude up to 4, in an order chosen by the
                        * compiler */
};

const weft_op weft_op_log_softmax_grad = {
    .name = "log_softmax_grad",
    .family = WEFT_COMPOSITE,
    .arity = 2,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = softmax_infer,
    .takes_leading_axis = true,
    .expand = log_softmax_grad_expand,
    .cases = softmax_grad_cases,
    .n_cases = sizeof softmax_grad_cases / sizeof *softmax_grad_cases,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
};
