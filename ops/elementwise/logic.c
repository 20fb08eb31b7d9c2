/* ops/elementwise/logic.c -- logical ops: any number except 0 is true, including NaN. */
#include "ops/elementwise/elementwise.h"

const weft_op weft_op_logical_not = {
    .name = "logical_not",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "!a", .integer = "!a", .boolean = "!a", .complex_ = "!a"},
    .predicate = true,
    .zero_gradient = 1,
};

weft_array *weft_logical_not(weft_array *x)
{
    return elementwise1(&weft_op_logical_not, x);
}

const weft_op weft_op_logical_and = {
    .name = "logical_and",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a && b", .integer = "a && b", .boolean = "a && b", .complex_ = "a && b"},
    .predicate = true,
    .zero_gradient = 3,
    .commutative = true,
};

weft_array *weft_logical_and(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_logical_and, a, b);
}

const weft_op weft_op_logical_or = {
    .name = "logical_or",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a || b", .integer = "a || b", .boolean = "a || b", .complex_ = "a || b"},
    .predicate = true,
    .zero_gradient = 3,
    .commutative = true,
};

weft_array *weft_logical_or(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_logical_or, a, b);
}

const weft_op weft_op_logical_xor = {
    .name = "logical_xor",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "!a != !b",
                .integer = "!a != !b",
                .boolean = "a != b",
                .complex_ = "!a != !b"},
    .predicate = true,
    .zero_gradient = 3,
};

weft_array *weft_logical_xor(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_logical_xor, a, b);
}
