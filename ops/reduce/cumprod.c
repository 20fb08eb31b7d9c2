/* ops/reduce/cumprod.c -- cumulative products along an axis, from either end, inclusive or
 * exclusive; accumulated in double (integers: in 64 bits, wrapping). */
#include "ops/reduce/scan.h"

static void scan_complex(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        double re = 1, im = 0;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            const double before_re = re, before_im = im;
            double x, y;
            get_complex(&call->in[0], at, &x, &y);
            times_complex(&re, &im, x, y);
            set_complex(&call->out[0], at, p->inclusive ? re : before_re,
                        p->inclusive ? im : before_im);
        }
    }
}

static weft_status cumprod_reference(const weft_call *call)
{
    if (call->out[0].dtype == WEFT_COMPLEX64) {
        scan_complex(call);
        return WEFT_OK;
    }
    const weft_scan_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    axis_extents e = extents_of(&in->shape, p->axis);
    bool real = weft_dtype_is_float(out->dtype);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        double product = 1;
        uint64_t whole = 1;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            if (real) {
                double next = product * weft_tensor_get(in, at);
                weft_tensor_set(out, at, p->inclusive ? next : product);
                product = next;
            } else {
                uint64_t next = whole * (uint64_t)weft_tensor_get_int(in, at);
                weft_tensor_set_int(out, at, (int64_t)(p->inclusive ? next : whole));
                whole = next;
            }
        }
    }
    return WEFT_OK;
}

/* The gradient of x_i is the product before it times s_i = ct_i + x_{i+1} s_{i+1}, with conjugates
 * for complex numbers. There is no division, so zeros need no special case. */
static void cumprod_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                        weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    if (!wanted[0]) {
        return;
    }
    int axis = (int)p->axis;
    weft_array *x = weft_conjugate(weft__wide(weft_node_input(node, 0)));
    weft_array *ct = weft__wide(cts[0]);
    ct = p->inclusive ? ct : weft__shift(ct, p, false, 0);
    weft_array *behind = weft_linear_scan(weft__shift(x, p, false, 0), ct, axis, !p->reverse);
    weft_array *in_front = weft_cumprod(x, axis, p->reverse, false);
    grads[0] = weft_astype(weft_multiply(in_front, behind), weft_dtype_of(cts[0]));
}

/* y'_k = x_k y'_{k-1} + x'_k y_{k-1} */
static void cumprod_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_scan_params *p = weft_node_params(node);
    int axis = (int)p->axis;
    if (!tangents[0]) {
        return;
    }
    weft_array *x = weft__wide(weft_node_input(node, 0));
    weft_array *in_front = weft_cumprod(x, axis, p->reverse, false);
    weft_array *own = weft_multiply(weft__wide(tangents[0]), in_front);
    weft_array *y = weft_linear_scan(x, own, axis, p->reverse);
    y = p->inclusive ? y : weft__shift(y, p, true, 0);
    out[0] = weft_astype(y, weft_dtype_of(node));
}

const weft_op weft_op_cumprod = {
    .name = "cumprod",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_scan_params),
    .params_fields = weft__scan_fields,
    .infer = weft__infer_running_sum,
    .vjp = cumprod_vjp,
    .jvp = cumprod_jvp,
    .takes_leading_axis = true,
    .reference = cumprod_reference,
    .cases = weft__scan_cases,
    .n_cases = SCAN_CASES,
};

weft_array *weft_cumprod(weft_array *x, int axis, bool reverse, bool inclusive)
{
    return weft__scan(&weft_op_cumprod, x, axis, reverse, inclusive);
}

weft_array *weft_cumprod_as(weft_array *x, int axis, bool reverse, bool inclusive, weft_dtype dtype)
{
    weft_scope_open();
    return weft_scope_close(weft_cumprod(weft_astype(x, dtype), axis, reverse, inclusive));
}
