/* ops/elementwise/bitwise.c -- bitwise ops on integers; on bool they equal the logical ops. */
#include "ops/elementwise/elementwise.h"

const weft_op weft_op_bitwise_invert = {
    .name = "bitwise_invert",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.integer = "~a", .boolean = "!a"},
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX,
};

weft_array *weft_bitwise_invert(weft_array *x)
{
    return elementwise1(&weft_op_bitwise_invert, x);
}

const weft_op weft_op_bitwise_and = {
    .name = "bitwise_and",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.integer = "a & b", .boolean = "a && b"},
    .zero_gradient = 3,
    .commutative = true,
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX,
};

weft_array *weft_bitwise_and(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_bitwise_and, a, b);
}

const weft_op weft_op_bitwise_or = {
    .name = "bitwise_or",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.integer = "a | b", .boolean = "a || b"},
    .zero_gradient = 3,
    .commutative = true,
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX,
};

weft_array *weft_bitwise_or(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_bitwise_or, a, b);
}

const weft_op weft_op_bitwise_xor = {
    .name = "bitwise_xor",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.integer = "a ^ b", .boolean = "a != b"},
    .zero_gradient = 3,
    .commutative = true,
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX,
};

weft_array *weft_bitwise_xor(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_bitwise_xor, a, b);
}

const weft_op weft_op_left_shift = {
    .name = "left_shift",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.integer = "a << b"},
    .zero_gradient = 3,
    .domain = {0, 7},
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX | NO_TEST_BOOL,
};

weft_array *weft_left_shift(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_left_shift, a, b);
}

const weft_op weft_op_right_shift = {
    .name = "right_shift",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.integer = "a >> b"},
    .zero_gradient = 3,
    .domain = {0, 7},
    .no_test_dtypes = NO_TEST_FLOATS | NO_TEST_COMPLEX | NO_TEST_BOOL,
};

weft_array *weft_right_shift(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_right_shift, a, b);
}
