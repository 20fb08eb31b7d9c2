/* ops/reduce/reduce.c -- axes, shapes and element order of reductions. */
#include "ops/reduce/reduce.h"

const weft_field weft__reduce_fields[] = {
    WEFT_FIELD(DIMS, weft_reduce_params, axes),
    WEFT_FIELD(BOOL, weft_reduce_params, keepdims),
    WEFT_FIELDS_END,
};

const weft_case weft__reduce_cases[REDUCE_CASES] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_reduce_params){DIMS(-1), false}},
    {.name = "first",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 2, 3)}},
     .params = &(const weft_reduce_params){DIMS(-3), true}},
    {.name = "middle",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const weft_reduce_params){DIMS(-2), false}},
    {.name = "around",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const weft_reduce_params){DIMS(-3, -1), true}},
    {.name = "all",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 7)}},
     .params = &(const weft_reduce_params){DIMS(-2, -1), false}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 3)}},
     .params = &(const weft_reduce_params){DIMS(-1), false}},
};

bool weft__reduced_shape(const weft_array *node, weft_dims *out, weft_why *why)
{
    const weft_reduce_params *p = weft_node_params(node);
    weft_dims in = input_shape(node, 0), axes;
    if (!weft__axes_from_end(&p->axes, in.n, &axes, why)) {
        return false;
    }
    for (int i = 0; i < axes.n; i++) {
        if (axes.at[i] != p->axes.at[i]) { /* kernels rely on the canonical form */
            char text[WEFT_SHAPE_TEXT];
            return weft_because(why, "axes %s: expected them from the end and in order",
                                weft__shape_text(&p->axes, text));
        }
    }
    *out = (weft_dims){0};
    for (int i = 0, next = 0; i < in.n; i++) {
        if (next < axes.n && axes.at[next] == i - in.n) {
            next++;
            if (p->keepdims) {
                out->at[out->n++] = 1;
            }
        } else {
            out->at[out->n++] = in.at[i];
        }
    }
    return true;
}

bool weft__infer_nonempty(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_reduce_params *p = weft_node_params(node);
    weft_dims shape, in = input_shape(node, 0);
    if (!weft__reduced_shape(node, &shape, why)) {
        return false;
    }
    for (int i = 0; i < p->axes.n; i++) {
        if (in.at[weft__axis_front(p->axes.at[i], in.n)] == 0) {
            return weft_because(why, "axis %lld is empty", (long long)p->axes.at[i]);
        }
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

weft_dtype weft__sum_dtype(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BOOL:
    case WEFT_INT8:
    case WEFT_INT16:
        return WEFT_INT32;
    case WEFT_UINT8:
    case WEFT_UINT16:
        return WEFT_UINT32;
    default:
        return dtype;
    }
}

weft_array *weft__reduce(const weft_op *op, weft_array *x, weft_dims axes, bool keepdims)
{
    weft_reduce_params params = {.keepdims = keepdims};
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_error_array("%s: %s", op->name, why.text);
    }
    return apply1(op, x, &params);
}

weft_array *weft__flattened(weft_array *x, int *axis)
{
    if (*axis != WEFT_FLATTENED || !weft_ok(x)) {
        return x;
    }
    *axis = -1;
    return weft_ndim(x) == 1 ? x : weft_reshape(x, WEFT_DIMS(weft_size(x)));
}

weft_array *weft__axes_together(weft_array *x, const weft_dims *axes, weft_dims *back,
                                weft_dims *shape)
{
    weft_dims in = weft_shape(x), order = {.n = in.n};
    int next = 0, last = in.n - axes->n, kept = last;
    for (int i = 0; i < in.n; i++) {
        bool reduced = false;
        for (int k = 0; k < axes->n; k++) {
            reduced = reduced || axes->at[k] + in.n == i;
        }
        order.at[reduced ? last++ : next++] = i;
    }
    *back = *shape = in;
    for (int i = 0; i < in.n; i++) {
        back->at[order.at[i]] = i;
        shape->at[i] = in.at[order.at[i]];
    }
    weft_dims flat = *shape;
    flat.n = kept + 1;
    flat.at[kept] = 1;
    for (int i = kept; i < in.n; i++) {
        flat.at[kept] *= shape->at[i];
    }
    return weft_reshape(weft_transpose(x, order), flat);
}

weft_array *weft__unreduce(weft_array *node, weft_array *reduced)
{
    const weft_reduce_params *p = weft_node_params(node);
    weft_dims in = input_shape(node, 0), kept = in;
    for (int i = 0; i < p->axes.n; i++) {
        kept.at[weft__axis_front(p->axes.at[i], in.n)] = 1;
    }
    return weft_broadcast_to(weft_reshape(reduced, kept), in);
}

reduction weft__reduction(const weft_call *call)
{
    const weft_reduce_params *p = call->params;
    reduction walk = {.in = call->in[0].shape, .count = 1};
    for (int i = 0; i < p->axes.n; i++) {
        int axis = weft__axis_front(p->axes.at[i], walk.in.n);
        walk.reduced[axis] = true;
        walk.count *= walk.in.at[axis];
    }
    return walk;
}

int64_t weft__reduced_element(const reduction *walk, int64_t o, int64_t r)
{
    int64_t index = 0, stride = 1;
    for (int i = walk->in.n - 1; i >= 0; i--) {
        int64_t *from = walk->reduced[i] ? &r : &o, dim = walk->in.at[i];
        index += *from % dim * stride;
        *from /= dim;
        stride *= dim;
    }
    return index;
}
