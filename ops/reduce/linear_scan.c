/* ops/reduce/linear_scan.c -- the linear recurrence h_k = a_k h_{k-1} + b_k along an axis, starting
 * from 0, accumulated in double. The derivatives of the other scans use it, which avoids divisions
 * and is correct at zeros. */
#include "ops/reduce/scan.h"

static void scan_complex(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        double re = 0, im = 0;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            double x, y;
            get_complex(&call->in[0], at, &x, &y);
            times_complex(&re, &im, x, y);
            get_complex(&call->in[1], at, &x, &y);
            re += x;
            im += y;
            set_complex(&call->out[0], at, re, im);
        }
    }
}

static weft_status linear_scan_reference(const weft_call *call)
{
    if (call->out[0].dtype == WEFT_COMPLEX64) {
        scan_complex(call);
        return WEFT_OK;
    }
    const weft_scan_params *p = call->params;
    axis_extents e = extents_of(&call->in[0].shape, p->axis);
    for (int64_t row = 0; row < e.outer * e.inner; row++) {
        int64_t base = row / e.inner * e.length * e.inner + row % e.inner;
        double h = 0;
        for (int64_t k = 0; k < e.length; k++) {
            int64_t at = base + (p->reverse ? e.length - 1 - k : k) * e.inner;
            h = weft_tensor_get(&call->in[0], at) * h + weft_tensor_get(&call->in[1], at);
            weft_tensor_set(&call->out[0], at, h);
        }
    }
    return WEFT_OK;
}

/* db_k = ct_k + a_{k+1} db_{k+1}, da_k = db_k h_{k-1}, with conjugates of a and h. */
static void linear_scan_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_array *a = weft_conjugate(weft_node_input(node, 0));
    weft_array *db =
        weft_linear_scan(weft__shift(a, p, false, 0), cts[0], (int)p->axis, !p->reverse);
    if (wanted[0]) {
        grads[0] = weft_multiply(db, weft__shift(weft_conjugate(node), p, true, 0));
    }
    if (wanted[1]) {
        /* A separate array, since evaluating the other gradient may consume db. */
        grads[1] = wanted[0] ? weft_scale(db, 1) : db;
    }
}

/* h'_k = a_k h'_{k-1} + a'_k h_{k-1} + b'_k */
static void linear_scan_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_array *t = tangents[1];
    if (tangents[0]) {
        weft_array *through_a = weft_multiply(tangents[0], weft__shift(node, p, true, 0));
        t = t ? weft_add(t, through_a) : through_a;
    }
    out[0] = t ? weft_linear_scan(weft_node_input(node, 0), t, (int)p->axis, p->reverse) : NULL;
}

static bool linear_scan_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_scan_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0), other = input_shape(node, 1);
    weft_dtype dtype = input_dtype(node, 0);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    bool inexact = weft_dtype_is_float(dtype) || dtype == WEFT_COMPLEX64;
    if (!inexact || input_dtype(node, 1) != dtype) {
        return weft_because(why, "expected two equal floating dtypes, got %s and %s",
                            weft_dtype_name(dtype), weft_dtype_name(input_dtype(node, 1)));
    }
    if (!weft__shape_equal(&shape, &other)) {
        return weft_because(why, "shapes differ: %s and %s", weft__shape_text(&shape, a),
                            weft__shape_text(&other, b));
    }
    return weft__check_axis(p->axis, shape.n, why) >= 0 && set_spec(out, dtype, &shape);
}

static const weft_case cases[] = {
    {.name = "last",
     .n_inputs = 2,
     .in = {{.shape = DIMS(3, 5)}, {.shape = DIMS(3, 5)}},
     .params = &(const weft_scan_params){-1, false, true}},
    {.name = "reverse",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 4, 3)}, {.shape = DIMS(2, 4, 3)}},
     .params = &(const weft_scan_params){-2, true, true}},
    {.name = "empty",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 0)}, {.shape = DIMS(2, 0)}},
     .params = &(const weft_scan_params){-1, false, true}},
};

const weft_op weft_op_linear_scan = {
    .name = "linear_scan",
    .family = WEFT_CORE_RANK,
    .arity = 2,
    .params_size = sizeof(weft_scan_params),
    .params_fields = weft__scan_fields,
    .infer = linear_scan_infer,
    .vjp = linear_scan_vjp,
    .jvp = linear_scan_jvp,
    .takes_leading_axis = true,
    .reference = linear_scan_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT & ~DTYPE_BIT(WEFT_COMPLEX64),
    .domain = {-1, 1},
};

weft_array *weft_linear_scan(weft_array *a, weft_array *b, int axis, bool reverse)
{
    weft_scan_params params = {.reverse = reverse, .inclusive = true};
    weft_array *failed;
    if (!weft__axis_from_end("linear_scan", a, axis, &params.axis, &failed)) {
        return failed;
    }
    return apply2(&weft_op_linear_scan, a, b, &params);
}
