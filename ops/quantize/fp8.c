/* ops/quantize/fp8.c -- 8-bit floats in uint8 arrays: conversion from and to E4M3, and from E5M2.
 */
#include "ops/quantize/quantized.h"

static weft_status to_reference(const weft_call *call)
{
    int64_t n = weft_tensor_size(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        weft_tensor_set_int(&call->out[0], i,
                            weft__float8_from((float)weft_tensor_get(&call->in[0], i)));
    }
    return WEFT_OK;
}

static bool to_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    if (!weft_dtype_is_float(input_dtype(node, 0))) {
        return weft_because(why, "expected a float, got %s", weft_dtype_name(input_dtype(node, 0)));
    }
    return set_spec(out, WEFT_UINT8, &shape);
}

static const weft_case to_cases[] = {
    {.name = "matrix", .n_inputs = 1, .in = {{.shape = DIMS(3, 5), .lo = -500, .hi = 500}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(0)}}},
};

const weft_op weft_op_to_fp8 = {
    .name = "to_fp8",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = to_infer,
    .zero_gradient = 1,
    .takes_leading_axis = true,
    .reference = to_reference,
    .cases = to_cases,
    .n_cases = sizeof to_cases / sizeof *to_cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
};

weft_array *weft_to_fp8(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(apply1(&weft_op_to_fp8, as_inexact(x), NULL));
}

/* ---- And back ------------------------------------------------------------------------------- */

static weft_status from_reference(const weft_call *call)
{
    int64_t n = weft_tensor_size(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        uint8_t code = (uint8_t)weft_tensor_get_int(&call->in[0], i);
        weft_tensor_set(&call->out[0], i, (double)weft__float8_to(code));
    }
    return WEFT_OK;
}

static bool from_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_cast_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (input_dtype(node, 0) != WEFT_UINT8 || !weft_dtype_is_float(p->dtype)) {
        return weft_because(why, "expected uint8 to a float, got %s to %s",
                            weft_dtype_name(input_dtype(node, 0)), weft_dtype_name(p->dtype));
    }
    return set_spec(out, p->dtype, &shape);
}

static const weft_field from_fields[] = {
    WEFT_FIELD(DTYPE, weft_cast_params, dtype),
    WEFT_FIELDS_END,
};

static const weft_case from_cases[] = {
    {.name = "vector",
     .n_inputs = 1,
     .in = {{.shape = DIMS(100), .hi = 126}},
     .params = &(const weft_cast_params){WEFT_FLOAT32}},
};

const weft_op weft_op_from_fp8 = {
    .name = "from_fp8",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_cast_params),
    .params_fields = from_fields,
    .infer = from_infer,
    .zero_gradient = 1,
    .takes_leading_axis = true,
    .reference = from_reference,
    .cases = from_cases,
    .n_cases = sizeof from_cases / sizeof *from_cases,
    .no_test_dtypes = ~DTYPE_BIT(WEFT_UINT8),
};

weft_array *weft_from_fp8(weft_array *x, weft_dtype dtype)
{
    return apply1(&weft_op_from_fp8, x, &(weft_cast_params){dtype});
}

weft_array *weft_from_fp8_e5m2(weft_array *x, weft_dtype dtype)
{
    if (!weft_ok(x)) {
        return x;
    }
    if (weft_dtype_of(x) != WEFT_UINT8 || !weft_dtype_is_float(dtype)) {
        return weft_error_array("from_fp8_e5m2: expected uint8 to a float, got %s to %s",
                                weft_dtype_name(weft_dtype_of(x)), weft_dtype_name(dtype));
    }
    weft_scope_open();
    weft_array *half =
        weft_left_shift(weft_astype(x, WEFT_UINT16), weft_scalar_int(8, WEFT_UINT16));
    return weft_scope_close(weft_astype(weft_view(half, WEFT_FLOAT16), dtype));
}
