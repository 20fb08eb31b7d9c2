/* ops/reduce/scan.c -- axes, test cases and shifts of scans. */
#include "ops/reduce/scan.h"

const weft_field weft__scan_fields[] = {
    WEFT_FIELD(INT, weft_scan_params, axis),
    WEFT_FIELD(BOOL, weft_scan_params, reverse),
    WEFT_FIELD(BOOL, weft_scan_params, inclusive),
    WEFT_FIELDS_END,
};

const weft_case weft__scan_cases[SCAN_CASES] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 5)}},
     .params = &(const weft_scan_params){-1, false, true}},
    {.name = "reverse",
     .n_inputs = 1,
     .in = {{.shape = DIMS(4, 3)}},
     .params = &(const weft_scan_params){-2, true, true}},
    {.name = "long",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 70)}},
     .params = &(const weft_scan_params){-1, false, true}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_scan_params){-1, false, true}},
    {.name = "exclusive",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 4, 3)}},
     .params = &(const weft_scan_params){-2, false, false}},
    {.name = "both",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 4)}},
     .params = &(const weft_scan_params){-1, true, false}},
    {.name = "one",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 1)}},
     .params = &(const weft_scan_params){-1, false, false}},
};

bool weft__infer_running_sum(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    weft_dtype dtype = input_dtype(node, 0);
    return weft__check_axis(p->axis, shape.n, why) >= 0 &&
           set_spec(out, dtype == WEFT_BOOL ? WEFT_INT32 : dtype, &shape);
}

bool weft__infer_scan(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    return weft__check_axis(p->axis, shape.n, why) >= 0 &&
           set_spec(out, input_dtype(node, 0), &shape);
}

weft_array *weft__scan(const weft_op *op, weft_array *x, int axis, bool reverse, bool inclusive)
{
    weft_scan_params params = {.reverse = reverse, .inclusive = inclusive};
    weft_array *failed;
    x = weft__flattened(x, &axis);
    if (!weft__axis_from_end(op->name, x, axis, &params.axis, &failed)) {
        return failed;
    }
    return apply1(op, x, &params);
}

weft_array *weft__shift(weft_array *x, const weft_scan_params *p, bool on, double fill)
{
    int axis = (int)p->axis;
    int64_t length = weft_dim(x, axis);
    if (length == 0) {
        return x;
    }
    bool up = on != p->reverse; /* towards higher indices */
    weft_array *rest = weft_slice_axis(x, axis, up ? 0 : 1, up ? length - 1 : length);
    return weft_pad(rest, axis, up, !up, fill);
}

weft_array *weft__wide(weft_array *x)
{
    return weft_astype(x, weft_promote(weft_dtype_of(x), WEFT_FLOAT32));
}
