/* ops/structure/slice_set.c -- sets a slice of an array, or adds, multiplies, maximizes or
 * minimizes into it. */
#include "ops/structure/index.h"

extern const weft_op weft_op_slice, weft_op_slice_set;

/* The index in the whole array of element i of the slice. */
static int64_t slice_index(const weft_slice_params *p, const weft_dims *whole,
                           const weft_dims *part, int64_t i)
{
    int64_t at[WEFT_MAX_DIMS];
    index_split(part, i, at);
    for (int a = 0; a < p->axes.n; a++) {
        int64_t d = p->axes.at[a] + whole->n;
        at[d] = p->starts.at[a] + at[d] * p->steps.at[a];
    }
    return index_join(whole, at);
}

static weft_status slice_set_reference(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *update = &call->in[1], *out = &call->out[0];
    int64_t whole = weft_tensor_size(x), size = weft_tensor_size(update);
    for (int64_t i = 0; i < whole; i++) {
        move_element(x, i, out, i);
    }
    for (int64_t i = 0; i < size; i++) {
        move_element(update, i, out, slice_index(call->params, &x->shape, &update->shape, i));
    }
    return WEFT_OK;
}

static void slice_set_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    const void *params = weft_node_params(node);
    weft_array *update = weft_node_input(node, 1);
    if (wanted[0]) {
        weft_array *zeros =
            weft__zeros_on_device_of(update, weft_shape(update), weft_dtype_of(cts[0]));
        grads[0] = apply2(&weft_op_slice_set, cts[0], zeros, params);
    }
    if (wanted[1]) {
        grads[1] = apply1(&weft_op_slice, cts[0], params);
    }
}

static bool slice_set_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0), part = shape, update = input_shape(node, 1);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!weft__sliced_shape(weft_node_params(node), &part, why)) {
        return false;
    }
    if (!weft__shape_equal(&part, &update) || input_dtype(node, 0) != input_dtype(node, 1)) {
        return weft_because(why, "an update of %s %s for a slice of %s %s",
                            weft_dtype_name(input_dtype(node, 1)), weft__shape_text(&update, a),
                            weft_dtype_name(input_dtype(node, 0)), weft__shape_text(&part, b));
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case slice_set_cases[] = {
    {.name = "window",
     .n_inputs = 2,
     .in = {{.shape = DIMS(4, 5)}, {.shape = DIMS(2, 3)}},
     .params = &(const weft_slice_params){DIMS(-2, -1), DIMS(1, 2), DIMS(2, 3), DIMS(1, 1)}},
    {.name = "backwards",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 7, 3)}, {.shape = DIMS(2, 3, 3)}},
     .params = &(const weft_slice_params){DIMS(-2), DIMS(5), DIMS(3), DIMS(-2)}},
    {.name = "nothing",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(0, 2)}},
     .params = &(const weft_slice_params){DIMS(-2), DIMS(0), DIMS(0), DIMS(1)}},
};

const weft_op weft_op_slice_set = {
    .name = "slice_set",
    .family = WEFT_STRUCTURAL,
    .arity = 2,
    .params_size = sizeof(weft_slice_params),
    .params_fields = weft__slice_fields,
    .infer = slice_set_infer,
    .vjp = slice_set_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = slice_set_reference,
    .cases = slice_set_cases,
    .n_cases = sizeof slice_set_cases / sizeof *slice_set_cases,
};

weft_array *weft__slice_combine(weft_array *x, weft_array *update, const weft_slice_params *slice,
                                weft_combine combine)
{
    weft_array *part = apply1(&weft_op_slice, x, slice);
    weft_array *wide = weft_broadcast_to(weft_astype(update, weft_dtype_of(x)), weft_shape(part));
    switch (combine) {
    case WEFT_COMBINE_ADD:
        wide = weft_add(part, wide);
        break;
    case WEFT_COMBINE_PROD:
        wide = weft_multiply(part, wide);
        break;
    case WEFT_COMBINE_MAX:
        wide = weft_maximum(part, wide);
        break;
    case WEFT_COMBINE_MIN:
        wide = weft_minimum(part, wide);
        break;
    case WEFT_COMBINE_PUT:
        break;
    }
    return apply2(&weft_op_slice_set, x, wide, slice);
}

static weft_array *update_slice(const char *op, weft_combine combine, weft_array *x,
                                weft_array *update, weft_dims axes, weft_dims starts,
                                weft_dims stops, weft_dims steps)
{
    weft_slice_params slice;
    weft_array *failed;
    if (!weft_ok(update)) {
        return weft_ok(x) ? update : x;
    }
    return weft__slice_of(x, op, axes, starts, stops, steps, &slice, &failed)
               ? weft__slice_combine(x, update, &slice, combine)
               : failed;
}

weft_array *weft_slice_update_static(weft_array *x, weft_array *update, weft_dims axes,
                                     weft_dims starts, weft_dims stops, weft_dims steps)
{
    weft_scope_open();
    return weft_scope_close(
        update_slice("slice_update", WEFT_COMBINE_PUT, x, update, axes, starts, stops, steps));
}

weft_array *weft_slice_update_add(weft_array *x, weft_array *update, weft_dims axes,
                                  weft_dims starts, weft_dims stops, weft_dims steps)
{
    weft_scope_open();
    return weft_scope_close(
        update_slice("slice_update_add", WEFT_COMBINE_ADD, x, update, axes, starts, stops, steps));
}

weft_array *weft_slice_update_prod(weft_array *x, weft_array *update, weft_dims axes,
                                   weft_dims starts, weft_dims stops, weft_dims steps)
{
    weft_scope_open();
    return weft_scope_close(update_slice("slice_update_prod", WEFT_COMBINE_PROD, x, update, axes,
                                         starts, stops, steps));
}

weft_array *weft_slice_update_max(weft_array *x, weft_array *update, weft_dims axes,
                                  weft_dims starts, weft_dims stops, weft_dims steps)
{
    weft_scope_open();
    return weft_scope_close(
        update_slice("slice_update_max", WEFT_COMBINE_MAX, x, update, axes, starts, stops, steps));
}

weft_array *weft_slice_update_min(weft_array *x, weft_array *update, weft_dims axes,
                                  weft_dims starts, weft_dims stops, weft_dims steps)
{
    weft_scope_open();
    return weft_scope_close(
        update_slice("slice_update_min", WEFT_COMBINE_MIN, x, update, axes, starts, stops, steps));
}

weft_array *weft_pad_with(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                          weft_array *value)
{
    weft_scope_open();
    weft_array *padded = weft_pad_axes(x, axes, before, after, WEFT_PAD_CONSTANT, 0);
    if (!weft_ok(value) || !weft_ok(padded)) {
        return weft_scope_close(weft_ok(value) ? padded : value);
    }
    weft_array *frame = weft_broadcast_to(weft_astype(value, weft_dtype_of(x)), weft_shape(padded));
    weft_dims stops = before;
    for (int i = 0; i < axes.n; i++) {
        stops.at[i] += weft_dim(x, (int)axes.at[i]);
    }
    return weft_scope_close(
        weft_slice_update_static(frame, x, axes, before, stops, (weft_dims){0}));
}
