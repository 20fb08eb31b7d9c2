/* ops/elementwise/binary.c -- arithmetic with two operands. */
#include "ops/elementwise/elementwise.h"

static weft_array *add_partial(weft_array *node, int i)
{
    (void)node;
    (void)i;
    return NULL;
}

const weft_op weft_op_add = {
    .name = "add",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a + b", .integer = "a + b", .boolean = "a || b", .complex_ = "a + b"},
    .partial = add_partial,
    .commutative = true,
    .neutral = {.exists = true, .value = -0.0},
};

weft_array *weft_add(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_add, a, b);
}

static weft_array *subtract_partial(weft_array *node, int i)
{
    return i == 0 ? NULL : constant_like(node, -1);
}

const weft_op weft_op_subtract = {
    .name = "subtract",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a - b", .integer = "a - b", .complex_ = "a - b"},
    .partial = subtract_partial,
    .neutral = {.exists = true, .value = 0},
    .no_test_dtypes = NO_TEST_BOOL,
};

weft_array *weft_subtract(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_subtract, a, b);
}

static weft_array *multiply_partial(weft_array *node, int i)
{
    return operand(node, 1 - i);
}

const weft_op weft_op_multiply = {
    .name = "multiply",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a * b", .integer = "a * b", .boolean = "a && b", .complex_ = "a * b"},
    .partial = multiply_partial,
    .commutative = true,
    .neutral = {.exists = true, .value = 1},
};

weft_array *weft_multiply(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_multiply, a, b);
}

static weft_array *divide_partial(weft_array *node, int i)
{
    weft_array *divisor = operand(node, 1);
    return i == 0 ? weft_reciprocal(divisor) : weft_negative(weft_divide(node, divisor));
}

const weft_op weft_op_divide = {
    .name = "divide",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a / b", .complex_ = "a / b"},
    .partial = divide_partial,
    .neutral = {.exists = true, .value = 1},
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BOOL | NO_TEST_INTEGERS,
};

weft_array *weft_divide(weft_array *a, weft_array *b)
{
    return real2(&weft_op_divide, a, b);
}

/* The floor of the exact quotient. Rounding a / b first would be wrong: floor(1 / 0.1) is 10, but
 * the exact quotient is below 10. The remainder is exact, and remainder / b is the fraction of the
 * quotient; it differs from the fraction of the rounded a / b by nearly 1 where rounding crossed an
 * integer. A remainder that was rounded to b, or equals an infinite b, means a fraction of 1. An
 * infinite a has no remainder, so the result is NaN, as in NumPy; other infinite quotients
 * (overflow, b = 0) are returned. */
const weft_op weft_op_floor_divide = {
    .name = "floor_divide",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "isinf(a / b) && (isfinite(a) || b == 0) ? a / b : floor(a / b) - rint("
                        "(a % b == b ? 1 : a % b / b) - (a / b - floor(a / b)))",
                .integer = "a / b"},
    .zero_gradient = 3,
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BOOL | NO_TEST_COMPLEX,
};

weft_array *weft_floor_divide(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_floor_divide, a, b);
}

static weft_array *remainder_partial(weft_array *node, int i)
{
    if (i == 0) {
        return NULL;
    }
    return weft_negative(weft_floor_divide(operand(node, 0), operand(node, 1)));
}

const weft_op weft_op_remainder = {
    .name = "remainder",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a % b", .integer = "a % b"},
    .partial = remainder_partial,
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BOOL | NO_TEST_COMPLEX,
};

weft_array *weft_remainder(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_remainder, a, b);
}

void weft_divmod(weft_array *a, weft_array *b, weft_array **quotient, weft_array **remainder)
{
    *quotient = weft_floor_divide(a, b);
    *remainder = weft_remainder(a, b);
}

/* b a^(b-1), which is 0 for b = 0 even at a = 0; and a^b log a, with log 0 taken as 0. */
static weft_array *power_partial(weft_array *node, int i)
{
    weft_array *base = operand(node, 0), *exponent = operand(node, 1);
    weft_array *zero = constant_like(node, 0), *one = constant_like(node, 1);
    if (i == 0) {
        weft_array *less_one =
            weft_where(weft_equal(exponent, zero), one, weft_subtract(exponent, one));
        return weft_multiply(exponent, weft_power(base, less_one));
    }
    return weft_multiply(node, weft_log(weft_where(weft_equal(base, zero), one, base)));
}

const weft_op weft_op_power = {
    .name = "power",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "pow(a, b)", .integer = "pow(a, b)", .complex_ = "pow(a, b)"},
    .partial = power_partial,
    .domain = {0.5, 2},
    .no_test_dtypes = NO_TEST_BOOL,
};

weft_array *weft_power(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_power, a, b);
}

/* Equal operands get half of the gradient each. */
static weft_array *winner_share(weft_array *mine, weft_array *other, bool largest)
{
    weft_array *wins = largest ? weft_greater(mine, other) : weft_less(mine, other);
    weft_array *half =
        weft_where(weft_equal(mine, other), constant_like(mine, 0.5), constant_like(mine, 0));
    return weft_where(wins, constant_like(mine, 1), half);
}

static weft_array *maximum_partial(weft_array *node, int i)
{
    return winner_share(operand(node, i), operand(node, 1 - i), true);
}

const weft_op weft_op_maximum = {
    .name = "maximum",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "max(a, b)",
                .integer = "max(a, b)",
                .boolean = "a || b",
                .complex_ = "max(a, b)"},
    .partial = maximum_partial,
};

weft_array *weft_maximum(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_maximum, a, b);
}

static weft_array *minimum_partial(weft_array *node, int i)
{
    return winner_share(operand(node, i), operand(node, 1 - i), false);
}

const weft_op weft_op_minimum = {
    .name = "minimum",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "min(a, b)",
                .integer = "min(a, b)",
                .boolean = "a && b",
                .complex_ = "min(a, b)"},
    .partial = minimum_partial,
};

weft_array *weft_minimum(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_minimum, a, b);
}

weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high)
{
    weft_scope_open();
    weft_array *y = low ? weft_maximum(x, low) : x;
    return weft_scope_close(high ? weft_minimum(y, high) : y);
}

/* x / (x^2 + y^2) and -y / (x^2 + y^2) */
static weft_array *arctan2_partial(weft_array *node, int i)
{
    weft_array *y = operand(node, 0), *x = operand(node, 1);
    weft_array *norm = weft_add(weft_square(x), weft_square(y));
    return i == 0 ? weft_divide(x, norm) : weft_negative(weft_divide(y, norm));
}

const weft_op weft_op_arctan2 = {
    .name = "arctan2",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "atan2(a, b)"},
    .partial = arctan2_partial,
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_arctan2(weft_array *y, weft_array *x)
{
    return real2(&weft_op_arctan2, y, x);
}

static weft_array *logaddexp_partial(weft_array *node, int i)
{
    return weft_sigmoid(weft_subtract(operand(node, i), operand(node, 1 - i)));
}

/* Equal operands are handled separately: the difference of two infinities is NaN. */
const weft_op weft_op_logaddexp = {
    .name = "logaddexp",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a == b ? a + 0.69314718055994530942"
                        " : max(a, b) + log1p(exp(-abs(a - b)))",
                .complex_ = "max(a, b) + log1p(exp(min(a, b) - max(a, b)))"},
    .partial = logaddexp_partial,
    .domain = {-1, 1}, /* keeps complex sums away from zero */
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_logaddexp(weft_array *a, weft_array *b)
{
    return real2(&weft_op_logaddexp, a, b);
}
