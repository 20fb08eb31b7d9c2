/* ops/reduce/logcumsumexp.c -- logarithms of cumulative sums of exponentials along an axis, shifted
 * by the running maximum. */
#include <complex.h>
#include <math.h>

#include "ops/reduce/scan.h"

/* The current sum is scale * exp(largest). */
typedef struct running {
    double largest, scale;
} running;

static running add_term(running r, double x)
{
    if (x > r.largest || isnan(x)) {
        r.scale = (isinf(r.largest) ? 0 : r.scale * exp(r.largest - x)) + 1;
        r.largest = x;
    } else if (x == r.largest) {
        r.scale += 1; /* also for equal infinities */
    } else {
        r.scale += exp(x - r.largest);
    }
    return r;
}

static double value_of(running r)
{
    return isinf(r.largest) ? r.largest : r.largest + log(r.scale);
}

/* The same for complex numbers, shifted by the largest real part: the sum is scale * exp(largest),
 * and the result its principal logarithm. */
static void scan_complex(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        double largest = -INFINITY;
        double complex scale = 0, y = -INFINITY;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            double complex before = y;
            double re, im;
            get_complex(&call->in[0], at, &re, &im);
            const double complex turn = cos(im) + I * sin(im);
            if (re > largest || isnan(re)) {
                scale = (isinf(largest) ? 0 : scale * exp(largest - re)) + turn;
                largest = re;
            } else {
                scale += re == largest ? turn : turn * exp(re - largest);
            }
            y = isinf(largest) ? largest + 0 * I : largest + clog(scale);
            const double complex result = p->inclusive ? y : before;
            set_complex(&call->out[0], at, creal(result), cimag(result));
        }
    }
}

static weft_status logcumsumexp_reference(const weft_call *call)
{
    if (call->out[0].dtype == WEFT_COMPLEX64) {
        scan_complex(call);
        return WEFT_OK;
    }
    const weft_scan_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    axis_extents e = extents_of(&in->shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        running r = {-INFINITY, 0};
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            running before = r;
            r = add_term(r, weft_tensor_get(in, at));
            weft_tensor_set(out, at, value_of(p->inclusive ? r : before));
        }
    }
    return WEFT_OK;
}

/* With y the inclusive result: the share of y_k that comes from y_{k-1}, exp(y_{k-1} - y_k), and
 * the share of x_k, exp(x_k - y_k). Both are 0 while y is -infinity. */
static void parts_of(weft_array *node, weft_array **carried, weft_array **own)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_array *x = weft__wide(weft_node_input(node, 0));
    weft_array *y = weft_logcumsumexp(x, (int)p->axis, p->reverse, true);
    weft_array *before = weft_logcumsumexp(x, (int)p->axis, p->reverse, false);
    weft_array *zero = weft_scalar(0, weft_dtype_of(x));
    weft_array *none = weft_equal(y, weft_scalar(-INFINITY, weft_dtype_of(x)));
    weft_array *shift = weft_where(none, zero, y);
    *carried = weft_exp(weft_subtract(before, shift));
    *own = weft_exp(weft_subtract(x, shift));
}

/* dx_i = sum of ct_k exp(x_i - y_k) over k >= i, which equals exp(x_i - y_i) s_i with s_i = ct_i +
 * exp(y_i - y_{i+1}) s_{i+1}. No exponential overflows. */
static void logcumsumexp_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                             weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    if (!wanted[0]) {
        return;
    }
    weft_array *carried, *own, *ct = weft__wide(cts[0]);
    parts_of(node, &carried, &own);
    carried = weft_conjugate(carried);
    own = weft_conjugate(own);
    ct = p->inclusive ? ct : weft__shift(ct, p, false, 0);
    weft_array *s =
        weft_linear_scan(weft__shift(carried, p, false, 0), ct, (int)p->axis, !p->reverse);
    grads[0] = weft_astype(weft_multiply(own, s), weft_dtype_of(cts[0]));
}

/* y'_k = exp(y_{k-1} - y_k) y'_{k-1} + exp(x_k - y_k) x'_k */
static void logcumsumexp_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_array *carried, *own;
    if (!tangents[0]) {
        return;
    }
    parts_of(node, &carried, &own);
    weft_array *y = weft_linear_scan(carried, weft_multiply(own, weft__wide(tangents[0])),
                                     (int)p->axis, p->reverse);
    y = p->inclusive ? y : weft__shift(y, p, true, 0);
    out[0] = weft_astype(y, weft_dtype_of(node));
}

static bool logcumsumexp_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!weft_dtype_is_float(input_dtype(node, 0)) && input_dtype(node, 0) != WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(input_dtype(node, 0)));
    }
    return weft__infer_scan(node, out, why);
}

const weft_op weft_op_logcumsumexp = {
    .name = "logcumsumexp",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_scan_params),
    .params_fields = weft__scan_fields,
    .infer = logcumsumexp_infer,
    .vjp = logcumsumexp_vjp,
    .jvp = logcumsumexp_jvp,
    .takes_leading_axis = true,
    .reference = logcumsumexp_reference,
    .cases = weft__scan_cases,
    .n_cases = INCLUSIVE_CASES,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
};

weft_array *weft_logcumsumexp(weft_array *x, int axis, bool reverse, bool inclusive)
{
    weft_scope_open();
    return weft_scope_close(
        weft__scan(&weft_op_logcumsumexp, as_inexact(x), axis, reverse, inclusive));
}
