/* ops/elementwise/activation.c -- activation functions and the gates of gated MLPs.
 *
 * The logistic function is written with exp(-|x|), so that it neither overflows nor underflows in
 * the tails; the parser merges repeated subexpressions. A "slope" op is a derivative as one op, so
 * that the backward pass is one kernel; its own partial is composed of smaller ops.
 */
#include "ops/elementwise/elementwise.h"
#include "ops/nn/glu.h"
#include "weft/op_params.h"

#define DECAY(x) "exp(-abs(" x "))"
#define LOGISTIC(x) "((" x " < 0 ? " DECAY(x) " : 1) / (1 + " DECAY(x) "))"
/* 1 - LOGISTIC(x), without cancellation */
#define CO_LOGISTIC(x) "((" x " < 0 ? 1 : " DECAY(x) ") / (1 + " DECAY(x) "))"

static weft_array *one_minus(weft_array *x)
{
    return weft_subtract(constant_like(x, 1), x);
}

static weft_array *sigmoid_partial(weft_array *node, int i)
{
    (void)i;
    return weft_multiply(node, one_minus(node));
}

const weft_op weft_op_sigmoid = {
    .name = "sigmoid",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = LOGISTIC("a"), .complex_ = "1 / (1 + exp(-a))"},
    .partial = sigmoid_partial,
    .no_test_dtypes = NO_TEST_WHOLE,
};

weft_array *weft_sigmoid(weft_array *x)
{
    return real1(&weft_op_sigmoid, x);
}

static weft_array *softplus_partial(weft_array *node, int i)
{
    return weft_sigmoid(operand(node, i));
}

const weft_op weft_op_softplus = {
    .name = "softplus",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "max(a, 0) + log1p(" DECAY("a") ")"},
    .partial = softplus_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_softplus(weft_array *x)
{
    return real1(&weft_op_softplus, x);
}

static weft_array *relu_partial(weft_array *node, int i)
{
    weft_array *x = operand(node, i);
    return weft_astype(weft_greater(x, constant_like(x, 0)), weft_dtype_of(x));
}

const weft_op weft_op_relu = {
    .name = "relu",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "max(a, 0)", .integer = "max(a, 0)", .boolean = "a"},
    .partial = relu_partial,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_COMPLEX,
};

weft_array *weft_relu(weft_array *x)
{
    return elementwise1(&weft_op_relu, x);
}

/* s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x) */
static weft_array *silu_slope_partial(weft_array *node, int i)
{
    weft_array *x = operand(node, i);
    weft_array *s = weft_sigmoid(x);
    weft_array *slope = weft_multiply(s, one_minus(s));
    weft_array *bend = weft_multiply(x, one_minus(weft_scale(s, 2)));
    return weft_multiply(slope, weft_add_scalar(bend, 2));
}

const weft_op weft_op_silu_slope = {
    .name = "silu_slope",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = LOGISTIC("a") " * (1 + a * " CO_LOGISTIC("a") ")"},
    .partial = silu_slope_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

static weft_array *silu_partial(weft_array *node, int i)
{
    return elementwise1(&weft_op_silu_slope, operand(node, i));
}

const weft_op weft_op_silu = {
    .name = "silu",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "a * " LOGISTIC("a")},
    .partial = silu_partial,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_silu(weft_array *x)
{
    return real1(&weft_op_silu, x);
}

#define HALF_ROOT "0.70710678118654752440"      /* 1 / sqrt(2) */
#define NORMAL_DENSITY_0 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define NORMAL_DENSITY_0_TEXT "0.39894228040143267794"

/* (2 - x^2) phi(x), phi the normal density */
static weft_array *gelu_slope_partial(weft_array *node, int i)
{
    weft_array *square = weft_square(operand(node, i));
    weft_array *density = weft_scale(weft_exp(weft_scale(square, -0.5)), NORMAL_DENSITY_0);
    return weft_multiply(density, weft_subtract(constant_like(square, 2), square));
}

const weft_op weft_op_gelu_slope = {
    .name = "gelu_slope",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "0.5 * (1 + erf(a * " HALF_ROOT ")) + "
                        "a * (" NORMAL_DENSITY_0_TEXT " * exp(-0.5 * a * a))"},
    .partial = gelu_slope_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

static weft_array *gelu_partial(weft_array *node, int i)
{
    return elementwise1(&weft_op_gelu_slope, operand(node, i));
}

const weft_op weft_op_gelu = {
    .name = "gelu",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = "0.5 * a * (1 + erf(a * " HALF_ROOT "))"},
    .partial = gelu_partial,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_gelu(weft_array *x)
{
    return real1(&weft_op_gelu, x);
}

/* The tanh form of GELU is x sigmoid(v) with v = 2 sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh
 * u) / 2 = sigmoid(2 u). */
#define TANH_SCALE 1.59576912160573071176
#define TANH_SCALE_TEXT "1.59576912160573071176"
#define TANH_CUBIC 0.044715
#define TANH_ARGUMENT(x) "(" TANH_SCALE_TEXT " * (" x " + 0.044715 * " x " * " x " * " x "))"
#define TANH_ARGUMENT_SLOPE(x) "(" TANH_SCALE_TEXT " * (1 + 0.134145 * " x " * " x "))"
#define GELU_TANH(x) x " * " LOGISTIC(TANH_ARGUMENT(x))
/* Beyond 64 the logistic function is 0 or 1 even in double, and x^3 could overflow. */
#define BOUNDED "max(-64, min(a, 64))"

/* With s = sigmoid(v), s' = s (1 - s): s' (2 v' + x ((1 - 2 s) v'^2 + v'')). */
static weft_array *gelu_tanh_slope_partial(weft_array *node, int i)
{
    weft_array *x = operand(node, i);
    weft_array *square = weft_square(x);
    weft_array *cubic = weft_multiply(x, weft_add_scalar(weft_scale(square, TANH_CUBIC), 1));
    weft_array *s = weft_sigmoid(weft_scale(cubic, TANH_SCALE));
    weft_array *v1 = weft_add_scalar(weft_scale(square, 3 * TANH_CUBIC * TANH_SCALE), TANH_SCALE);
    weft_array *v2 = weft_scale(x, 6 * TANH_CUBIC * TANH_SCALE);
    weft_array *bend = weft_multiply(one_minus(weft_scale(s, 2)), weft_square(v1));
    weft_array *sum = weft_add(weft_scale(v1, 2), weft_multiply(x, weft_add(bend, v2)));
    return weft_multiply(weft_multiply(s, one_minus(s)), sum);
}

const weft_op weft_op_gelu_tanh_slope = {
    .name = "gelu_tanh_slope",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = LOGISTIC(TANH_ARGUMENT(BOUNDED)) " * (1 + " BOUNDED " * " CO_LOGISTIC(
                    TANH_ARGUMENT(BOUNDED)) " * " TANH_ARGUMENT_SLOPE(BOUNDED) ")"},
    .partial = gelu_tanh_slope_partial,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

static weft_array *gelu_tanh_partial(weft_array *node, int i)
{
    return elementwise1(&weft_op_gelu_tanh_slope, operand(node, i));
}

const weft_op weft_op_gelu_tanh = {
    .name = "gelu_tanh",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.real = GELU_TANH("a")},
    .partial = gelu_tanh_partial,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_gelu_tanh(weft_array *x)
{
    return real1(&weft_op_gelu_tanh, x);
}

static weft_array *swiglu_partial(weft_array *node, int i)
{
    weft_array *gate = operand(node, 0);
    if (i == 1) {
        return weft_silu(gate);
    }
    return weft_multiply(operand(node, 1), elementwise1(&weft_op_silu_slope, gate));
}

static void swiglu_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    weft__glu_vjp(WEFT_GLU_SILU, node, cts[0], wanted, grads);
}

const weft_op weft_op_swiglu = {
    .name = "swiglu",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "a * " LOGISTIC("a") " * b"},
    .partial = swiglu_partial,
    .vjp = swiglu_vjp,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_swiglu(weft_array *gate, weft_array *up)
{
    return real2(&weft_op_swiglu, gate, up);
}

static weft_array *geglu_partial(weft_array *node, int i)
{
    weft_array *gate = operand(node, 0);
    if (i == 1) {
        return weft_gelu_tanh(gate);
    }
    return weft_multiply(operand(node, 1), elementwise1(&weft_op_gelu_tanh_slope, gate));
}

static void geglu_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    weft__glu_vjp(WEFT_GLU_GELU_TANH, node, cts[0], wanted, grads);
}

const weft_op weft_op_geglu = {
    .name = "geglu",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = GELU_TANH("a") " * b"},
    .partial = geglu_partial,
    .vjp = geglu_vjp,
    .rematerialize = true,
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_geglu(weft_array *gate, weft_array *up)
{
    return real2(&weft_op_geglu, gate, up);
}

/* 1 - tanh(x / cap)^2 */
static weft_array *softcap_partial(weft_array *node, int i)
{
    (void)i;
    return one_minus(weft_square(weft_divide(node, operand(node, 1))));
}

/* The inputs are x and the cap, a constant. For |x| far below the cap the result is x, since the
 * quotient could be subnormal. */
const weft_op weft_op_softcap = {
    .name = "softcap",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.real = "abs(a / b) < 1e-9 ? a : b * tanh(a / b)"},
    .partial = softcap_partial,
    .zero_gradient = 2,
    .domain = {0.5, 3},
    .no_test_dtypes = NO_TEST_BUT_FLOATS,
};

weft_array *weft_softcap(weft_array *x, double cap)
{
    weft_scope_open();
    if (!(cap > 0)) {
        return weft_scope_close(
            weft_error_array("softcap: the cap is %g, expected a positive number", cap));
    }
    x = as_inexact(x);
    return weft_scope_close(elementwise2(&weft_op_softcap, x, constant_like(x, cap)));
}
