/* ops/structure/pad.c -- pads axes with a constant, or with elements of the array. */
#include "ops/kernel.h"

extern const weft_op weft_op_pad;

static weft_status pad_reference(const weft_call *call)
{
    const weft_pad_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t size = weft_tensor_size(out), at[WEFT_MAX_DIMS];
    for (int64_t o = 0; o < size; o++) {
        bool inside = true;
        index_split(&out->shape, o, at);
        for (int i = 0; i < p->axes.n; i++) {
            int64_t d = p->axes.at[i] + out->shape.n;
            at[d] -= p->before.at[i];
            inside = inside && at[d] >= 0 && at[d] < in->shape.at[d];
        }
        if (inside) {
            move_element(in, index_join(&in->shape, at), out, o);
        } else {
            weft_tensor_set(out, o, p->value);
        }
    }
    return WEFT_OK;
}

static void pad_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    const weft_pad_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_dims stops = p->before;
        for (int i = 0; i < p->axes.n; i++) {
            stops.at[i] += weft_dim(weft_node_input(node, 0), (int)p->axes.at[i]);
        }
        grads[0] = weft_slice(cts[0], p->axes, p->before, stops, (weft_dims){0});
    }
}

/* The constant does not depend on x. */
static void pad_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    weft_pad_params p = *(const weft_pad_params *)weft_node_params(node);
    p.value = 0;
    out[0] = apply1(&weft_op_pad, tangents[0], &p);
}

static bool pad_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_pad_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0), axes;
    if (p->before.n != p->axes.n || p->after.n != p->axes.n) {
        return weft_because(why, "%d axes with %d sizes before and %d after", p->axes.n,
                            p->before.n, p->after.n);
    }
    if (!weft__check_axes(&p->axes, shape.n, &axes, why)) {
        return false;
    }
    for (int i = 0; i < axes.n; i++) {
        int64_t *length = &shape.at[axes.at[i] + shape.n];
        int64_t before = p->before.at[i], after = p->after.at[i];
        if (before < 0 || after < 0 || __builtin_add_overflow(*length, before, length) ||
            __builtin_add_overflow(*length, after, length)) {
            return weft_because(why, "by %lld and %lld: expected sizes of 0 or more",
                                (long long)before, (long long)after);
        }
    }
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_field pad_fields[] = {
    WEFT_FIELD(DIMS, weft_pad_params, axes),
    WEFT_FIELD(DIMS, weft_pad_params, before),
    WEFT_FIELD(DIMS, weft_pad_params, after),
    WEFT_FIELD(DOUBLE, weft_pad_params, value),
    WEFT_FIELDS_END,
};

static const weft_case pad_cases[] = {
    {.name = "rows",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_pad_params){DIMS(-2), DIMS(1), DIMS(2), 0}},
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const weft_pad_params){DIMS(-1), DIMS(0), DIMS(2), 1}},
    {.name = "both",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 2)}},
     .params = &(const weft_pad_params){DIMS(-1, -3), DIMS(2, 1), DIMS(1, 3), -1}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 0)}},
     .params = &(const weft_pad_params){DIMS(-1), DIMS(2), DIMS(1), 1}},
};

/* If the shape stays the same, nothing is padded. */
static bool pad_is_identity(const void *params, int n_inputs)
{
    const weft_pad_params *p = params;
    (void)n_inputs;
    for (int i = 0; i < p->before.n; i++) {
        if (p->before.at[i] != 0) {
            return false;
        }
    }
    return true;
}

const weft_op weft_op_pad = {
    .name = "pad",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_pad_params),
    .params_fields = pad_fields,
    .infer = pad_infer,
    .vjp = pad_vjp,
    .jvp = pad_jvp,
    .takes_leading_axis = true,
    .is_identity = pad_is_identity,
    .reference = pad_reference,
    .cases = pad_cases,
    .n_cases = sizeof pad_cases / sizeof *pad_cases,
};

/* For each position of an axis of `length` >= 1 that is padded by `before` and `after`: the index
 * of the element that it repeats. */
static weft_array *sources(weft_pad_mode mode, int64_t length, int64_t before, int64_t after)
{
    weft_array *at = weft_arange_int(-before, length + after, 1, WEFT_INT64);
    weft_array *last = weft_scalar_int(length - 1, WEFT_INT64);
    if (mode == WEFT_PAD_EDGE || length == 1) {
        return weft_clip(at, weft_scalar_int(0, WEFT_INT64), last);
    }
    if (mode == WEFT_PAD_WRAP) {
        return weft_remainder(at, weft_scalar_int(length, WEFT_INT64));
    }
    /* forwards and back: the second half of the period mirrors the first */
    int64_t period = mode == WEFT_PAD_REFLECT ? 2 * (length - 1) : 2 * length;
    int64_t mirror = mode == WEFT_PAD_REFLECT ? period : period - 1;
    at = weft_remainder(at, weft_scalar_int(period, WEFT_INT64));
    return weft_minimum(at, weft_subtract(weft_scalar_int(mirror, WEFT_INT64), at));
}

/* Pads the axis with elements of x. */
static weft_array *pad_from_inside(weft_array *x, int axis, int64_t before, int64_t after,
                                   weft_pad_mode mode)
{
    int64_t length = weft_dim(x, axis), total;
    if (before == 0 && after == 0) {
        return x;
    }
    if (length == 0) {
        return weft_error_array("pad: axis %d is empty: it has no elements to be padded with",
                                axis);
    }
    if (before < 0 || after < 0 || __builtin_add_overflow(length, before, &total) ||
        __builtin_add_overflow(total, after, &total)) {
        return weft_error_array("pad: by %lld and %lld: expected sizes of 0 or more, and a length "
                                "below 2^63",
                                (long long)before, (long long)after);
    }
    if (weft_size(x) == 0) { /* another axis is empty: avoids building the indices */
        weft_pad_params params = {
            .axes = WEFT_DIMS(axis), .before = WEFT_DIMS(before), .after = WEFT_DIMS(after)};
        return apply1(&weft_op_pad, x, &params);
    }
    weft_scope_open();
    weft_array *places = weft_to(sources(mode, length, before, after), weft_device_of(x));
    return weft_scope_close(weft_take(x, places, axis));
}

weft_array *weft_pad_axes(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                          weft_pad_mode mode, double value)
{
    weft_scope_open();
    weft_pad_params params = {.before = before, .after = after, .value = value};
    weft_why why;
    bool moves = axes.n != before.n || axes.n != after.n;
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__axes_in_order(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_scope_close(weft_error_array("pad: %s", why.text));
    }
    for (int i = 0; i < axes.n && !moves; i++) {
        moves = before.at[i] != 0 || after.at[i] != 0;
    }
    if (!moves) {
        return weft_scope_close(x);
    }
    if (mode == WEFT_PAD_CONSTANT || axes.n != before.n || axes.n != after.n) {
        return weft_scope_close(apply1(&weft_op_pad, x, &params));
    }
    for (int i = 0; i < axes.n && weft_ok(x); i++) {
        x = pad_from_inside(x, (int)params.axes.at[i], before.at[i], after.at[i], mode);
    }
    return weft_scope_close(x);
}

weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value)
{
    return weft_pad_axes(x, WEFT_DIMS(axis), WEFT_DIMS(before), WEFT_DIMS(after), WEFT_PAD_CONSTANT,
                         value);
}
