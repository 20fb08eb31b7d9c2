/* ops/reduce/sum.c -- sum and mean, accumulated in double (integers: in 64 bits) and rounded once.
 */
#include "ops/reduce/reduce.h"

/* Sums, multiplied by `scale`. */
static void add_complex(const weft_call *call, double scale)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        double re = 0, im = 0;
        for (int64_t r = 0; r < walk.count; r++) {
            double x, y;
            get_complex(&call->in[0], weft__reduced_element(&walk, o, r), &x, &y);
            re += x;
            im += y;
        }
        set_complex(&call->out[0], o, re * scale, im * scale);
    }
}

static void add_reals(const weft_call *call, bool mean)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        double sum = 0;
        for (int64_t r = 0; r < walk.count; r++) {
            sum += weft_tensor_get(&call->in[0], weft__reduced_element(&walk, o, r));
        }
        weft_tensor_set(&call->out[0], o, mean ? sum / (double)walk.count : sum);
    }
}

static void add_integers(const weft_call *call)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        uint64_t sum = 0;
        for (int64_t r = 0; r < walk.count; r++) {
            int64_t element = weft__reduced_element(&walk, o, r);
            sum += (uint64_t)weft_tensor_get_int(&call->in[0], element);
        }
        weft_tensor_set_int(&call->out[0], o, (int64_t)sum);
    }
}

/* ---- sum ------------------------------------------------------------------------------------ */

static weft_status sum_reference(const weft_call *call)
{
    weft_dtype dtype = call->out[0].dtype;
    if (dtype == WEFT_COMPLEX64) {
        add_complex(call, 1);
    } else if (weft_dtype_is_float(dtype)) {
        add_reals(call, false);
    } else {
        add_integers(call);
    }
    return WEFT_OK;
}

static void sum_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = weft__unreduce(node, cts[0]);
    }
}

static bool sum_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    return weft__reduced_shape(node, &shape, why) &&
           set_spec(out, weft__sum_dtype(input_dtype(node, 0)), &shape);
}

const weft_op weft_op_sum = {
    .name = "sum",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = sum_infer,
    .vjp = sum_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = sum_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
};

weft_array *weft_sum(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_sum, x, axes, keepdims);
}

/* ---- mean ----------------------------------------------------------------------------------- */

static weft_status mean_reference(const weft_call *call)
{
    if (call->out[0].dtype == WEFT_COMPLEX64) {
        add_complex(call, 1 / (double)weft__reduction(call).count);
    } else {
        add_reals(call, true);
    }
    return WEFT_OK;
}

static void mean_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    if (wanted[0]) {
        double count = (double)weft_size(weft_node_input(node, 0)) / (double)weft_size(node);
        grads[0] = weft__unreduce(node, weft_scale(cts[0], count > 0 ? 1 / count : 0));
    }
}

static bool mean_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    weft_dtype dtype = input_dtype(node, 0);
    if (!weft_dtype_is_float(dtype) && dtype != WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    return weft__reduced_shape(node, &shape, why) && set_spec(out, dtype, &shape);
}

const weft_op weft_op_mean = {
    .name = "mean",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = mean_infer,
    .vjp = mean_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = mean_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
    .no_test_dtypes = DTYPE_INTEGERS | DTYPE_BIT(WEFT_BOOL),
};

weft_array *weft_mean(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    return weft_scope_close(weft__reduce(&weft_op_mean, as_inexact(x), axes, keepdims));
}
