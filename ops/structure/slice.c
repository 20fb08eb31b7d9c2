/* ops/structure/slice.c -- x[start:stop:step] on some axes, and its gradient, which puts the slice
 * back into zeros. */
#include "ops/batch.h"
#include "ops/structure/index.h"

extern const weft_op weft_op_slice_grad;

/* Fills start and step for each of ndim axes. */
static void spread(const weft_slice_params *p, int ndim, int64_t *starts, int64_t *steps)
{
    for (int i = 0; i < ndim; i++) {
        starts[i] = 0;
        steps[i] = 1;
    }
    for (int i = 0; i < p->axes.n; i++) {
        starts[p->axes.at[i] + ndim] = p->starts.at[i];
        steps[p->axes.at[i] + ndim] = p->steps.at[i];
    }
}

/* Computes the shape of the slice; false when it is out of range. */
bool weft__sliced_shape(const weft_slice_params *p, weft_dims *shape, weft_why *why)
{
    weft_dims axes;
    if (!weft__check_axes(&p->axes, shape->n, &axes, why)) {
        return false;
    }
    for (int i = 0; i < axes.n; i++) {
        int64_t *length = &shape->at[axes.at[i] + shape->n];
        int64_t size = p->sizes.at[i], first = p->starts.at[i];
        int64_t last = first + (size - 1) * p->steps.at[i];
        if (size < 0 || p->steps.at[i] == 0 ||
            (size > 0 && (first < 0 || last < 0 || first >= *length || last >= *length))) {
            return weft_because(why,
                                "%lld elements from %lld in steps of %lld leave an axis of "
                                "size %lld",
                                (long long)size, (long long)first, (long long)p->steps.at[i],
                                (long long)*length);
        }
        *length = size;
    }
    return true;
}

/* Copies between the elements of `part` and their positions in `whole`. */
static void move_slice(const weft_slice_params *p, const weft_tensor *whole,
                       const weft_tensor *part, bool put)
{
    int64_t starts[WEFT_MAX_DIMS], steps[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
    int64_t size = weft_tensor_size(part);
    spread(p, whole->shape.n, starts, steps);
    for (int64_t i = 0; i < size; i++) {
        index_split(&part->shape, i, at);
        for (int d = 0; d < whole->shape.n; d++) {
            at[d] = starts[d] + at[d] * steps[d];
        }
        int64_t w = index_join(&whole->shape, at);
        if (put) {
            move_element(part, i, whole, w);
        } else {
            move_element(whole, w, part, i);
        }
    }
}

/* ---- slice ---------------------------------------------------------------------------------- */

static weft_status slice_reference(const weft_call *call)
{
    move_slice(call->params, &call->in[0], &call->out[0], false);
    return WEFT_OK;
}

static bool slice_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_slice_params *p = weft_node_params(node);
    int64_t starts[WEFT_MAX_DIMS], steps[WEFT_MAX_DIMS], shift = 0;
    spread(p, in->shape.n, starts, steps);
    for (int d = 0; d < in->shape.n; d++) {
        shift += starts[d] * in->strides[d];
        out->strides[d] = steps[d] * in->strides[d];
    }
    for (int i = 0; i < p->axes.n; i++) {
        out->shape.at[p->axes.at[i] + in->shape.n] = p->sizes.at[i];
    }
    if (weft_tensor_size(out) > 0) {
        out->offset = in->offset + shift * (int64_t)weft_dtype_size(in->dtype);
    }
    return true;
}

static void slice_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    if (wanted[0]) {
        weft_slice_grad_params p = {*(const weft_slice_params *)weft_node_params(node),
                                    input_shape(node, 0)};
        grads[0] = apply1(&weft_op_slice_grad, cts[0], &p);
    }
}

static bool slice_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    return weft__sliced_shape(weft_node_params(node), &shape, why) &&
           set_spec(out, input_dtype(node, 0), &shape);
}

const weft_field weft__slice_fields[] = {
    WEFT_FIELD(DIMS, weft_slice_params, axes),
    WEFT_FIELD(DIMS, weft_slice_params, starts),
    WEFT_FIELD(DIMS, weft_slice_params, sizes),
    WEFT_FIELD(DIMS, weft_slice_params, steps),
    WEFT_FIELDS_END,
};

static const weft_case slice_cases[] = {
    {.name = "window",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 5)}},
     .params = &(const weft_slice_params){DIMS(-2, -1), DIMS(1, 2), DIMS(2, 3), DIMS(1, 1)}},
    {.name = "steps",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 7, 3)}},
     .params = &(const weft_slice_params){DIMS(-2), DIMS(1), DIMS(3), DIMS(2)}},
    {.name = "backwards",
     .n_inputs = 1,
     .in = {{.shape = DIMS(5, 4)}},
     .params = &(const weft_slice_params){DIMS(-1, -2), DIMS(3, 4), DIMS(4, 3), DIMS(-1, -2)}},
    {.name = "nothing",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 2)}},
     .params = &(const weft_slice_params){DIMS(-2), DIMS(3), DIMS(0), DIMS(1)}},
};

/* The slice is as long as the input and does not go backwards. */
static bool slice_is_identity(const void *params, int n_inputs)
{
    const weft_slice_params *p = params;
    (void)n_inputs;
    for (int i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i] != 1) {
            return false;
        }
    }
    return true;
}

const weft_op weft_op_slice = {
    .name = "slice",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_slice_params),
    .params_fields = weft__slice_fields,
    .infer = slice_infer,
    .vjp = slice_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .is_identity = slice_is_identity,
    .view = slice_view,
    .reference = slice_reference,
    .cases = slice_cases,
    .n_cases = sizeof slice_cases / sizeof *slice_cases,
};

/* Python's rules for start and stop on an axis of `length`; INT64_MIN and INT64_MAX mean the ends.
 */
void weft__slice_span(int64_t length, int64_t start, int64_t stop, int64_t step, int64_t *first,
                      int64_t *size)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    start += start < 0 ? length : 0;
    stop += stop < 0 ? length : 0;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    int64_t span = step > 0 ? stop - start : start - stop;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    *size = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
    *first = *size ? start : 0;
}

bool weft__slice_of(weft_array *x, const char *op, weft_dims axes, weft_dims starts,
                    weft_dims stops, weft_dims steps, weft_slice_params *out, weft_array **failed)
{
    *failed = x;
    if (!weft_ok(x)) {
        return false;
    }
    if (starts.n != axes.n || stops.n != axes.n || (steps.n != axes.n && steps.n != 0)) {
        *failed = weft_error_array("%s: %d axes with %d starts, %d stops and %d steps", op, axes.n,
                                   starts.n, stops.n, steps.n);
        return false;
    }
    weft_dims shape = weft_shape(x);
    *out = (weft_slice_params){.starts = starts, .sizes = starts, .steps = starts};
    weft_why why;
    if (!weft__axes_in_order(&axes, shape.n, &out->axes, &why)) {
        *failed = weft_error_array("%s: %s", op, why.text);
        return false;
    }
    for (int i = 0; i < axes.n; i++) {
        int64_t length = shape.at[out->axes.at[i] + shape.n], step = steps.n ? steps.at[i] : 1;
        if (step == 0) {
            *failed = weft_error_array("%s: a step of 0 on axis %lld", op, (long long)axes.at[i]);
            return false;
        }
        weft__slice_span(length, starts.at[i], stops.at[i], step, &out->starts.at[i],
                         &out->sizes.at[i]);
        out->steps.at[i] = out->sizes.at[i] > 1 ? step : 1; /* for a single element any step is
                                                             * equivalent */
    }
    return true;
}

weft_array *weft_slice(weft_array *x, weft_dims axes, weft_dims starts, weft_dims stops,
                       weft_dims steps)
{
    weft_slice_params p;
    weft_array *failed;
    if (!weft__slice_of(x, "slice", axes, starts, stops, steps, &p, &failed)) {
        return failed;
    }
    bool whole = true;
    for (int i = 0; i < p.axes.n; i++) {
        whole = whole && p.sizes.at[i] == weft_dim(x, (int)p.axes.at[i]) && p.steps.at[i] == 1;
    }
    return whole ? x : apply1(&weft_op_slice, x, &p);
}

weft_array *weft_slice_axis(weft_array *x, int axis, int64_t start, int64_t stop)
{
    return weft_slice(x, WEFT_DIMS(axis), WEFT_DIMS(start), WEFT_DIMS(stop), (weft_dims){0});
}

/* ---- slice_grad: zeros of `shape` with the input in place of the slice ----------------------- */

static weft_status slice_grad_reference(const weft_call *call)
{
    const weft_slice_grad_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    memset(out->data, 0, (size_t)weft_tensor_size(out) * weft_dtype_size(out->dtype));
    move_slice(&p->slice, out, &call->in[0], true);
    return WEFT_OK;
}

static void slice_grad_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    const weft_slice_grad_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = apply1(&weft_op_slice, cts[0], &p->slice);
    }
}

static bool slice_grad_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                            int64_t size, weft_array **out)
{
    weft_slice_grad_params p = *(const weft_slice_grad_params *)weft_node_params(node);
    (void)batched;
    p.shape = with_batch(p.shape, size);
    out[0] = apply1(&weft_op_slice_grad, in[0], &p);
    return true;
}

static bool slice_grad_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_slice_grad_params *p = weft_node_params(node);
    weft_dims shape = p->shape, given = input_shape(node, 0);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!weft__sliced_shape(&p->slice, &shape, why)) {
        return false;
    }
    if (!weft__shape_equal(&shape, &given)) {
        return weft_because(why, "expected %s, got %s", weft__shape_text(&shape, a),
                            weft__shape_text(&given, b));
    }
    return set_spec(out, input_dtype(node, 0), &p->shape);
}

static const weft_field slice_grad_fields[] = {
    WEFT_FIELD(DIMS, weft_slice_grad_params, slice.axes),
    WEFT_FIELD(DIMS, weft_slice_grad_params, slice.starts),
    WEFT_FIELD(DIMS, weft_slice_grad_params, slice.sizes),
    WEFT_FIELD(DIMS, weft_slice_grad_params, slice.steps),
    WEFT_FIELD(DIMS, weft_slice_grad_params, shape),
    WEFT_FIELDS_END,
};

static const weft_case slice_grad_cases[] = {
    {.name = "window",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_slice_grad_params){{DIMS(-2, -1), DIMS(1, 2), DIMS(2, 3), DIMS(1, 1)},
                                               DIMS(4, 5)}},
    {.name = "backwards",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_slice_grad_params){{DIMS(-1, -2), DIMS(3, 4), DIMS(4, 3), DIMS(-1, -2)},
                                               DIMS(5, 4)}},
    {.name = "nothing",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 2)}},
     .params = &(const weft_slice_grad_params){{DIMS(-2), DIMS(3), DIMS(0), DIMS(1)}, DIMS(3, 2)}},
};

const weft_op weft_op_slice_grad = {
    .name = "slice_grad",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_slice_grad_params),
    .params_fields = slice_grad_fields,
    .infer = slice_grad_infer,
    .vjp = slice_grad_vjp,
    .linear = true,
    .vmap = slice_grad_vmap,
    .reference = slice_grad_reference,
    .cases = slice_grad_cases,
    .n_cases = sizeof slice_grad_cases / sizeof *slice_grad_cases,
};
