/* ops/reduce/extremes.c -- max and min; NaN wins. Complex numbers compare by their real, then by
 * their imaginary parts. */
#include <math.h>

#include "ops/reduce/extremes.h"

static bool has_nan(const weft_tensor *t, int64_t i)
{
    if (t->dtype == WEFT_COMPLEX64) {
        double re, im;
        get_complex(t, i, &re, &im);
        return isnan(re) || isnan(im);
    }
    return weft_dtype_is_float(t->dtype) && isnan(weft_tensor_get(t, i));
}

bool weft__replaces_extreme(const weft_tensor *t, int64_t a, int64_t b, bool largest)
{
    if (has_nan(t, a) || has_nan(t, b)) {
        return !has_nan(t, b);
    }
    return largest ? weft__sorts_before(t, b, t, a) : weft__sorts_before(t, a, t, b);
}

static void find(const weft_call *call, bool largest)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        int64_t best = weft__reduced_element(&walk, o, 0);
        for (int64_t r = 1; r < walk.count; r++) {
            int64_t element = weft__reduced_element(&walk, o, r);
            best = weft__replaces_extreme(&call->in[0], element, best, largest) ? element : best;
        }
        move_element(&call->in[0], best, &call->out[0], o);
    }
}

static weft_status max_reference(const weft_call *call)
{
    find(call, true);
    return WEFT_OK;
}

static weft_status min_reference(const weft_call *call)
{
    find(call, false);
    return WEFT_OK;
}

/* Equal extreme elements share the gradient evenly. */
static void extremes_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                         weft_array **grads)
{
    if (!wanted[0]) {
        return;
    }
    const weft_reduce_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0);
    weft_array *hit = weft_equal(x, weft__unreduce(node, node));
    weft_array *ties = weft_astype(weft_sum(hit, p->axes, false), WEFT_FLOAT32);
    ties = weft_reshape(ties, weft_shape(node));
    weft_array *share =
        weft_divide(weft_astype(cts[0], weft_promote(weft_dtype_of(x), WEFT_FLOAT32)), ties);
    share = weft__unreduce(node, weft_astype(share, weft_dtype_of(x)));
    grads[0] = weft_where(hit, share, weft_scalar(0, weft_dtype_of(x)));
}

const weft_op weft_op_max = {
    .name = "max",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = weft__infer_nonempty,
    .vjp = extremes_vjp,
    .takes_leading_axis = true,
    .reference = max_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
};

const weft_op weft_op_min = {
    .name = "min",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = weft__infer_nonempty,
    .vjp = extremes_vjp,
    .takes_leading_axis = true,
    .reference = min_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
};

weft_array *weft_max(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_max, x, axes, keepdims);
}

weft_array *weft_min(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_min, x, axes, keepdims);
}
