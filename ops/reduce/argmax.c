/* ops/reduce/argmax.c -- argmax and argmin: the index of the first largest or smallest element, or
 * of the first NaN. */
#include "ops/reduce/extremes.h"

static void find(const weft_call *call, bool largest)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *in = &call->in[0];
    axis_extents e = extents_of(&in->shape, p->axis);
    int64_t size = e.outer * e.inner;
    for (int64_t o = 0; o < size; o++) {
        int64_t base = o / e.inner * e.length * e.inner + o % e.inner, best = 0;
        for (int64_t i = 1; i < e.length; i++) {
            if (weft__replaces_extreme(in, base + i * e.inner, base + best * e.inner, largest)) {
                best = i;
            }
        }
        weft_tensor_set_int(&call->out[0], o, best);
    }
}

static weft_status argmax_reference(const weft_call *call)
{
    find(call, true);
    return WEFT_OK;
}

static weft_status argmin_reference(const weft_call *call)
{
    find(call, false);
    return WEFT_OK;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    int front = weft__check_axis(p->axis, shape.n, why);
    if (front < 0) {
        return false;
    }
    if (shape.at[front] == 0 || shape.at[front] > UINT32_MAX) {
        return weft_because(why, "an axis of size %lld", (long long)shape.at[front]);
    }
    shape.at[front] = 1;
    if (!p->keepdims) {
        shape.n--;
        memmove(shape.at + front, shape.at + front + 1,
                (size_t)(shape.n - front) * sizeof *shape.at);
    }
    return set_spec(out, WEFT_UINT32, &shape);
}

static const weft_case cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "first",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 3, 2)}},
     .params = &(const weft_axis_params){-3, true}},
    {.name = "middle",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 3, 2)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 3)}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_argmax = {
    .name = "argmax",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = argmax_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

const weft_op weft_op_argmin = {
    .name = "argmin",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = argmin_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

/* Kernels support only the last axis, so other axes are moved to the end. */
static weft_array *apply(const weft_op *op, weft_array *x, int axis, bool keepdims)
{
    int64_t from_end;
    weft_array *failed;
    weft_dims ones = {.n = axis == WEFT_FLATTENED ? weft_ndim(x) : 0};
    x = weft__flattened(x, &axis);
    if (!weft__axis_from_end(op->name, x, axis, &from_end, &failed)) {
        return failed;
    }
    weft_axis_params params = {.axis = -1, .keepdims = true};
    weft_array *last = weft_swapaxes(x, (int)from_end, -1);
    weft_array *y = weft_swapaxes(apply1(op, last, &params), (int)from_end, -1);
    for (int i = 0; i < ones.n; i++) {
        ones.at[i] = 1;
    }
    return !keepdims ? weft_squeeze(y, (int)from_end) : ones.n ? weft_reshape(y, ones) : y;
}

weft_array *weft_argmax(weft_array *x, int axis, bool keepdims)
{
    weft_scope_open();
    return weft_scope_close(apply(&weft_op_argmax, x, axis, keepdims));
}

weft_array *weft_argmin(weft_array *x, int axis, bool keepdims)
{
    weft_scope_open();
    return weft_scope_close(apply(&weft_op_argmin, x, axis, keepdims));
}
