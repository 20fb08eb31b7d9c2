/* ops/reduce/logic.c -- all and any: whether elements are nonzero. NaN counts as nonzero. */
#include "ops/reduce/reduce.h"

static void decide(const weft_call *call, bool until)
{
    reduction walk = weft__reduction(call);
    int64_t size = weft_tensor_size(&call->out[0]);
    for (int64_t o = 0; o < size; o++) {
        bool found = false;
        for (int64_t r = 0; r < walk.count && !found; r++) {
            int64_t element = weft__reduced_element(&walk, o, r);
            found = (weft_tensor_get(&call->in[0], element) != 0) == until;
        }
        weft_tensor_set_int(&call->out[0], o, found == until);
    }
}

static weft_status all_reference(const weft_call *call)
{
    decide(call, false);
    return WEFT_OK;
}

static weft_status any_reference(const weft_call *call)
{
    decide(call, true);
    return WEFT_OK;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    if (input_dtype(node, 0) == WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for complex64");
    }
    return weft__reduced_shape(node, &shape, why) && set_spec(out, WEFT_BOOL, &shape);
}

const weft_op weft_op_all = {
    .name = "all",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = all_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
    .no_test_dtypes = DTYPE_BIT(WEFT_COMPLEX64),
};

const weft_op weft_op_any = {
    .name = "any",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_reduce_params),
    .params_fields = weft__reduce_fields,
    .infer = infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = any_reference,
    .cases = weft__reduce_cases,
    .n_cases = REDUCE_CASES,
    .no_test_dtypes = DTYPE_BIT(WEFT_COMPLEX64),
};

weft_array *weft_all(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_all, x, axes, keepdims);
}

weft_array *weft_any(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft__reduce(&weft_op_any, x, axes, keepdims);
}
