/* ops/structure/put.c -- put_along_axis, with one value per index; and masked_scatter. */
#include "ops/structure/index.h"

extern const weft_op weft_op_put_along_axis;

static weft_status put_along_axis_reference(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->in[0]), count = weft_tensor_size(&call->in[2]), to;
    for (int64_t i = 0; i < size; i++) {
        move_element(&call->in[0], i, &call->out[0], i);
    }
    for (int64_t i = 0; i < count; i++) {
        weft_status status = weft__named_element(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        move_element(&call->in[2], i, &call->out[0], to);
    }
    return WEFT_OK;
}

static weft_array *put(weft_array *x, weft_array *indices, weft_array *values, int64_t axis)
{
    weft_axis_params params = {.axis = axis};
    return apply3(&weft_op_put_along_axis, x, indices, values, &params);
}

/* If several values go to the same element, only the last one counts. */
static void put_along_axis_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                               weft_array **grads)
{
    int64_t axis = ((const weft_axis_params *)weft_node_params(node))->axis;
    weft_array *x = weft_node_input(node, 0), *indices = weft_node_input(node, 1);
    weft_dims shape = weft_shape(indices);
    if (wanted[0]) {
        weft_array *zeros = weft__zeros_on_device_of(x, shape, weft_dtype_of(cts[0]));
        grads[0] = put(cts[0], indices, zeros, axis);
    }
    if (wanted[2]) {
        int front = (int)axis + shape.n;
        weft_array *order = weft__ramp(x, shape.at[front], front, shape.n);
        order = weft_broadcast_to(order, shape);
        weft_array *none = weft__zeros_on_device_of(x, weft_shape(x), WEFT_INT64);
        weft_array *last =
            weft_take_along_axis(put(none, indices, order, axis), indices, (int)axis);
        grads[2] =
            weft_where(weft_equal(last, order), weft_take_along_axis(cts[0], indices, (int)axis),
                       weft_scalar(0, weft_dtype_of(cts[0])));
    }
}

static bool put_along_axis_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dtype x = input_dtype(node, 0), values = input_dtype(node, 2);
    if (x != values) {
        return weft_because(why, "values of %s for %s", weft_dtype_name(values),
                            weft_dtype_name(x));
    }
    return weft__scatter_along_shapes(node, out, why);
}

const weft_op weft_op_put_along_axis = {
    .name = "put_along_axis",
    .family = WEFT_STRUCTURAL,
    .arity = 3,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = put_along_axis_infer,
    .vjp = put_along_axis_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .zero_gradient = 1u << 1,
    .reference = put_along_axis_reference,
    .cases = weft__scatter_along_cases,
    .n_cases = WEFT__SCATTER_ALONG_CASES,
};

weft_array *weft_put_along_axis(weft_array *x, weft_array *indices, weft_array *values, int axis)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("put_along_axis", x, axis, &from_end, &failed)) {
        return failed;
    }
    return weft_ok(values) ? put(x, indices, weft_astype(values, weft_dtype_of(x)), from_end)
                           : values;
}

weft_array *weft_take_flat(weft_array *x, weft_array *indices)
{
    weft_scope_open();
    return weft_scope_close(weft_take(weft_reshape(x, WEFT_DIMS(-1)), indices, 0));
}

/* Each true element gets the value whose index is the number of true elements before it. */
weft_array *weft_masked_scatter(weft_array *x, weft_array *mask, weft_array *values)
{
    weft_scope_open();
    if (!weft_ok(x) || !weft_ok(mask) || !weft_ok(values)) {
        return weft_scope_close(!weft_ok(x) ? x : !weft_ok(mask) ? mask : values);
    }
    if (weft_dtype_of(mask) != WEFT_BOOL) {
        return weft_scope_close(weft_error_array("masked_scatter: expected a mask of bool, got %s",
                                                 weft_dtype_name(weft_dtype_of(mask))));
    }
    if (weft_size(x) == 0) {
        return weft_scope_close(x);
    }
    weft_array *wide = weft_broadcast_to(mask, weft_shape(x));
    weft_array *flat = weft_astype(weft_reshape(wide, WEFT_DIMS(-1)), WEFT_INT64);
    weft_array *before = weft_cumsum(flat, 0, false, false);
    weft_array *source = weft_reshape(weft_astype(values, weft_dtype_of(x)), WEFT_DIMS(-1));
    if (weft_size(values) == 0) { /* then no mask element may be true, which an index into an empty
                                   * array reports */
        source = weft_zeros(WEFT_DIMS(1), weft_dtype_of(x));
        before = weft_add(before, flat);
    }
    /* Only the indices of true elements are used. */
    weft_array *place = weft_multiply(before, flat);
    weft_array *taken = weft_reshape(weft_take(source, place, 0), weft_shape(x));
    return weft_scope_close(weft_where(wide, taken, x));
}
