/* nn/functions/activations.c -- activation functions composed of other ops. */
#include "weft/activations.h"

#include "weft/ops.h"

/* Converts integers to float32; returns other arrays unchanged. */
static weft_array *as_float(weft_array *x)
{
    return weft_ok(x) && !weft_dtype_is_float(weft_dtype_of(x)) ? weft_astype(x, WEFT_FLOAT32) : x;
}

static weft_array *scalar_as(weft_array *x, double value)
{
    return weft_scalar(value, weft_dtype_of(x));
}

/* ---- rectifiers ----------------------------------------------------------------------------- */

weft_array *weft_relu2(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_square(weft_relu(x)));
}

weft_array *weft_relu6(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_minimum(weft_relu(x), scalar_as(x, 6)));
}

weft_array *weft_leaky_relu(weft_array *x, double slope)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(weft_maximum(weft_scale(x, slope), x));
}

weft_array *weft_prelu(weft_array *x, weft_array *alpha)
{
    weft_scope_open();
    x = as_float(x);
    weft_array *below = weft_multiply(alpha, weft_relu(weft_negative(x)));
    return weft_scope_close(weft_subtract(weft_relu(x), below));
}

/* ---- exponential units ---------------------------------------------------------------------- */

/* scale * (x where x > 0, else alpha * (exp(x / width) - 1)). The unused branch is evaluated at 0,
 * so that large x do not produce infinite gradients. */
static weft_array *exponential_unit(weft_array *x, double scale, double alpha, double width)
{
    weft_scope_open();
    x = as_float(x);
    weft_array *zero = scalar_as(x, 0);
    weft_array *above = weft_greater(x, zero);
    weft_array *below = weft_expm1(weft_scale(weft_where(above, zero, x), 1 / width));
    return weft_scope_close(
        weft_where(above, weft_scale(x, scale), weft_scale(below, scale * alpha)));
}

weft_array *weft_elu(weft_array *x, double alpha)
{
    return exponential_unit(x, 1, alpha, 1);
}

weft_array *weft_celu(weft_array *x, double alpha)
{
    return exponential_unit(x, 1, alpha, alpha);
}

weft_array *weft_selu(weft_array *x)
{
    return exponential_unit(x, 1.0507009873554804934, 1.6732632423543772848, 1);
}

/* ---- sigmoids ------------------------------------------------------------------------------- */

weft_array *weft_gelu_fast_approx(weft_array *x)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(weft_multiply(x, weft_sigmoid(weft_scale(x, 1.702))));
}

weft_array *weft_mish(weft_array *x)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(weft_multiply(x, weft_tanh(weft_softplus(x))));
}

weft_array *weft_log_sigmoid(weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_negative(weft_softplus(weft_negative(as_float(x)))));
}

weft_array *weft_softsign(weft_array *x)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(weft_divide(x, weft_add_scalar(weft_abs(x), 1)));
}

weft_array *weft_glu(weft_array *x, int axis)
{
    weft_scope_open();
    weft_array *halves[2];
    weft_split(as_float(x), 2, axis, halves);
    return weft_scope_close(weft_multiply(halves[0], weft_sigmoid(halves[1])));
}

weft_array *weft_softmin(weft_array *x, int axis)
{
    weft_scope_open();
    return weft_scope_close(weft_softmax(weft_negative(as_float(x)), axis));
}

/* ---- piecewise ------------------------------------------------------------------------------ */

weft_array *weft_hardswish(weft_array *x)
{
    weft_scope_open();
    x = as_float(x);
    weft_array *gate = weft_minimum(weft_relu(weft_add_scalar(x, 3)), scalar_as(x, 6));
    return weft_scope_close(weft_scale(weft_multiply(x, gate), 1.0 / 6));
}

weft_array *weft_hard_tanh(weft_array *x, double low, double high)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(weft_clip(x, scalar_as(x, low), scalar_as(x, high)));
}

/* `y` where |x| > bound, else 0. */
static weft_array *outside(weft_array *x, double bound, weft_array *y)
{
    return weft_where(weft_greater(weft_abs(x), scalar_as(x, bound)), y, scalar_as(x, 0));
}

weft_array *weft_hard_shrink(weft_array *x, double bound)
{
    weft_scope_open();
    x = as_float(x);
    return weft_scope_close(outside(x, bound, x));
}

weft_array *weft_softshrink(weft_array *x, double bound)
{
    weft_scope_open();
    x = as_float(x);
    weft_array *shrunk = weft_subtract(x, weft_scale(weft_sign(x), bound));
    return weft_scope_close(outside(x, bound, shrunk));
}

weft_array *weft_binary_step(weft_array *x, double threshold)
{
    weft_scope_open();
    x = as_float(x);
    weft_array *reached = weft_greater_equal(x, scalar_as(x, threshold));
    return weft_scope_close(weft_astype(reached, WEFT_INT32));
}
