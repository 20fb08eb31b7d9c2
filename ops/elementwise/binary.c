/* ops/elementwise/binary.c -- arithmetic of two numbers, and with a weak scalar. */
#include "ops/elementwise/elementwise.h"

#include <math.h>

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
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BOOL | NO_TEST_INTEGERS,
};

weft_array *weft_divide(weft_array *a, weft_array *b)
{
    return real2(&weft_op_divide, a, b);
}

const weft_op weft_op_floor_divide = {
    .name = "floor_divide",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "floor(a / b)", .integer = "a / b"},
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

/* b a^(b-1), which is 0 for b = 0 even at a = 0; a^b log a, with log 0 taken as 0. */
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
    .formula = {.real = "pow(a, b)", .integer = "pow(a, b)"},
    .partial = power_partial,
    .domain = {0.5, 2},
    .no_test_dtypes = NO_TEST_BOOL | NO_TEST_COMPLEX,
};

weft_array *weft_power(weft_array *a, weft_array *b)
{
    return elementwise2(&weft_op_power, a, b);
}

/* Where the operands are equal each has half. */
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
    .formula = {.real = "max(a, b)", .integer = "max(a, b)", .boolean = "a || b"},
    .partial = maximum_partial,
    .no_test_dtypes = NO_TEST_COMPLEX,
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
    .formula = {.real = "min(a, b)", .integer = "min(a, b)", .boolean = "a && b"},
    .partial = minimum_partial,
    .no_test_dtypes = NO_TEST_COMPLEX,
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

/* Equal operands are a case of their own: the difference of two infinities is NaN. */
const weft_op weft_op_logaddexp = {
    .name = "logaddexp",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a == b ? a + 0.69314718055994530942"
                        " : max(a, b) + log1p(exp(-abs(a - b)))"},
    .partial = logaddexp_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_logaddexp(weft_array *a, weft_array *b)
{
    return real2(&weft_op_logaddexp, a, b);
}

/* The 0-d array that `value` is beside x: of x's dtype, or of a wider one that can hold it. */
static weft_array *weak_scalar(const weft_array *x, double value)
{
    weft_dtype dtype = weft_dtype_of(x);
    weft_class klass = weft_dtype_class(dtype);
    if (klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX) {
        return weft_scalar(value, dtype);
    }
    if (value != floor(value) || fabs(value) > 0x1p53) {
        return weft_scalar(value, WEFT_FLOAT32);
    }
    return weft_scalar_int((int64_t)value, klass == WEFT_CLASS_BOOL ? WEFT_INT32 : dtype);
}

weft_array *weft_add_scalar(weft_array *x, double value)
{
    return weft_add(x, weak_scalar(x, value));
}

weft_array *weft_scale(weft_array *x, double value)
{
    return weft_multiply(x, weak_scalar(x, value));
}

weft_array *weft_power_scalar(weft_array *x, double exponent)
{
    if (exponent == 2) {
        return weft_square(x);
    }
    if (exponent == 0.5) {
        return weft_sqrt(x);
    }
    if (exponent == -0.5) {
        return weft_rsqrt(x);
    }
    return weft_power(x, weak_scalar(x, exponent));
}
