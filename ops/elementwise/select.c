/* ops/elementwise/select.c -- selection by a condition. */
#include "ops/elementwise/elementwise.h"

static bool where_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims condition = input_shape(node, 0), a = input_shape(node, 1), b = input_shape(node, 2);
    if (!weft__shape_equal(&condition, &a) || !weft__shape_equal(&a, &b)) {
        char text[3][WEFT_SHAPE_TEXT];
        return weft_because(why, "where: shapes differ: %s, %s and %s",
                            weft__shape_text(&condition, text[0]), weft__shape_text(&a, text[1]),
                            weft__shape_text(&b, text[2]));
    }
    weft_dtype dtype = input_dtype(node, 1);
    if (input_dtype(node, 0) != WEFT_BOOL || input_dtype(node, 2) != dtype) {
        return weft_because(why, "where: expected bool and two equal dtypes, got %s, %s and %s",
                            weft_dtype_name(input_dtype(node, 0)), weft_dtype_name(dtype),
                            weft_dtype_name(input_dtype(node, 2)));
    }
    out[0] = (weft_spec){.dtype = dtype, .shape = a};
    return true;
}

/* Selects instead of multiplying by the mask, since the side not selected may be infinite. */
static void where_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    weft_array *condition = operand(node, 0);
    weft_array *zero = constant_like(cts[0], 0);
    if (wanted[1]) {
        grads[1] = weft_where(condition, cts[0], zero);
    }
    if (wanted[2]) {
        grads[2] = weft_where(condition, zero, cts[0]);
    }
}

static const weft_case where_cases[] = {
    {.name = "matrix",
     .n_inputs = 3,
     .in = {{.shape = {2, {3, 5}}, .boolean = true},
            {.shape = {2, {3, 5}}},
            {.shape = {2, {3, 5}}}}},
};

const weft_op weft_op_where = {
    .name = "where",
    .family = WEFT_ELEMENTWISE,
    .arity = 3,
    .infer = where_infer,
    .formula = {.real = "a ? b : c",
                .integer = "a ? b : c",
                .boolean = "a ? b : c",
                .complex_ = "a ? b : c"},
    .vjp = where_vjp,
    .zero_gradient = 1,
    .cases = where_cases,
    .n_cases = sizeof where_cases / sizeof *where_cases,
};

weft_array *weft_where(weft_array *condition, weft_array *a, weft_array *b)
{
    weft_dims c = weft_shape(condition), x = weft_shape(a), y = weft_shape(b), values, all;
    if (!weft__shape_broadcast(&x, &y, &values) || !weft__shape_broadcast(&c, &values, &all)) {
        char text[3][WEFT_SHAPE_TEXT];
        return weft_error_array("where: shapes do not broadcast: %s, %s and %s",
                                weft__shape_text(&c, text[0]), weft__shape_text(&x, text[1]),
                                weft__shape_text(&y, text[2]));
    }
    weft_scope_open();
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    weft_array *out =
        apply3(&weft_op_where, weft_broadcast_to(weft_astype(condition, WEFT_BOOL), all),
               weft_broadcast_to(weft_astype(a, dtype), all),
               weft_broadcast_to(weft_astype(b, dtype), all), NULL);
    return weft_scope_close(out);
}
