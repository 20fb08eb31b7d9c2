/* ops/structure/along_axis.c -- take_along_axis, with one index per element, and its gradient
 * scatter_add_along_axis. */
#include "ops/structure/index.h"

/* The index into x of the element that element i of the indices selects. */
weft_status weft__named_element(const weft_call *call, int64_t i, int64_t *out)
{
    const weft_axis_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    int64_t length = extents_of(&call->in[1].shape, p->axis).length, at;
    int64_t inner = i % e.inner, outer = i / e.inner / length;
    weft_status status = weft__index_at(call, &call->in[1], i, e.length, &at);
    if (status == WEFT_OK) {
        *out = (outer * e.length + at) * e.inner + inner;
    }
    return status;
}

/* Checks that shapes are equal except along the axis, and that indices are integers. */
static bool fits_along(const weft_array *node, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    weft_dims x = input_shape(node, 0), indices = input_shape(node, 1), expected = x;
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    int front = weft__check_axis(p->axis, x.n, why);
    if (front < 0) {
        return false;
    }
    if (indices.n == x.n) {
        expected.at[front] = indices.at[front];
    }
    if (!weft__shape_equal(&indices, &expected)) {
        return weft_because(why, "indices of %s for %s: only axis %lld may differ",
                            weft__shape_text(&indices, a), weft__shape_text(&x, b),
                            (long long)p->axis);
    }
    if (!weft__expect_indices(node, 1, why)) {
        return false;
    }
    return true;
}

/* ---- take_along_axis: x, indices ------------------------------------------------------------ */

static weft_status take_along_axis_reference(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->out[0]), from;
    for (int64_t i = 0; i < size; i++) {
        weft_status status = weft__named_element(call, i, &from);
        if (status != WEFT_OK) {
            return status;
        }
        move_element(&call->in[0], from, &call->out[0], i);
    }
    return WEFT_OK;
}

static void take_along_axis_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                                weft_array **grads)
{
    const weft_axis_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_array *x = weft_node_input(node, 0);
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(x), weft_dtype_of(cts[0]));
        grads[0] =
            weft_scatter_add_along_axis(zeros, weft_node_input(node, 1), cts[0], (int)p->axis);
    }
}

static bool take_along_axis_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 1);
    return fits_along(node, why) && set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case take_along_axis_cases[] = {
    {.name = "last",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 5)}, {.shape = DIMS(3, 4), .index_below = 5}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "first",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 2, 2)}, {.shape = DIMS(5, 2, 2), .index_below = 3}},
     .params = &(const weft_axis_params){-3, false}},
    {.name = "nothing",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(3, 0), .index_below = 2}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_take_along_axis = {
    .name = "take_along_axis",
    .family = WEFT_STRUCTURAL,
    .arity = 2,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = take_along_axis_infer,
    .vjp = take_along_axis_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .zero_gradient = 1u << 1,
    .reference = take_along_axis_reference,
    .cases = take_along_axis_cases,
    .n_cases = sizeof take_along_axis_cases / sizeof *take_along_axis_cases,
};

weft_array *weft_take_along_axis(weft_array *x, weft_array *indices, int axis)
{
    weft_axis_params params = {0};
    weft_array *failed;
    if (!weft__axis_from_end("take_along_axis", x, axis, &params.axis, &failed)) {
        return failed;
    }
    return apply2(&weft_op_take_along_axis, x, indices, &params);
}

/* ---- scatter_add_along_axis: x, indices, values --------------------------------------------- */

static weft_status scatter_add_along_axis_reference(const weft_call *call)
{
    return weft__scatter_add(call, weft__named_element);
}

static void scatter_add_along_axis_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                                       weft_array **grads)
{
    const weft_axis_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = cts[0];
    }
    if (wanted[2]) {
        grads[2] = weft_take_along_axis(cts[0], weft_node_input(node, 1), (int)p->axis);
    }
}

bool weft__scatter_along_shapes(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims x = input_shape(node, 0), indices = input_shape(node, 1);
    weft_dims values = input_shape(node, 2);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!fits_along(node, why)) {
        return false;
    }
    if (!weft__shape_equal(&values, &indices)) {
        return weft_because(why, "values: expected %s, got %s", weft__shape_text(&indices, a),
                            weft__shape_text(&values, b));
    }
    return set_spec(out, input_dtype(node, 0), &x);
}

static bool scatter_add_along_axis_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    return weft__scatter_along_shapes(node, out, why) && weft__scatter_dtypes(node, why);
}

const weft_case weft__scatter_along_cases[WEFT__SCATTER_ALONG_CASES] = {
    {.name = "last",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 5)}, {.shape = DIMS(3, 8), .index_below = 5}, {.shape = DIMS(3, 8)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "first",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 2, 2)},
            {.shape = DIMS(5, 2, 2), .index_below = 3},
            {.shape = DIMS(5, 2, 2)}},
     .params = &(const weft_axis_params){-3, false}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(3, 0), .index_below = 2}, {.shape = DIMS(3, 0)}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_scatter_add_along_axis = {
    .name = "scatter_add_along_axis",
    .family = WEFT_STRUCTURAL,
    .arity = 3,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = scatter_add_along_axis_infer,
    .vjp = scatter_add_along_axis_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .zero_gradient = 1u << 1,
    .reference = scatter_add_along_axis_reference,
    .cases = weft__scatter_along_cases,
    .n_cases = WEFT__SCATTER_ALONG_CASES,
    .no_test_dtypes = DTYPE_BIT(WEFT_BOOL),
};

weft_array *weft_scatter_add_along_axis(weft_array *x, weft_array *indices, weft_array *values,
                                        int axis)
{
    weft_axis_params params = {0};
    weft_array *failed;
    if (!weft__axis_from_end("scatter_add_along_axis", x, axis, &params.axis, &failed)) {
        return failed;
    }
    if (!weft_ok(values)) {
        return values;
    }
    return apply3(&weft_op_scatter_add_along_axis, x, indices,
                  weft_astype(values, weft_dtype_of(x)), &params);
}
