/* ops/structure/view.c -- view: reinterprets the bytes of an array as another dtype. */
#include "ops/kernel.h"

static weft_status view_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t size = (int64_t)weft_dtype_size(in->dtype), count = weft_tensor_size(in);
    for (int64_t i = 0; i < count; i++) {
        memcpy((char *)out->data + i * size,
               (const char *)in->data + weft_tensor_offset(in, i) * size, (size_t)size);
    }
    return WEFT_OK;
}

/* Strides count elements of the new size, so the other axes' strides must be multiples of it. */
static bool view_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    const weft_cast_params *p = weft_node_params(node);
    int64_t from = (int64_t)weft_dtype_size(in->dtype), to = (int64_t)weft_dtype_size(p->dtype);
    int last = in->shape.n - 1;
    if (in->offset % to) {
        return false;
    }
    if (from == to || weft_tensor_size(in) == 0) {
        return true;
    }
    if (in->strides[last] != 1 && in->shape.at[last] != 1) {
        return false;
    }
    for (int d = 0; d < last; d++) {
        if (in->strides[d] * from % to) {
            return false;
        }
        out->strides[d] = in->strides[d] * from / to;
    }
    out->strides[last] = 1;
    return true;
}

static bool view_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_cast_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    char text[WEFT_SHAPE_TEXT];
    int64_t from = (int64_t)weft_dtype_size(input_dtype(node, 0));
    int64_t to = (int64_t)weft_dtype_size(p->dtype);
    if (from != to) {
        int64_t *last = shape.n ? &shape.at[shape.n - 1] : NULL, bytes;
        if (!last || __builtin_mul_overflow(*last, from, &bytes) || bytes % to) {
            return weft_because(why, "%s %s as %s: the last axis has no whole number of elements",
                                weft_dtype_name(input_dtype(node, 0)),
                                weft__shape_text(&shape, text), weft_dtype_name(p->dtype));
        }
        *last = bytes / to;
    }
    return set_spec(out, p->dtype, &shape);
}

static const weft_field view_fields[] = {WEFT_FIELD(DTYPE, weft_cast_params, dtype),
                                         WEFT_FIELDS_END};

static const weft_case view_cases[] = {
    {.name = "bytes",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_cast_params){WEFT_UINT8}},
    {.name = "words",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 8)}},
     .params = &(const weft_cast_params){WEFT_UINT32}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 8)}},
     .params = &(const weft_cast_params){WEFT_INT16}},
};

/* A definition in float64 would have other bytes, so the op table tests only dtypes that are
 * computed directly. */
const weft_op weft_op_view = {
    .name = "view",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_cast_params),
    .params_fields = view_fields,
    .infer = view_infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .view = view_view,
    .reference = view_reference,
    .cases = view_cases,
    .n_cases = sizeof view_cases / sizeof *view_cases,
    .no_test_dtypes = DTYPE_BIT(WEFT_FLOAT16) | DTYPE_BIT(WEFT_BFLOAT16) | DTYPE_BIT(WEFT_FLOAT32),
};

weft_array *weft_view(weft_array *x, weft_dtype dtype)
{
    if (!weft_ok(x) || weft_dtype_of(x) == dtype) {
        return x;
    }
    bool truth = dtype == WEFT_BOOL;
    weft_cast_params params = {truth ? WEFT_UINT8 : dtype};
    weft_array *y = weft_dtype_of(x) == params.dtype ? x : apply1(&weft_op_view, x, &params);
    return truth ? weft_not_equal(y, weft_scalar_int(0, WEFT_UINT8)) : y;
}
