/* ops/elementwise/cast.c -- conversion between dtypes, and row-major copies. */
#include "ops/elementwise/elementwise.h"

#include <math.h>

/* ---- cast ----------------------------------------------------------------------------------- */

static const weft_field cast_fields[] = {
    WEFT_FIELD(DTYPE, weft_cast_params, dtype),
    WEFT_FIELDS_END,
};

static bool cast_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_cast_params *params = weft_node_params(node);
    if ((int)params->dtype < 0 || params->dtype >= WEFT_DTYPE_COUNT) {
        return weft_because(why, "cast: %d is not a dtype", (int)params->dtype);
    }
    out[0] = (weft_spec){.dtype = params->dtype, .shape = input_shape(node, 0)};
    return true;
}

static void cast_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_dtype from = input_dtype(node, 0), to = weft_node_spec(node, 0)->dtype;
    bool continuous = to >= WEFT_FLOAT16 && from >= WEFT_FLOAT16;
    const weft_encoding *e = weft_encoding_of(weft_node_input(node, 0));
    if (wanted[0] && e) {
        grads[0] =
            weft_error_array("cast: the array is encoded as %s, which has no gradient", e->name);
    } else if (wanted[0] && continuous) {
        grads[0] = weft_astype(cts[0], from);
    }
}

static weft_complex64 get_complex(const weft_tensor *t, int64_t index)
{
    return ((const weft_complex64 *)t->data)[weft_tensor_offset(t, index)];
}

/* Stores a real number as dtype `to`: integers saturate and NaN becomes 0. */
static void set_real(const weft_tensor *to, int64_t index, double value)
{
    if (to->dtype == WEFT_BOOL) {
        weft_tensor_set_int(to, index, value != 0);
    } else if (!weft_dtype_is_integer(to->dtype)) {
        weft_tensor_set(to, index, value);
    } else {
        int bits = 8 * (int)weft_dtype_size(to->dtype);
        bool is_signed = weft_dtype_is_signed(to->dtype);
        double end = ldexp(1, is_signed ? bits - 1 : bits); /* the first value above the range */
        double low = is_signed ? -end : 0;
        uint64_t top = ~UINT64_C(0) >> (64 - bits + is_signed);
        int64_t whole;
        if (isnan(value)) {
            whole = 0;
        } else if (value >= end) {
            whole = (int64_t)top;
        } else if (value <= low) {
            whole = is_signed ? -(int64_t)top - 1 : 0;
        } else {
            whole = value >= 0x1p63 ? (int64_t)(uint64_t)value : (int64_t)value;
        }
        weft_tensor_set_int(to, index, whole);
    }
}

static void set_complex(const weft_tensor *to, int64_t index, float re)
{
    ((weft_complex64 *)to->data)[weft_tensor_offset(to, index)] = (weft_complex64){re, 0};
}

static void convert_element(const weft_tensor *from, const weft_tensor *to, int64_t i)
{
    bool whole = weft_dtype_class(from->dtype) == WEFT_CLASS_INTEGER;
    if (from->dtype == WEFT_COMPLEX64) {
        weft_complex64 z = get_complex(from, i);
        if (to->dtype == WEFT_COMPLEX64) {
            ((weft_complex64 *)to->data)[weft_tensor_offset(to, i)] = z;
        } else if (to->dtype == WEFT_BOOL) {
            weft_tensor_set_int(to, i, z.re != 0 || z.im != 0);
        } else {
            set_real(to, i, z.re);
        }
    } else if (to->dtype == WEFT_COMPLEX64) {
        set_complex(to, i, (float)weft_tensor_get(from, i));
    } else if (whole && weft_dtype_is_integer(to->dtype)) {
        weft_tensor_set_int(to, i, weft_tensor_get_int(from, i));
    } else {
        set_real(to, i, weft_tensor_get(from, i));
    }
}

/* Conversions between integers wrap. A complex number is true when either part is not 0. */
static weft_status cast_reference(const weft_call *call)
{
    int64_t n = weft_tensor_size(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        convert_element(&call->in[0], &call->out[0], i);
    }
    return WEFT_OK;
}

static const weft_cast_params to_float32 = {WEFT_FLOAT32}, to_int32 = {WEFT_INT32};
static const weft_case cast_cases[] = {
    {.name = "to float32", .n_inputs = 1, .in = {{.shape = {2, {3, 5}}}}, .params = &to_float32},
    {.name = "to int32", .n_inputs = 1, .in = {{.shape = {1, {7}}}}, .params = &to_int32},
};

const weft_op weft_op_cast = {
    .name = "cast",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_cast_params),
    .params_fields = cast_fields,
    .infer = cast_infer,
    .takes_encoded = 1,
    .vjp = cast_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .is_identity = always_identity,
    .reference = cast_reference,
    .cases = cast_cases,
    .n_cases = sizeof cast_cases / sizeof *cast_cases,
};

weft_array *weft_astype(weft_array *x, weft_dtype dtype)
{
    if (weft_ok(x) && weft_dtype_of(x) == dtype && !weft_encoding_of(x)) {
        return x;
    }
    return apply1(&weft_op_cast, x, &(weft_cast_params){dtype});
}

/* ---- copy ----------------------------------------------------------------------------------- */

static bool copy_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = (weft_spec){.dtype = input_dtype(node, 0), .shape = input_shape(node, 0)};
    return true;
}

static void copy_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = cts[0];
    }
}

static const weft_case copy_cases[] = {
    {.name = "matrix", .n_inputs = 1, .in = {{.shape = {2, {3, 5}}}}},
};

const weft_op weft_op_copy = {
    .name = "copy",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .infer = copy_infer,
    .vjp = copy_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = cast_reference,
    .cases = copy_cases,
    .n_cases = sizeof copy_cases / sizeof *copy_cases,
};

weft_array *weft_copy(weft_array *x)
{
    return apply1(&weft_op_copy, x, NULL);
}
