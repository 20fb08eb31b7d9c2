/* ops/structure/take.c -- take: slices of x at indices along an axis; and its gradient scatter_add.
 * Embedding is take on the rows of a table. */
#include "ops/structure/index.h"

extern const weft_op weft_op_scatter_add, weft_op_full;

/* The shape of x with the axis replaced by the shape of the indices. */
static bool taken_shape(const weft_dims *x, int front, const weft_dims *indices, weft_dims *out,
                        weft_why *why)
{
    if (x->n - 1 + indices->n > WEFT_MAX_DIMS) {
        return weft_because(why, "the result has rank %d, more than %d", x->n - 1 + indices->n,
                            WEFT_MAX_DIMS);
    }
    *out = (weft_dims){0};
    for (int i = 0; i < front; i++) {
        out->at[out->n++] = x->at[i];
    }
    for (int i = 0; i < indices->n; i++) {
        out->at[out->n++] = indices->at[i];
    }
    for (int i = front + 1; i < x->n; i++) {
        out->at[out->n++] = x->at[i];
    }
    return true;
}

/* The index into x for element i of the result. */
weft_status weft__target_along_axis(const weft_call *call, int64_t i, int64_t *out)
{
    const weft_axis_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    int64_t count = weft_tensor_size(&call->in[1]), at;
    int64_t inner = i % e.inner, which = i / e.inner % count, outer = i / e.inner / count;
    weft_status status = weft__index_at(call, &call->in[1], which, e.length, &at);
    if (status == WEFT_OK) {
        *out = (outer * e.length + at) * e.inner + inner;
    }
    return status;
}

/* ---- take: x, indices ----------------------------------------------------------------------- */

static weft_status take_reference(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->out[0]), from;
    for (int64_t i = 0; i < size; i++) {
        weft_status status = weft__target_along_axis(call, i, &from);
        if (status != WEFT_OK) {
            return status;
        }
        if (call->in[0].encoding) {
            weft_tensor_set(&call->out[0], i, weft_tensor_get(&call->in[0], from));
        } else {
            move_element(&call->in[0], from, &call->out[0], i);
        }
    }
    return WEFT_OK;
}

static void take_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_array *x = weft_node_input(node, 0);
    if (wanted[0] && weft_encoding_of(x)) {
        grads[0] = weft_error_array("take: the array is encoded as %s, which has no gradient: "
                                    "freeze it, or decode it (weft_decode)",
                                    weft_encoding_of(x)->name);
    } else if (wanted[0]) {
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(x), weft_dtype_of(cts[0]));
        grads[0] = apply3(&weft_op_scatter_add, zeros, weft_node_input(node, 1), cts[0],
                          weft_node_params(node));
    }
}

/* Each example's indices are for its own x, so the example's number becomes a further index. */
static bool take_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                      weft_array **out)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_dims shape = weft_shape(in[1]);
    int front = (int)p->axis + weft_ndim(in[0]), inner = shape.n - 1;
    if (!batched[1]) {
        out[0] = weft_take(in[0], in[1], (int)p->axis);
        return true;
    }
    if (!batched[0]) {
        out[0] = weft_moveaxis(weft_take(in[0], in[1], (int)p->axis), front, 0);
        return true;
    }
    weft_array *members = weft_broadcast_to(weft__ramp(in[0], size, 0, shape.n), shape);
    weft__points points = {2, {0, front}, {members, in[1]}};
    weft_array *y = weft__take_points(in[0], &points);
    weft_dims order = {.n = weft_ndim(y)}; /* (B, I, before, after) -> (B, before, I, after) */
    for (int i = 0; i < order.n; i++) {
        order.at[i] = i == 0 || i >= front + inner ? i : i < front ? i + inner : i - front + 1;
    }
    out[0] = weft_transpose(y, order);
    return true;
}

static bool take_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_dims x = input_shape(node, 0), indices = input_shape(node, 1), shape = {0};
    int front = weft__check_axis(p->axis, x.n, why);
    if (front < 0) {
        return false;
    }
    if (weft_encoding_of(weft_node_input(node, 0)) && front == x.n - 1) {
        return weft_because(why,
                            "the last axis of an encoded array: decode it first (weft_decode)");
    }
    if (!weft__expect_indices(node, 1, why)) {
        return false;
    }
    return taken_shape(&x, front, &indices, &shape, why) &&
           set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case take_cases[] = {
    {.name = "rows",
     .n_inputs = 2,
     .in = {{.shape = DIMS(5, 4)}, {.shape = DIMS(7), .index_below = 5}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "middle",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 3, 2)}, {.shape = DIMS(2, 2), .index_below = 3}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "last",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 6)}, {.index_below = 6}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "nothing",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(0), .index_below = 3}},
     .params = &(const weft_axis_params){-2, false}},
};

const weft_op weft_op_take = {
    .name = "take",
    .family = WEFT_STRUCTURAL,
    .arity = 2,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = take_infer,
    .takes_encoded = 1u << 0,
    .vjp = take_vjp,
    .linear = true,
    .vmap = take_vmap,
    .zero_gradient = 1u << 1,
    .reference = take_reference,
    .cases = take_cases,
    .n_cases = sizeof take_cases / sizeof *take_cases,
};

weft_array *weft_take(weft_array *x, weft_array *indices, int axis)
{
    weft_axis_params params = {0};
    weft_array *failed;
    if (!weft__axis_from_end("take", x, axis, &params.axis, &failed)) {
        return failed;
    }
    return apply2(&weft_op_take, x, indices, &params);
}

weft_array *weft_embedding(weft_array *table, weft_array *ids)
{
    weft_dims shape = weft_shape(table);
    char text[WEFT_SHAPE_TEXT];
    if (weft_ok(table) && shape.n != 2) {
        return weft_error_array("embedding: expected a table (V, E), got %s",
                                weft__shape_text(&shape, text));
    }
    return weft_take(table, ids, 0);
}

/* ---- scatter_add: x, indices, values -> x + values at the indices --------------------------- */

static weft_status scatter_add_reference(const weft_call *call)
{
    return weft__scatter_add(call, weft__target_along_axis);
}

static void scatter_add_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    const weft_axis_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = cts[0];
    }
    if (wanted[2]) {
        grads[2] = weft_take(cts[0], weft_node_input(node, 1), (int)p->axis);
    }
}

bool weft__scatter_shapes(const weft_array *node, int64_t axis, weft_spec *out, weft_why *why)
{
    weft_dims x = input_shape(node, 0), indices = input_shape(node, 1), shape;
    weft_dims values = input_shape(node, 2);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    int front = weft__check_axis(axis, x.n, why);
    if (front < 0 || !taken_shape(&x, front, &indices, &shape, why)) {
        return false;
    }
    if (!weft__expect_indices(node, 1, why)) {
        return false;
    }
    if (!weft__shape_equal(&values, &shape)) {
        return weft_because(why, "values: expected %s, got %s", weft__shape_text(&shape, a),
                            weft__shape_text(&values, b));
    }
    return set_spec(out, input_dtype(node, 0), &x);
}

static bool scatter_add_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    return weft__scatter_dtypes(node, why) && weft__scatter_shapes(node, p->axis, out, why);
}

static bool scatter_add_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                             int64_t size, weft_array **out)
{
    const weft_axis_params *p = weft_node_params(node);
    return weft__scatter_vmap(in, batched, size, p->axis, WEFT_COMBINE_ADD, out);
}

/* b + a, where `a` is a sum into zeros: its values are added to b instead. */
static weft_array *scatter_add_into(weft_array *a, weft_array *b)
{
    const weft_array *zeros = weft_node_input(a, 0);
    const weft_full_params *p = weft_node_params(zeros);
    return weft_node_op(zeros) == &weft_op_full && p->value == 0 && p->integer == 0
               ? apply3(&weft_op_scatter_add, b, weft_node_input(a, 1), weft_node_input(a, 2),
                        weft_node_params(a))
               : NULL;
}

static const weft_case scatter_add_cases[] = {
    {.name = "rows",
     .n_inputs = 3,
     .in = {{.shape = DIMS(5, 4)}, {.shape = DIMS(7), .index_below = 5}, {.shape = DIMS(7, 4)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "middle",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 3, 2)},
            {.shape = DIMS(2, 2), .index_below = 3},
            {.shape = DIMS(2, 2, 2, 2)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(0), .index_below = 3}, {.shape = DIMS(0, 2)}},
     .params = &(const weft_axis_params){-2, false}},
};

const weft_op weft_op_scatter_add = {
    .name = "scatter_add",
    .family = WEFT_STRUCTURAL,
    .arity = 3,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = scatter_add_infer,
    .vjp = scatter_add_vjp,
    .linear = true,
    .vmap = scatter_add_vmap,
    .add = scatter_add_into,
    .zero_gradient = 1u << 1,
    .reference = scatter_add_reference,
    .cases = scatter_add_cases,
    .n_cases = sizeof scatter_add_cases / sizeof *scatter_add_cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_BOOL),
};
