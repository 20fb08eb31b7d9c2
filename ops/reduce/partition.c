/* ops/reduce/partition.c -- partition: the kth element of the sorted row goes to index k. Elements
 * that sort before it stand before it, the others after it, both in their original order, so the
 * result is the same on every backend. Also topk. */
#include "ops/reduce/reduce.h"

/* The indices as sorted; then those on either side of the kth are restored to their original order.
 */
static void argpartition_expand(weft_array *node, weft_array **outs)
{
    const weft_partition_params *p = weft_node_params(node);
    int axis = (int)p->axis;
    weft_array *order = weft_argsort(weft_node_input(node, 0), axis);
    weft_array *parts[] = {
        weft_sort(weft_slice_axis(order, axis, 0, p->kth), axis),
        weft_slice_axis(order, axis, p->kth, p->kth + 1),
        weft_sort(weft_slice_axis(order, axis, p->kth + 1, weft_dim(order, axis)), axis),
    };
    outs[0] = weft_concatenate(parts, 3, axis);
}

static bool argpartition_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_partition_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    int front = weft__check_axis(p->axis, shape.n, why);
    if (front < 0) {
        return false;
    }
    if (p->kth < 0 || p->kth >= shape.at[front] || shape.at[front] > UINT32_MAX) {
        return weft_because(why, "kth is %lld for an axis of size %lld", (long long)p->kth,
                            (long long)shape.at[front]);
    }
    return set_spec(out, WEFT_UINT32, &shape);
}

static const weft_field partition_fields[] = {
    WEFT_FIELD(INT, weft_partition_params, axis),
    WEFT_FIELD(INT, weft_partition_params, kth),
    WEFT_FIELDS_END,
};

static const weft_case cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 7)}},
     .params = &(const weft_partition_params){-1, 2}},
    {.name = "middle",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 5, 3)}},
     .params = &(const weft_partition_params){-2, 4}},
    {.name = "long",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 150)}},
     .params = &(const weft_partition_params){-1, 70}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 3)}},
     .params = &(const weft_partition_params){-1, 0}},
};

const weft_op weft_op_argpartition = {
    .name = "argpartition",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(weft_partition_params),
    .params_fields = partition_fields,
    .infer = argpartition_infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .expand = argpartition_expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

weft_array *weft_argpartition(weft_array *x, int64_t kth, int axis)
{
    weft_partition_params params = {.axis = -1, .kth = kth};
    int64_t from_end;
    weft_array *failed;
    x = weft__flattened(x, &axis);
    if (!weft__axis_from_end("argpartition", x, axis, &from_end, &failed)) {
        return failed;
    }
    params.kth += kth < 0 ? weft_dim(x, (int)from_end) : 0;
    weft_array *last = weft_swapaxes(x, (int)from_end, -1); /* the axis that kernels support */
    return weft_swapaxes(apply1(&weft_op_argpartition, last, &params), (int)from_end, -1);
}

weft_array *weft_partition(weft_array *x, int64_t kth, int axis)
{
    weft_scope_open();
    x = weft__flattened(x, &axis);
    return weft_scope_close(weft_take_along_axis(x, weft_argpartition(x, kth, axis), axis));
}

/* ---- the k largest -------------------------------------------------------------------------- */

/* The last k elements along the axis, in reverse order. */
static weft_array *last_of(const char *name, weft_array *sorted, int64_t k, int axis)
{
    int64_t length = weft_dim(sorted, axis);
    if (weft_ok(sorted) && (k < 0 || k > length)) {
        return weft_error_array("%s: k is %lld for an axis of size %lld", name, (long long)k,
                                (long long)length);
    }
    return weft_slice(sorted, WEFT_DIMS(axis), WEFT_DIMS(-1),
                      WEFT_DIMS(-1 - k - (k == length ? length : 0)), WEFT_DIMS(-1));
}

static void topk_expand(weft_array *node, weft_array **outs)
{
    const weft_topk_params *p = weft_node_params(node);
    const int axis = (int)p->axis;
    outs[0] = last_of("topk", weft_sort(weft_node_input(node, 0), axis), p->k, axis);
}

static bool topk_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_topk_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    const int front = weft__check_axis(p->axis, shape.n, why);
    if (front < 0) {
        return false;
    }
    if (p->k < 0 || p->k > shape.at[front] || shape.at[front] > UINT32_MAX) {
        return weft_because(why, "k is %lld for an axis of size %lld", (long long)p->k,
                            (long long)shape.at[front]);
    }
    shape.at[front] = p->k;
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_field topk_fields[] = {
    WEFT_FIELD(INT, weft_topk_params, axis),
    WEFT_FIELD(INT, weft_topk_params, k),
    WEFT_FIELDS_END,
};

static const weft_case topk_cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 7)}},
     .params = &(const weft_topk_params){-1, 3}},
    {.name = "first",
     .n_inputs = 1,
     .in = {{.shape = DIMS(5, 2, 2)}},
     .params = &(const weft_topk_params){-3, 2}},
    {.name = "few of many",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 150)}},
     .params = &(const weft_topk_params){-1, 5}},
    {.name = "all",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 9)}},
     .params = &(const weft_topk_params){-1, 9}},
    {.name = "none",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_topk_params){-1, 0}},
};

const weft_op weft_op_topk = {
    .name = "topk",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(weft_topk_params),
    .params_fields = topk_fields,
    .infer = topk_infer,
    .takes_leading_axis = true,
    .expand = topk_expand,
    .cases = topk_cases,
    .n_cases = sizeof topk_cases / sizeof *topk_cases,
};

weft_array *weft_topk(weft_array *x, int64_t k, int axis)
{
    weft_topk_params params = {.k = k};
    weft_array *failed;
    weft_scope_open();
    x = weft__flattened(x, &axis);
    if (!weft__axis_from_end("topk", x, axis, &params.axis, &failed)) {
        return weft_scope_close(failed);
    }
    return weft_scope_close(apply1(&weft_op_topk, x, &params));
}

weft_array *weft_argtopk(weft_array *x, int64_t k, int axis)
{
    weft_scope_open();
    x = weft__flattened(x, &axis);
    return weft_scope_close(last_of("argtopk", weft_argsort(x, axis), k, axis));
}
