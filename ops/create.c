/* ops/create.c -- the creation ops full and arange. */
#include <math.h>

#include "ops/kernel.h"

static const weft_field fields[] = {
    WEFT_FIELD(DIMS, weft_full_params, shape),   WEFT_FIELD(DTYPE, weft_full_params, dtype),
    WEFT_FIELD(DOUBLE, weft_full_params, value), WEFT_FIELD(DOUBLE, weft_full_params, step),
    WEFT_FIELD(INT, weft_full_params, integer),  WEFT_FIELDS_END,
};

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_full_params *p = weft_node_params(node);
    char text[WEFT_SHAPE_TEXT];
    for (int i = 0; i < p->shape.n; i++) {
        if (p->shape.at[i] < 0) {
            return weft_because(why, "a negative dimension in %s",
                                weft__shape_text(&p->shape, text));
        }
    }
    return set_spec(out, p->dtype, &p->shape);
}

/* ---- full ----------------------------------------------------------------------------------- */

static weft_status full_reference(const weft_call *call)
{
    const weft_full_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int64_t size = weft_tensor_size(out);
    bool whole = weft_dtype_is_integer(p->dtype);
    for (int64_t i = 0; i < size; i++) {
        if (i) {
            move_element(out, 0, out, i);
        } else if (whole) {
            weft_tensor_set_int(out, 0, p->integer);
        } else {
            weft_tensor_set(out, 0, p->value);
        }
    }
    return WEFT_OK;
}

static const weft_case full_cases[] = {
    {.name = "2d", .params = &(const weft_full_params){DIMS(2, 3), WEFT_FLOAT32, 1.5, 0, 0}},
    {.name = "0d", .params = &(const weft_full_params){{0}, WEFT_BFLOAT16, -2, 0, 0}},
    {.name = "int64",
     .params = &(const weft_full_params){DIMS(4), WEFT_INT64, 0, 0, (INT64_C(1) << 53) + 1}},
    {.name = "empty", .params = &(const weft_full_params){DIMS(0, 3), WEFT_INT32, 0, 0, 7}},
};

const weft_op weft_op_full = {
    .name = "full",
    .family = WEFT_STRUCTURAL,
    .params_size = sizeof(weft_full_params),
    .params_fields = fields,
    .infer = infer,
    .reference = full_reference,
    .cases = full_cases,
    .n_cases = sizeof full_cases / sizeof *full_cases,
};

static int64_t saturate(double value)
{
    if (isnan(value)) {
        return 0;
    }
    return value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

weft_array *weft_full(weft_dims shape, double value, weft_dtype dtype)
{
    weft_full_params params = {.shape = shape, .dtype = dtype, .value = value};
    params.integer = saturate(value);
    return weft_apply(&weft_op_full, NULL, 0, &params);
}

weft_array *weft_zeros(weft_dims shape, weft_dtype dtype)
{
    return weft_full(shape, 0, dtype);
}

weft_array *weft_ones(weft_dims shape, weft_dtype dtype)
{
    return weft_full(shape, 1, dtype);
}

/* ---- arange --------------------------------------------------------------------------------- */

static weft_status arange_reference(const weft_call *call)
{
    const weft_full_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int64_t size = weft_tensor_size(out);
    bool whole = weft_dtype_is_integer(p->dtype);
    for (int64_t i = 0; i < size; i++) {
        double value = p->value + (double)i * p->step;
        if (whole) {
            weft_tensor_set_int(out, i, saturate(value));
        } else {
            weft_tensor_set(out, i, value);
        }
    }
    return WEFT_OK;
}

static const weft_case arange_cases[] = {
    {.name = "float32", .params = &(const weft_full_params){DIMS(5), WEFT_FLOAT32, 0.5, 0.25, 0}},
    {.name = "int32", .params = &(const weft_full_params){DIMS(7), WEFT_INT32, 10, -3, 0}},
    {.name = "empty", .params = &(const weft_full_params){DIMS(0), WEFT_FLOAT32, 0, 1, 0}},
};

const weft_op weft_op_arange = {
    .name = "arange",
    .family = WEFT_STRUCTURAL,
    .params_size = sizeof(weft_full_params),
    .params_fields = fields,
    .infer = infer,
    .reference = arange_reference,
    .cases = arange_cases,
    .n_cases = sizeof arange_cases / sizeof *arange_cases,
};

weft_array *weft__arange_count(double start, double step, int64_t count, weft_dtype dtype)
{
    weft_full_params params = {.dtype = dtype, .value = start, .step = step};
    params.shape = WEFT_DIMS(count);
    return weft_apply(&weft_op_arange, NULL, 0, &params);
}

weft_array *weft_arange(double start, double stop, double step, weft_dtype dtype)
{
    double count = ceil((stop - start) / step);
    if (count == 0 && step != 0 && (step > 0 ? start < stop : start > stop)) {
        count = 1; /* the quotient underflowed, or the step is infinite: only `start` */
        step = 0;
    }
    if (!(fabs(count) < 0x1p62)) { /* NaN too */
        return weft_error_array("arange: from %g to %g in steps of %g: expected a finite number "
                                "of elements",
                                start, stop, step);
    }
    return weft__arange_count(start, step, count > 0 ? (int64_t)count : 0, dtype);
}
