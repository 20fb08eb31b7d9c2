/* ops/reduce/logsumexp.c -- log(sum(exp(x))), shifted by the largest element. For complex numbers
 * the principal logarithm, shifted by the largest real part. */
#include <complex.h>
#include <math.h>

#include "ops/reduce/reduce.h"

static double log_sum_exp(const weft_tensor *x, const reduction *walk, int64_t o)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t r = 0; r < walk->count; r++) {
        double value = weft_tensor_get(x, weft__reduced_element(walk, o, r));
        if (isnan(value)) {
            return value;
        }
        largest = value > largest ? value : largest;
    }
    if (isinf(largest)) {
        return largest;
    }
    for (int64_t r = 0; r < walk->count; r++) {
        sum += exp(weft_tensor_get(x, weft__reduced_element(walk, o, r)) - largest);
    }
    return largest + log(sum);
}

/* If the largest real part is infinite, it is the result, with imaginary part 0. */
static void complex_log_sum_exp(const weft_tensor *x, const reduction *walk, int64_t o, double *re,
                                double *im)
{
    double complex sum = 0;
    *re = -INFINITY;
    *im = 0;
    for (int64_t r = 0; r < walk->count; r++) {
        double a, b;
        get_complex(x, weft__reduced_element(walk, o, r), &a, &b);
        if (isnan(a) || isnan(b)) {
            *re = *im = (double)NAN;
            return;
        }
        *re = a > *re ? a : *re;
    }
    if (isinf(*re)) {
        return;
    }
    for (int64_t r = 0; r < walk->count; r++) {
        double a, b;
        get_complex(x, weft__reduced_element(walk, o, r), &a, &b);
        sum += exp(a - *re) * (cos(b) + I * sin(b));
    }
    *re += log(cabs(sum));
    *im = carg(sum);
}

static weft_status logsumexp_reference(const weft_call *call)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        if (call->in[0].dtype == WEFT_COMPLEX64) {
            double re, im;
            complex_log_sum_exp(&call->in[0], &walk, o, &re, &im);
            set_complex(&call->out[0], o, re, im);
        } else {
            weft_tensor_set(&call->out[0], o, log_sum_exp(&call->in[0], &walk, o));
        }
    }
    return WEFT_OK;
}

static void logsumexp_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    const weft_reduce_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_array *x = weft_node_input(node, 0);
        /* Computed from x instead of the result, which 16-bit floats round too coarsely for an
         * exponent. */
        weft_array *shares = weft_conjugate(weft_softmax_axes(x, p->axes));
        grads[0] = weft_multiply(shares, weft__unreduce(node, cts[0]));
    }
}

static bool logsumexp_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    if (!weft_dtype_is_float(input_dtype(node, 0)) && input_dtype(node, 0) != WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(input_dtype(node, 0)));
    }
    return weft__reduced_shape(node, &shape, why) && set_spec(out, input_dtype(node, 0), &shape);
}

const weft_op weft_op_logsumexp = {
    .name = "logsumexp",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = logsumexp_infer,
    .vjp = logsumexp_vjp,
    .takes_leading_axis = true,
    .reference = logsumexp_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
    .no_test_dtypes = DTYPE_NOT_INEXACT,
};

weft_array *weft_logsumexp(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    return weft_scope_close(weft__reduce(&weft_op_logsumexp, as_inexact(x), axes, keepdims));
}
