/* ops/elementwise/angles.c -- inverse trigonometric functions, hyperbolic functions and their
 * inverses, degrees and radians. */
#include "ops/elementwise/elementwise.h"

/* All ops in this file are for real floats and complex numbers. */
#define LITERAL(NAME, FORMULA, PARTIAL, LOW, HIGH)                                                 \
    const weft_op weft_op_##NAME = {                                                               \
        .name = #NAME,                                                                             \
        .family = WEFT_ELEMENTWISE,                                                                \
        .arity = 1,                                                                                \
        .formula = {.real = FORMULA, .complex_ = FORMULA},                                         \
        .partial = PARTIAL,                                                                        \
        .domain = {LOW, HIGH},                                                                     \
        .no_test_dtypes = NO_TEST_WHOLE,                                                           \
    }

/* ---- inverse trigonometric functions -------------------------------------------------------- */

/* 1 - x^2 as a product, which avoids cancellation near 1. */
static weft_array *one_less_square(weft_array *x)
{
    return weft_multiply(weft_scalar_subtract(1, x), weft_add_scalar(x, 1));
}

static weft_array *arcsin_partial(weft_array *node, int i)
{
    return weft_rsqrt(one_less_square(operand(node, i)));
}

LITERAL(arcsin, "asin(a)", arcsin_partial, -0.9, 0.9);

weft_array *weft_arcsin(weft_array *x)
{
    return real1(&weft_op_arcsin, x);
}

static weft_array *arccos_partial(weft_array *node, int i)
{
    return weft_negative(weft_rsqrt(one_less_square(operand(node, i))));
}

LITERAL(arccos, "acos(a)", arccos_partial, -0.9, 0.9);

weft_array *weft_arccos(weft_array *x)
{
    return real1(&weft_op_arccos, x);
}

static weft_array *arctan_partial(weft_array *node, int i)
{
    return weft_reciprocal(weft_add_scalar(weft_square(operand(node, i)), 1));
}

LITERAL(arctan, "atan(a)", arctan_partial, -4, 4);

weft_array *weft_arctan(weft_array *x)
{
    return real1(&weft_op_arctan, x);
}

/* ---- hyperbolic functions ------------------------------------------------------------------- */

static weft_array *sinh_partial(weft_array *node, int i)
{
    return weft_cosh(operand(node, i));
}

LITERAL(sinh, "sinh(a)", sinh_partial, -2, 2);

weft_array *weft_sinh(weft_array *x)
{
    return real1(&weft_op_sinh, x);
}

static weft_array *cosh_partial(weft_array *node, int i)
{
    return weft_sinh(operand(node, i));
}

LITERAL(cosh, "cosh(a)", cosh_partial, -2, 2);

weft_array *weft_cosh(weft_array *x)
{
    return real1(&weft_op_cosh, x);
}

static weft_array *arcsinh_partial(weft_array *node, int i)
{
    return weft_rsqrt(weft_add_scalar(weft_square(operand(node, i)), 1));
}

LITERAL(arcsinh, "asinh(a)", arcsinh_partial, -4, 4);

weft_array *weft_arcsinh(weft_array *x)
{
    return real1(&weft_op_arcsinh, x);
}

/* (x - 1)^-1/2 (x + 1)^-1/2, with two roots to match the branch cut of the complex function. */
static weft_array *arccosh_partial(weft_array *node, int i)
{
    weft_array *x = operand(node, i);
    return weft_multiply(weft_rsqrt(weft_add_scalar(x, -1)), weft_rsqrt(weft_add_scalar(x, 1)));
}

LITERAL(arccosh, "acosh(a)", arccosh_partial, 1.25, 4);

weft_array *weft_arccosh(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(real1(&weft_op_arccosh, x));
}

static weft_array *arctanh_partial(weft_array *node, int i)
{
    return weft_reciprocal(one_less_square(operand(node, i)));
}

LITERAL(arctanh, "atanh(a)", arctanh_partial, -0.9, 0.9);
#undef LITERAL

weft_array *weft_arctanh(weft_array *x)
{
    return real1(&weft_op_arctanh, x);
}

/* ---- units ---------------------------------------------------------------------------------- */

weft_array *weft_degrees(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_scale(as_inexact(x), 57.295779513082320877));
}

weft_array *weft_radians(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_scale(as_inexact(x), 0.017453292519943295769));
}
