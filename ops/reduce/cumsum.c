/* ops/reduce/cumsum.c -- cumulative sums along an axis, from either end, inclusive or exclusive;
 * accumulated in double (integers: in 64 bits). */
#include "ops/reduce/scan.h"

/* Scans one run of e.length elements that begins at element `base`. */
static void scan(const weft_call *call, int64_t base, axis_extents e)
{
    const weft_scan_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    bool real = weft_dtype_is_float(out->dtype);
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t k = 0; k < e.length; k++) {
        int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
        double before = sum;
        uint64_t whole_before = whole;
        if (real) {
            sum += weft_tensor_get(in, at);
            weft_tensor_set(out, at, p->inclusive ? sum : before);
        } else {
            whole += (uint64_t)weft_tensor_get_int(in, at);
            weft_tensor_set_int(out, at, (int64_t)(p->inclusive ? whole : whole_before));
        }
    }
}

static void scan_complex(const weft_call *call, int64_t base, axis_extents e)
{
    const weft_scan_params *p = call->params;
    double re = 0, im = 0;
    for (int64_t k = 0; k < e.length; k++) {
        int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
        const double before_re = re, before_im = im;
        double x, y;
        get_complex(&call->in[0], at, &x, &y);
        re += x;
        im += y;
        set_complex(&call->out[0], at, p->inclusive ? re : before_re,
                    p->inclusive ? im : before_im);
    }
}

static weft_status cumsum_reference(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t o = 0; o < e.outer; o++) {
        for (int64_t j = 0; j < e.inner; j++) {
            int64_t base = o * e.length * e.inner + j;
            if (call->out[0].dtype == WEFT_COMPLEX64) {
                scan_complex(call, base, e);
            } else {
                scan(call, base, e);
            }
        }
    }
    return WEFT_OK;
}

/* An element contributes to the sums after it, so the gradient is the cumulative sum from the other
 * end. */
static void cumsum_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = weft_cumsum(cts[0], (int)p->axis, !p->reverse, p->inclusive);
    }
}

const weft_op weft_op_cumsum = {
    .name = "cumsum",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_scan_params),
    .params_fields = weft__scan_fields,
    .infer = weft__infer_running_sum,
    .vjp = cumsum_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = cumsum_reference,
    .cases = weft__scan_cases,
    .n_cases = SCAN_CASES,
};

weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive)
{
    return weft__scan(&weft_op_cumsum, x, axis, reverse, inclusive);
}

weft_array *weft_cumsum_as(weft_array *x, int axis, bool reverse, bool inclusive, weft_dtype dtype)
{
    weft_scope_open();
    return weft_scope_close(weft_cumsum(weft_astype(x, dtype), axis, reverse, inclusive));
}
