/* ops/elementwise/compare.c -- comparisons: bool results, false when an operand is NaN (true for
 * not_equal). */
#include "ops/elementwise/elementwise.h"

const weft_op weft_op_equal = {
    .name = "equal",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a == b", .integer = "a == b", .boolean = "a == b", .complex_ = "a == b"},
    .predicate = true,
    .zero_gradient = 3,
    .commutative = true,
};

weft_array *weft_equal(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_equal, a, b);
}

const weft_op weft_op_not_equal = {
    .name = "not_equal",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a != b", .integer = "a != b", .boolean = "a != b", .complex_ = "a != b"},
    .predicate = true,
    .zero_gradient = 3,
    .commutative = true,
};

weft_array *weft_not_equal(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_not_equal, a, b);
}

const weft_op weft_op_less = {
    .name = "less",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a < b", .integer = "a < b", .boolean = "!a && b", .complex_ = "a < b"},
    .predicate = true,
    .zero_gradient = 3,
};

weft_array *weft_less(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_less, a, b);
}

const weft_op weft_op_less_equal = {
    .name = "less_equal",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a <= b", .integer = "a <= b", .boolean = "!a || b", .complex_ = "a <= b"},
    .predicate = true,
    .zero_gradient = 3,
};

weft_array *weft_less_equal(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_less_equal, a, b);
}

const weft_op weft_op_greater = {
    .name = "greater",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a > b", .integer = "a > b", .boolean = "a && !b", .complex_ = "a > b"},
    .predicate = true,
    .zero_gradient = 3,
};

weft_array *weft_greater(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_greater, a, b);
}

const weft_op weft_op_greater_equal = {
    .name = "greater_equal",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a >= b", .integer = "a >= b", .boolean = "a || !b", .complex_ = "a >= b"},
    .predicate = true,
    .zero_gradient = 3,
};

weft_array *weft_greater_equal(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_greater_equal, a, b);
}
