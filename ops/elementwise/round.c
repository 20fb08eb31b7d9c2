/* ops/elementwise/round.c -- rounding to integers, and classification of floats. */
#include "ops/elementwise/elementwise.h"

const weft_op weft_op_floor = {
    .name = "floor",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "floor(a)", .integer = "a", .boolean = "a"},
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_floor(weft_array *x)
{
    return elementwise1(&weft_op_floor, x);
}

const weft_op weft_op_ceil = {
    .name = "ceil",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "ceil(a)", .integer = "a", .boolean = "a"},
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_ceil(weft_array *x)
{
    return elementwise1(&weft_op_ceil, x);
}

const weft_op weft_op_round = {
    .name = "round",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "rint(a)", .integer = "a", .boolean = "a", .complex_ = "rint(a)"},
    .zero_gradient = 1,
};

weft_array *weft_round(weft_array *x)
{
    return elementwise1(&weft_op_round, x);
}

const weft_op weft_op_trunc = {
    .name = "trunc",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "trunc(a)", .integer = "a", .boolean = "a"},
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_trunc(weft_array *x)
{
    return elementwise1(&weft_op_trunc, x);
}

const weft_op weft_op_isnan = {
    .name = "isnan",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "isnan(a)", .integer = "0", .boolean = "0", .complex_ = "isnan(a)"},
    .predicate = true,
    .zero_gradient = 1,
};

weft_array *weft_isnan(weft_array *x)
{
    return elementwise1(&weft_op_isnan, x);
}

const weft_op weft_op_isinf = {
    .name = "isinf",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "isinf(a)", .integer = "0", .boolean = "0", .complex_ = "isinf(a)"},
    .predicate = true,
    .zero_gradient = 1,
};

weft_array *weft_isinf(weft_array *x)
{
    return elementwise1(&weft_op_isinf, x);
}

const weft_op weft_op_isfinite = {
    .name = "isfinite",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "isfinite(a)", .integer = "1", .boolean = "1", .complex_ = "isfinite(a)"},
    .predicate = true,
    .zero_gradient = 1,
};

weft_array *weft_isfinite(weft_array *x)
{
    return elementwise1(&weft_op_isfinite, x);
}

const weft_op weft_op_isposinf = {
    .name = "isposinf",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a == inf", .integer = "0", .boolean = "0"},
    .predicate = true,
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_isposinf(weft_array *x)
{
    return elementwise1(&weft_op_isposinf, x);
}

const weft_op weft_op_isneginf = {
    .name = "isneginf",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a == -inf", .integer = "0", .boolean = "0"},
    .predicate = true,
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_isneginf(weft_array *x)
{
    return elementwise1(&weft_op_isneginf, x);
}
