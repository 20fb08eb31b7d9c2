/* ops/structure/reshape.c -- reshape: the same row-major elements in another shape. */
#include "ops/batch.h"
#include "ops/kernel.h"

/* The kernel for inputs whose strides do not allow a view. */
static weft_status reshape_reference(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->in[0]);
    for (int64_t i = 0; i < size; i++) {
        move_element(&call->in[0], i, &call->out[0], i);
    }
    return WEFT_OK;
}

/* The strides of `shape` over the memory of `in`, if they exist. Both shapes are split into groups
 * of axes of equal size; within a group the input's axes must be contiguous with each other. */
static bool reshape_strides(const weft_tensor *in, const weft_dims *shape, int64_t *strides)
{
    int from = in->shape.n - 1, to = shape->n - 1;
    while (to >= 0 || from >= 0) {
        while (from >= 0 && in->shape.at[from] == 1) {
            from--;
        }
        int64_t stride = from >= 0 ? in->strides[from] : 1;
        int64_t have = from >= 0 ? in->shape.at[from] : 1, want = 1;
        for (; to >= 0 && (want < have || shape->at[to] == 1); to--) {
            strides[to] = stride * want;
            want *= shape->at[to];
            while (have < want) {
                int64_t span = stride * have;
                do {
                    from--;
                } while (from >= 0 && in->shape.at[from] == 1);
                if (from < 0 || in->strides[from] != span) {
                    return false;
                }
                have *= in->shape.at[from];
            }
        }
        if (want != have) {
            return false;
        }
        from--;
    }
    return true;
}

static bool reshape_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_shape_params *p = weft_node_params(node);
    int64_t strides[WEFT_MAX_DIMS];
    if (weft_tensor_size(in) == 0) {
        weft__strides_contiguous(&p->shape, strides);
    } else if (!reshape_strides(in, &p->shape, strides)) {
        return false;
    }
    out->shape = p->shape;
    memcpy(out->strides, strides, (size_t)p->shape.n * sizeof *strides);
    return true;
}

static void reshape_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                        weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = weft_reshape(cts[0], input_shape(node, 0));
    }
}

static bool reshape_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out)
{
    const weft_shape_params *p = weft_node_params(node);
    (void)batched;
    out[0] = weft_reshape(in[0], with_batch(p->shape, size));
    return true;
}

static bool reshape_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_shape_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    char from[WEFT_SHAPE_TEXT], to[WEFT_SHAPE_TEXT];
    for (int i = 0; i < p->shape.n; i++) {
        if (p->shape.at[i] < 0) {
            return weft_because(why, "a negative dimension in %s", weft__shape_text(&p->shape, to));
        }
    }
    if (weft__shape_size(&shape) != weft__shape_size(&p->shape)) {
        return weft_because(why, "%s has %lld elements, %s has %lld",
                            weft__shape_text(&shape, from), (long long)weft__shape_size(&shape),
                            weft__shape_text(&p->shape, to),
                            (long long)weft__shape_size(&p->shape));
    }
    return set_spec(out, input_dtype(node, 0), &p->shape);
}

static const weft_field reshape_fields[] = {WEFT_FIELD(DIMS, weft_shape_params, shape),
                                            WEFT_FIELDS_END};

static const weft_case reshape_cases[] = {
    {.name = "merge",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const weft_shape_params){DIMS(6, 4)}},
    {.name = "split",
     .n_inputs = 1,
     .in = {{.shape = DIMS(6, 4)}},
     .params = &(const weft_shape_params){DIMS(2, 3, 2, 2)}},
    {.name = "across",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 6)}},
     .params = &(const weft_shape_params){DIMS(3, 1, 8)}},
    {.name = "scalar",
     .n_inputs = 1,
     .in = {{.shape = DIMS(1, 1)}},
     .params = &(const weft_shape_params){{0}}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_shape_params){DIMS(0, 5)}},
};

const weft_op weft_op_reshape = {
    .name = "reshape",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_shape_params),
    .params_fields = reshape_fields,
    .infer = reshape_infer,
    .vjp = reshape_vjp,
    .linear = true,
    .vmap = reshape_vmap,
    .is_identity = always_identity,
    .view = reshape_view,
    .reference = reshape_reference,
    .cases = reshape_cases,
    .n_cases = sizeof reshape_cases / sizeof *reshape_cases,
};

/* Replaces a -1 in *shape so that it has `size` elements; infer reports shapes that do not fit. */
static weft_array *resolve(weft_dims *shape, int64_t size)
{
    int unknown = -1;
    int64_t known = 1;
    char text[WEFT_SHAPE_TEXT];
    for (int i = 0; i < shape->n; i++) {
        if (shape->at[i] == -1 && unknown >= 0) {
            return weft_error_array("reshape: more than one -1 in %s",
                                    weft__shape_text(shape, text));
        } else if (shape->at[i] == -1) {
            unknown = i;
        } else if (__builtin_mul_overflow(known, shape->at[i], &known)) {
            known = 0;
        }
    }
    if (unknown >= 0) {
        if (known <= 0 || size % known) {
            return weft_error_array("reshape: %lld elements do not fit %s", (long long)size,
                                    weft__shape_text(shape, text));
        }
        shape->at[unknown] = size / known;
    }
    return NULL;
}

weft_array *weft_reshape(weft_array *x, weft_dims shape)
{
    if (!weft_ok(x)) {
        return x;
    }
    weft_shape_params params = {shape};
    weft_array *failed;
    if (!weft__list_fits("reshape", &shape, &failed)) {
        return failed;
    }
    failed = resolve(&params.shape, weft_size(x));
    weft_dims old = weft_shape(x);
    if (failed || weft__shape_equal(&old, &params.shape)) {
        return failed ? failed : x;
    }
    return apply1(&weft_op_reshape, x, &params);
}

weft_array *weft_flatten(weft_array *x, int from_axis, int to_axis)
{
    if (!weft_ok(x)) {
        return x;
    }
    weft_dims old = weft_shape(x), shape = {0};
    if (old.n == 0) {
        return weft_reshape(x, WEFT_DIMS(1));
    }
    int from = weft__axis_front(from_axis, old.n), to = weft__axis_front(to_axis, old.n);
    if (from < 0 || to < from) {
        return weft_error_array("flatten: axes %d to %d of rank %d", from_axis, to_axis, old.n);
    }
    for (int i = 0; i < old.n; i++) {
        if (i > from && i <= to) {
            shape.at[shape.n - 1] *= old.at[i];
        } else {
            shape.at[shape.n++] = old.at[i];
        }
    }
    return weft_reshape(x, shape);
}

weft_array *weft_expand_dims(weft_array *x, int axis)
{
    if (!weft_ok(x)) {
        return x;
    }
    weft_dims shape = weft_shape(x);
    int front = axis < 0 ? axis + shape.n + 1 : axis;
    if (front < 0 || front > shape.n || shape.n == WEFT_MAX_DIMS) {
        return weft_error_array("expand_dims: axis %d for rank %d", axis, shape.n);
    }
    memmove(shape.at + front + 1, shape.at + front, (size_t)(shape.n - front) * sizeof *shape.at);
    shape.at[front] = 1;
    shape.n++;
    return weft_reshape(x, shape);
}

weft_array *weft_squeeze(weft_array *x, int axis)
{
    if (!weft_ok(x)) {
        return x;
    }
    weft_dims shape = weft_shape(x);
    char text[WEFT_SHAPE_TEXT];
    int front = weft__axis_front(axis, shape.n);
    if (front < 0 || shape.at[front] != 1) {
        return weft_error_array("squeeze: axis %d of %s: expected a dimension of 1", axis,
                                weft__shape_text(&shape, text));
    }
    shape.n--;
    memmove(shape.at + front, shape.at + front + 1, (size_t)(shape.n - front) * sizeof *shape.at);
    return weft_reshape(x, shape);
}
