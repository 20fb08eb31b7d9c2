/* ops/structure/pad.c -- a constant before and after the elements of an axis. */
#include "ops/kernel.h"

static weft_status pad_reference(const weft_call *call)
{
    const weft_pad_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int front = (int)p->axis + out->shape.n;
    int64_t size = weft_tensor_size(out), at[WEFT_MAX_DIMS];
    for (int64_t o = 0; o < size; o++) {
        index_split(&out->shape, o, at);
        at[front] -= p->before;
        if (at[front] < 0 || at[front] >= in->shape.at[front]) {
            weft_tensor_set(out, o, p->value);
        } else {
            move_element(in, index_join(&in->shape, at), out, o);
        }
    }
    return WEFT_OK;
}

static void pad_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    const weft_pad_params *p = weft_node_params(node);
    if (wanted[0]) {
        int64_t length = weft_dim(weft_node_input(node, 0), (int)p->axis);
        grads[0] = weft_slice_axis(cts[0], (int)p->axis, p->before, p->before + length);
    }
}

static bool pad_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_pad_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    int front = weft__check_axis(p->axis, shape.n, why);
    if (front < 0) {
        return false;
    }
    if (p->before < 0 || p->after < 0 ||
        __builtin_add_overflow(shape.at[front], p->before, &shape.at[front]) ||
        __builtin_add_overflow(shape.at[front], p->after, &shape.at[front])) {
        return weft_because(why, "by %lld and %lld: expected sizes of 0 or more",
                            (long long)p->before, (long long)p->after);
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_field pad_fields[] = {
    WEFT_FIELD(INT, weft_pad_params, axis),
    WEFT_FIELD(INT, weft_pad_params, before),
    WEFT_FIELD(INT, weft_pad_params, after),
    WEFT_FIELD(DOUBLE, weft_pad_params, value),
    WEFT_FIELDS_END,
};

static const weft_case pad_cases[] = {
    {.name = "rows",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_pad_params){-2, 1, 2, 0}},
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_pad_params){-1, 0, 2, 1}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_pad_params){-1, 2, 1, 1}},
};

const weft_op weft_op_pad = {
    .name = "pad",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_pad_params),
    .params_fields = pad_fields,
    .infer = pad_infer,
    .vjp = pad_vjp,
    .reference = pad_reference,
    .cases = pad_cases,
    .n_cases = sizeof pad_cases / sizeof *pad_cases,
};

weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value)
{
    weft_pad_params params = {.before = before, .after = after, .value = value};
    weft_array *failed;
    if (!weft__axis_from_end("pad", x, axis, &params.axis, &failed)) {
        return failed;
    }
    return before == 0 && after == 0 ? x : apply1(&weft_op_pad, x, &params);
}
