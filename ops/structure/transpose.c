/* ops/structure/transpose.c -- transpose: output axis i is input axis axes[i]. */
#include "ops/kernel.h"

static weft_status transpose_reference(const weft_call *call)
{
    const weft_transpose_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t size = weft_tensor_size(out), at[WEFT_MAX_DIMS], from[WEFT_MAX_DIMS];
    for (int64_t o = 0; o < size; o++) {
        index_split(&out->shape, o, at);
        for (int i = 0; i < p->axes.n; i++) {
            from[p->axes.at[i]] = at[i];
        }
        move_element(in, index_join(&in->shape, from), out, o);
    }
    return WEFT_OK;
}

static bool transpose_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_transpose_params *p = weft_node_params(node);
    for (int i = 0; i < p->axes.n; i++) {
        out->shape.at[i] = in->shape.at[p->axes.at[i]];
        out->strides[i] = in->strides[p->axes.at[i]];
    }
    return true;
}

static void transpose_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    const weft_transpose_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_dims inverse = p->axes;
        for (int i = 0; i < p->axes.n; i++) {
            inverse.at[p->axes.at[i]] = i;
        }
        grads[0] = weft_transpose(cts[0], inverse);
    }
}

static bool transpose_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                           int64_t size, weft_array **out)
{
    const weft_transpose_params *p = weft_node_params(node);
    weft_dims axes = {.n = p->axes.n + 1};
    (void)batched, (void)size;
    for (int i = 1; i < axes.n && axes.n <= WEFT_MAX_DIMS; i++) {
        axes.at[i] = p->axes.at[i - 1] + 1;
    }
    out[0] = weft_transpose(in[0], axes);
    return true;
}

static bool transpose_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_transpose_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0), result = shape;
    char text[WEFT_SHAPE_TEXT];
    unsigned seen = 0;
    bool fits = p->axes.n == shape.n;
    for (int i = 0; fits && i < p->axes.n; i++) {
        int64_t axis = p->axes.at[i];
        fits = axis >= 0 && axis < shape.n && !(seen >> axis & 1);
        if (fits) {
            seen |= 1u << axis;
            result.at[i] = shape.at[axis];
        }
    }
    if (!fits) {
        return weft_because(why, "axes %s are not an order of the %d axes",
                            weft__shape_text(&p->axes, text), shape.n);
    }
    return set_spec(out, input_dtype(node, 0), &result);
}

static const weft_field transpose_fields[] = {WEFT_FIELD(DIMS, weft_transpose_params, axes),
                                              WEFT_FIELDS_END};

static const weft_case transpose_cases[] = {
    {.name = "2d",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_transpose_params){DIMS(1, 0)}},
    {.name = "3d",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const weft_transpose_params){DIMS(2, 0, 1)}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 0, 2)}},
     .params = &(const weft_transpose_params){DIMS(1, 2, 0)}},
};

static bool transpose_is_identity(const void *params, int n_inputs)
{
    const weft_transpose_params *p = params;
    (void)n_inputs;
    for (int i = 0; i < p->axes.n; i++) {
        if (p->axes.at[i] != i) {
            return false;
        }
    }
    return true;
}

const weft_op weft_op_transpose = {
    .name = "transpose",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_transpose_params),
    .params_fields = transpose_fields,
    .infer = transpose_infer,
    .vjp = transpose_vjp,
    .linear = true,
    .vmap = transpose_vmap,
    .is_identity = transpose_is_identity,
    .view = transpose_view,
    .reference = transpose_reference,
    .cases = transpose_cases,
    .n_cases = sizeof transpose_cases / sizeof *transpose_cases,
};

weft_array *weft_transpose(weft_array *x, weft_dims axes)
{
    if (!weft_ok(x)) {
        return x;
    }
    weft_transpose_params params = {axes};
    weft_array *failed;
    int ndim = weft_ndim(x);
    if (!weft__list_fits("transpose", &axes, &failed)) {
        return failed;
    }
    if (axes.n < 0) { /* WEFT_ALL_AXES */
        params.axes.n = ndim;
        for (int i = 0; i < ndim; i++) {
            params.axes.at[i] = ndim - 1 - i;
        }
    }
    bool moves = params.axes.n != ndim;
    for (int i = 0; i < params.axes.n; i++) {
        params.axes.at[i] += params.axes.at[i] < 0 ? ndim : 0;
        moves = moves || params.axes.at[i] != i;
    }
    return moves ? apply1(&weft_op_transpose, x, &params) : x;
}

weft_array *weft_swapaxes(weft_array *x, int axis_a, int axis_b)
{
    int64_t a, b;
    weft_array *failed;
    if (!weft__axis_from_end("swapaxes", x, axis_a, &a, &failed) ||
        !weft__axis_from_end("swapaxes", x, axis_b, &b, &failed)) {
        return failed;
    }
    weft_dims axes = {.n = weft_ndim(x)};
    for (int i = 0; i < axes.n; i++) {
        axes.at[i] = i;
    }
    axes.at[a + axes.n] = b + axes.n;
    axes.at[b + axes.n] = a + axes.n;
    return weft_transpose(x, axes);
}
