/* ops/structure/window.c -- windows whose start is an array: dynamic_slice reads one, slice_update
 * replaces one. A start is clipped so that the window fits. */
#include "ops/batch.h"
#include "ops/structure/index.h"

/* The clipped start on every axis of `shape`; axes that are not listed start at 0. */
static void window_start(const weft_slice_params *p, const weft_dims *shape,
                         const weft_tensor *start, int64_t *first)
{
    memset(first, 0, (size_t)shape->n * sizeof *first);
    for (int i = 0; i < p->axes.n; i++) {
        int axis = (int)p->axes.at[i] + shape->n;
        int64_t room = shape->at[axis] - p->sizes.at[i], wish = weft_tensor_get_int(start, i);
        first[axis] = wish < 0 ? 0 : wish > room ? room : wish;
    }
}

/* The index in the whole array of element i of the window. */
static int64_t window_index(const weft_dims *whole, const weft_dims *window, const int64_t *first,
                            int64_t i)
{
    int64_t at[WEFT_MAX_DIMS];
    index_split(window, i, at);
    for (int d = 0; d < whole->n; d++) {
        at[d] += first[d];
    }
    return index_join(whole, at);
}

/* Windows for a batch of starts (B, axes) as points: indices (B, sizes in the order of the axes),
 * the example's number first. `x` has the batch axis in front. *order maps the axes of the points'
 * result (B, sizes, x's other axes) to (B, x's axes). */
static weft__points windows_of(const weft_slice_params *p, weft_array *x, weft_array *start,
                               int64_t size, weft_dims *order)
{
    int n = p->axes.n, rank = weft_ndim(x), place[WEFT_MAX_DIMS], rest = n + 1;
    weft__points points = {.k = n + 1};
    weft_dims shape = {.n = n + 1, .at = {size}};
    for (int i = 0; i < n; i++) {
        shape.at[i + 1] = p->sizes.at[i];
    }
    points.indices[0] = weft_broadcast_to(weft__ramp(x, size, 0, n + 1), shape);
    *order = (weft_dims){.n = rank};
    for (int axis = 1, k = 1; axis < rank; axis++) {
        place[axis] = -1;
        for (int i = 0; i < n; i++) {
            place[axis] = p->axes.at[i] + rank == axis ? i : place[axis];
        }
        int i = place[axis];
        order->at[axis] = i < 0 ? rest++ : i + 1;
        if (i < 0) {
            continue;
        }
        int64_t room = weft_dim(x, axis) - p->sizes.at[i];
        weft_array *first = weft_slice_axis(start, 1, i, i + 1);
        first = weft__bounded(first, room + 1, WEFT_BOUNDS_CLIP);
        weft_dims column = {.n = n + 1, .at = {size}};
        for (int d = 1; d <= n; d++) {
            column.at[d] = 1;
        }
        weft_array *at = weft_add(weft_astype(weft_reshape(first, column), WEFT_INT64),
                                  weft__ramp(x, p->sizes.at[i], i + 1, n + 1));
        points.axes[k] = axis;
        points.indices[k++] = weft_broadcast_to(at, shape);
    }
    return points;
}

/* Checks start and the windows' sizes; *shape becomes the window's shape. */
static bool window_infer(const weft_array *node, int start_input, weft_dims *shape, weft_why *why)
{
    const weft_slice_params *p = weft_node_params(node);
    weft_dims axes, start = input_shape(node, start_input);
    if (!weft__check_axes(&p->axes, shape->n, &axes, why)) {
        return false;
    }
    if (!weft_dtype_is_integer(input_dtype(node, start_input)) || start.n != 1 ||
        start.at[0] != axes.n || p->sizes.n != axes.n) {
        return weft_because(why, "start: expected %d integers, one an axis", axes.n);
    }
    for (int i = 0; i < axes.n; i++) {
        int64_t *length = &shape->at[axes.at[i] + shape->n];
        if (p->sizes.at[i] < 0 || p->sizes.at[i] > *length) {
            return weft_because(why, "a window of %lld on an axis of size %lld",
                                (long long)p->sizes.at[i], (long long)*length);
        }
        *length = p->sizes.at[i];
    }
    return true;
}

static const weft_field window_fields[] = {
    WEFT_FIELD(DIMS, weft_slice_params, axes),
    WEFT_FIELD(DIMS, weft_slice_params, sizes),
    WEFT_FIELDS_END,
};

/* ---- dynamic_slice: x, start -> the window -------------------------------------------------- */

static weft_status dynamic_slice_reference(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS], size = weft_tensor_size(out);
    window_start(call->params, &x->shape, &call->in[1], first);
    for (int64_t i = 0; i < size; i++) {
        move_element(x, window_index(&x->shape, &out->shape, first, i), out, i);
    }
    return WEFT_OK;
}

static void dynamic_slice_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                              weft_array **grads)
{
    const weft_slice_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_array *x = weft_node_input(node, 0);
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(x), weft_dtype_of(cts[0]));
        grads[0] = weft_slice_update(zeros, cts[0], weft_node_input(node, 1), p->axes);
    }
}

static bool dynamic_slice_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                               int64_t size, weft_array **out)
{
    const weft_slice_params *p = weft_node_params(node);
    weft_array *x = batch_of(in[0], batched[0], size);
    weft_dims order;
    if (!batched[1] || p->axes.n == 0) {
        out[0] = batched[1] ? x : weft_dynamic_slice(x, in[1], p->axes, p->sizes);
        return true;
    }
    weft__points points = windows_of(p, x, in[1], size, &order);
    out[0] = weft_transpose(weft__take_points(x, &points), order);
    return true;
}

static bool dynamic_slice_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    return window_infer(node, 1, &shape, why) && set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case dynamic_slice_cases[] = {
    {.name = "rows",
     .n_inputs = 2,
     .in = {{.shape = DIMS(5, 3)}, {.shape = DIMS(1), .index_below = 6}},
     .params = &(const weft_slice_params){.axes = DIMS(-2), .sizes = DIMS(2)}},
    {.name = "block",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 4, 5)}, {.shape = DIMS(2), .index_below = 3}},
     .params = &(const weft_slice_params){.axes = DIMS(-1, -2), .sizes = DIMS(2, 3)}},
    {.name = "nothing",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(1), .index_below = 3}},
     .params = &(const weft_slice_params){.axes = DIMS(-1), .sizes = DIMS(0)}},
};

const weft_op weft_op_dynamic_slice = {
    .name = "dynamic_slice",
    .family = WEFT_STRUCTURAL,
    .arity = 2,
    .params_size = sizeof(weft_slice_params),
    .params_fields = window_fields,
    .infer = dynamic_slice_infer,
    .vjp = dynamic_slice_vjp,
    .linear = true,
    .vmap = dynamic_slice_vmap,
    .zero_gradient = 1u << 1,
    .reference = dynamic_slice_reference,
    .cases = dynamic_slice_cases,
    .n_cases = sizeof dynamic_slice_cases / sizeof *dynamic_slice_cases,
};

/* A 0-d start is for one axis. */
static weft_array *start_list(weft_array *start, const weft_dims *axes)
{
    return weft_ok(start) && weft_ndim(start) == 0 && axes->n == 1
               ? weft_reshape(start, WEFT_DIMS(1))
               : start;
}

weft_array *weft_dynamic_slice(weft_array *x, weft_array *start, weft_dims axes, weft_dims sizes)
{
    weft_slice_params params = {.sizes = sizes};
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_in_order(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_error_array("dynamic_slice: %s", why.text);
    }
    return apply2(&weft_op_dynamic_slice, x, start_list(start, &axes), &params);
}

/* ---- slice_update: x, update, start -> x with the window replaced --------------------------- */

/* `out` may share x's memory, or not. */
static weft_status slice_update_reference(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *update = &call->in[1], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS], size = weft_tensor_size(update);
    window_start(call->params, &x->shape, &call->in[2], first);
    if (x->data != out->data) {
        int64_t whole = weft_tensor_size(x);
        for (int64_t i = 0; i < whole; i++) {
            move_element(x, i, out, i);
        }
    }
    for (int64_t i = 0; i < size; i++) {
        move_element(update, i, out, window_index(&x->shape, &update->shape, first, i));
    }
    return WEFT_OK;
}

static void slice_update_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                             weft_array **grads)
{
    const weft_slice_params *p = weft_node_params(node);
    weft_array *update = weft_node_input(node, 1), *start = weft_node_input(node, 2);
    if (wanted[0]) {
        weft_array *zeros =
            weft__zeros_on_device_of(update, weft_shape(update), weft_dtype_of(cts[0]));
        grads[0] = weft_slice_update(cts[0], zeros, start, p->axes);
    }
    if (wanted[1]) {
        grads[1] = weft_dynamic_slice(cts[0], start, p->axes, p->sizes);
    }
}

static bool slice_update_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                              int64_t size, weft_array **out)
{
    const weft_slice_params *p = weft_node_params(node);
    weft_array *x = batch_of(in[0], batched[0], size);
    weft_array *update = batch_of(in[1], batched[1], size);
    weft_dims order, back = {0};
    if (!batched[2] || p->axes.n == 0) {
        out[0] = batched[2] ? update : weft_slice_update(x, update, in[2], p->axes);
        return true;
    }
    weft__points points = windows_of(p, x, in[2], size, &order);
    back.n = order.n;
    for (int i = 0; i < order.n; i++) {
        back.at[order.at[i]] = i;
    }
    out[0] = weft__scatter_points(x, &points, weft_transpose(update, back), WEFT_COMBINE_PUT);
    return true;
}

static bool slice_update_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0), window = shape, update = input_shape(node, 1);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!window_infer(node, 2, &window, why)) {
        return false;
    }
    if (!weft__shape_equal(&window, &update)) {
        return weft_because(why, "an update of %s for a window of %s", weft__shape_text(&update, a),
                            weft__shape_text(&window, b));
    }
    if (input_dtype(node, 0) != input_dtype(node, 1)) {
        return weft_because(why, "an update of %s for %s", weft_dtype_name(input_dtype(node, 1)),
                            weft_dtype_name(input_dtype(node, 0)));
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case slice_update_cases[] = {
    {.name = "rows",
     .n_inputs = 3,
     .in = {{.shape = DIMS(5, 3)}, {.shape = DIMS(2, 3)}, {.shape = DIMS(1), .index_below = 6}},
     .params = &(const weft_slice_params){.axes = DIMS(-2), .sizes = DIMS(2)}},
    {.name = "block",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 4, 5)},
            {.shape = DIMS(2, 3, 2)},
            {.shape = DIMS(2), .index_below = 3}},
     .params = &(const weft_slice_params){.axes = DIMS(-1, -2), .sizes = DIMS(2, 3)}},
    {.name = "nothing",
     .n_inputs = 3,
     .in = {{.shape = DIMS(3, 2)}, {.shape = DIMS(3, 0)}, {.shape = DIMS(1), .index_below = 3}},
     .params = &(const weft_slice_params){.axes = DIMS(-1), .sizes = DIMS(0)}},
};

const weft_op weft_op_slice_update = {
    .name = "slice_update",
    .family = WEFT_STRUCTURAL,
    .arity = 3,
    .params_size = sizeof(weft_slice_params),
    .params_fields = window_fields,
    .infer = slice_update_infer,
    .vjp = slice_update_vjp,
    .linear = true,
    .vmap = slice_update_vmap,
    .zero_gradient = 1u << 2,
    .reference = slice_update_reference,
    .cases = slice_update_cases,
    .n_cases = sizeof slice_update_cases / sizeof *slice_update_cases,
};

weft_array *weft_slice_update(weft_array *x, weft_array *update, weft_array *start, weft_dims axes)
{
    if (!weft_ok(x) || !weft_ok(update)) {
        return weft_ok(x) ? update : x;
    }
    weft_slice_params params = {0};
    weft_why why;
    if (!weft__axes_in_order(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_error_array("slice_update: %s", why.text);
    }
    params.sizes.n = axes.n;
    for (int i = 0; i < axes.n; i++) {
        params.sizes.at[i] = weft_dim(update, (int)params.axes.at[i]);
    }
    return apply3(&weft_op_slice_update, x, weft_astype(update, weft_dtype_of(x)),
                  start_list(start, &axes), &params);
}
