/* ops/elementwise/unary.c -- arithmetic and transcendental functions of one operand. */
#include "ops/elementwise/elementwise.h"

#define HALF_ROOT_PI 0.88622692545275801365 /* sqrt(pi) / 2 */
#define TWO_OVER_ROOT_PI 1.12837916709551257390
#define LN_2 0.69314718055994530942
#define LN_10 2.3025850929940456840

static weft_array *minus_one(weft_array *node, int i)
{
    (void)i;
    return constant_like(node, -1);
}

const weft_op weft_op_negative = {
    .name = "negative",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "-a", .integer = "-a", .complex_ = "-a"},
    .partial = minus_one,
    .no_test_dtypes = NO_TEST_BOOL,
};

weft_array *weft_negative(weft_array *x)
{
    return elementwise1(&weft_op_negative, x);
}

static weft_array *abs_partial(weft_array *node, int i)
{
    return weft_sign(operand(node, i));
}

const weft_op weft_op_abs = {
    .name = "abs",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "abs(a)", .integer = "abs(a)", .boolean = "a"},
    .partial = abs_partial,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

const weft_op weft_op_sign = {
    .name = "sign",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "sign(a)", .integer = "sign(a)", .boolean = "a"},
    .zero_gradient = 1,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_abs(weft_array *x)
{
    if (weft_ok(x) && weft_dtype_of(x) == WEFT_COMPLEX64) {
        return weft_apply(&weft_op_complex_abs, &x, 1, NULL);
    }
    return elementwise1(&weft_op_abs, x);
}

/* For complex numbers, x / |x| with the gradient of the quotient; 0, with gradient 0, at 0. */
weft_array *weft_sign(weft_array *x)
{
    if (!weft_ok(x) || weft_dtype_of(x) != WEFT_COMPLEX64) {
        return elementwise1(&weft_op_sign, x);
    }
    weft_scope_open();
    weft_array *length = weft_abs(x), *none = weft_equal_scalar(length, 0);
    weft_array *unit = weft_divide(x, weft_where(none, constant_like(length, 1), length));
    return weft_scope_close(weft_where(none, constant_like(unit, 0), unit));
}

static weft_array *square_partial(weft_array *node, int i)
{
    return weft_scale(operand(node, i), 2);
}

const weft_op weft_op_square = {
    .name = "square",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a * a", .integer = "a * a", .boolean = "a", .complex_ = "a * a"},
    .partial = square_partial,
};

weft_array *weft_square(weft_array *x)
{
    return elementwise1(&weft_op_square, x);
}

static weft_array *sqrt_partial(weft_array *node, int i)
{
    (void)i;
    return weft_scale(weft_reciprocal(node), 0.5);
}

const weft_op weft_op_sqrt = {
    .name = "sqrt",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "sqrt(a)", .complex_ = "sqrt(a)"},
    .partial = sqrt_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_sqrt(weft_array *x)
{
    return real1(&weft_op_sqrt, x);
}

static weft_array *rsqrt_partial(weft_array *node, int i)
{
    return weft_scale(weft_divide(node, operand(node, i)), -0.5);
}

const weft_op weft_op_rsqrt = {
    .name = "rsqrt",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "rsqrt(a)", .complex_ = "rsqrt(a)"},
    .partial = rsqrt_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_rsqrt(weft_array *x)
{
    return real1(&weft_op_rsqrt, x);
}

static weft_array *reciprocal_partial(weft_array *node, int i)
{
    (void)i;
    return weft_negative(weft_square(node));
}

const weft_op weft_op_reciprocal = {
    .name = "reciprocal",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "1 / a", .complex_ = "1 / a"},
    .partial = reciprocal_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_reciprocal(weft_array *x)
{
    return real1(&weft_op_reciprocal, x);
}

static weft_array *exp_partial(weft_array *node, int i)
{
    (void)i;
    return node;
}

const weft_op weft_op_exp = {
    .name = "exp",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "exp(a)", .complex_ = "exp(a)"},
    .partial = exp_partial,
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_exp(weft_array *x)
{
    return real1(&weft_op_exp, x);
}

static weft_array *expm1_partial(weft_array *node, int i)
{
    (void)i;
    return weft_add_scalar(node, 1);
}

const weft_op weft_op_expm1 = {
    .name = "expm1",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "expm1(a)", .complex_ = "expm1(a)"},
    .partial = expm1_partial,
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_expm1(weft_array *x)
{
    return real1(&weft_op_expm1, x);
}

static weft_array *log_partial(weft_array *node, int i)
{
    return weft_reciprocal(operand(node, i));
}

const weft_op weft_op_log = {
    .name = "log",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "log(a)", .complex_ = "log(a)"},
    .partial = log_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_log(weft_array *x)
{
    return real1(&weft_op_log, x);
}

static weft_array *log1p_partial(weft_array *node, int i)
{
    return weft_reciprocal(weft_add_scalar(operand(node, i), 1));
}

const weft_op weft_op_log1p = {
    .name = "log1p",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "log1p(a)", .complex_ = "log1p(a)"},
    .partial = log1p_partial,
    .domain = {-0.5, 3},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_log1p(weft_array *x)
{
    return real1(&weft_op_log1p, x);
}

static weft_array *log2_partial(weft_array *node, int i)
{
    return weft_scale(weft_reciprocal(operand(node, i)), 1 / LN_2);
}

const weft_op weft_op_log2 = {
    .name = "log2",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "log2(a)", .complex_ = "log2(a)"},
    .partial = log2_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_log2(weft_array *x)
{
    return real1(&weft_op_log2, x);
}

static weft_array *log10_partial(weft_array *node, int i)
{
    return weft_scale(weft_reciprocal(operand(node, i)), 1 / LN_10);
}

const weft_op weft_op_log10 = {
    .name = "log10",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "log10(a)", .complex_ = "log10(a)"},
    .partial = log10_partial,
    .domain = {0.25, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_log10(weft_array *x)
{
    return real1(&weft_op_log10, x);
}

static weft_array *sin_partial(weft_array *node, int i)
{
    return weft_cos(operand(node, i));
}

const weft_op weft_op_sin = {
    .name = "sin",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "sin(a)", .complex_ = "sin(a)"},
    .partial = sin_partial,
    .domain = {-4, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_sin(weft_array *x)
{
    return real1(&weft_op_sin, x);
}

static weft_array *cos_partial(weft_array *node, int i)
{
    return weft_negative(weft_sin(operand(node, i)));
}

const weft_op weft_op_cos = {
    .name = "cos",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "cos(a)", .complex_ = "cos(a)"},
    .partial = cos_partial,
    .domain = {-4, 4},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_cos(weft_array *x)
{
    return real1(&weft_op_cos, x);
}

static weft_array *tan_partial(weft_array *node, int i)
{
    (void)i;
    return weft_add_scalar(weft_square(node), 1);
}

const weft_op weft_op_tan = {
    .name = "tan",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "tan(a)", .complex_ = "tan(a)"},
    .partial = tan_partial,
    .domain = {-1.2, 1.2},
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_tan(weft_array *x)
{
    return real1(&weft_op_tan, x);
}

static weft_array *tanh_partial(weft_array *node, int i)
{
    (void)i;
    return weft_subtract(constant_like(node, 1), weft_square(node));
}

const weft_op weft_op_tanh = {
    .name = "tanh",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "tanh(a)", .complex_ = "tanh(a)"},
    .partial = tanh_partial,
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_tanh(weft_array *x)
{
    return real1(&weft_op_tanh, x);
}

static weft_array *erf_partial(weft_array *node, int i)
{
    weft_array *density = weft_exp(weft_negative(weft_square(operand(node, i))));
    return weft_scale(density, TWO_OVER_ROOT_PI);
}

const weft_op weft_op_erf = {
    .name = "erf",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "erf(a)"},
    .partial = erf_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_erf(weft_array *x)
{
    return real1(&weft_op_erf, x);
}

static weft_array *erfinv_partial(weft_array *node, int i)
{
    (void)i;
    return weft_scale(weft_exp(weft_square(node)), HALF_ROOT_PI);
}

const weft_op weft_op_erfinv = {
    .name = "erfinv",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "erfinv(a)"},
    .partial = erfinv_partial,
    .domain = {-0.9, 0.9},
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_erfinv(weft_array *x)
{
    return real1(&weft_op_erfinv, x);
}
