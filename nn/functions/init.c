/* nn/functions/init.c -- parameter initializers. */
#include "weft/init.h"

#include <math.h>

#include "core/shape.h"
#include "weft/ops.h"
#include "weft/random.h"

static weft_array *refuse(const char *name, const char *expected, weft_dims shape)
{
    char got[WEFT_SHAPE_TEXT];
    return weft_error_array("%s: expected %s, got %s", name, expected,
                            weft__shape_text(&shape, got));
}

/* ---- independent of fans --------------------------------------------------------------------- */

weft_array *weft_init_constant(weft_dims shape, double value, weft_dtype dtype)
{
    return weft_full(shape, value, dtype);
}

weft_array *weft_init_normal(weft_array *key, weft_dims shape, double mean, double std,
                             weft_dtype dtype)
{
    return weft_random_normal(key, shape, mean, std, dtype);
}

weft_array *weft_init_uniform(weft_array *key, weft_dims shape, double low, double high,
                              weft_dtype dtype)
{
    return weft_random_uniform(key, shape, low, high, dtype);
}

weft_array *weft_init_identity(weft_dims shape, weft_dtype dtype)
{
    if (shape.n != 2 || shape.at[0] != shape.at[1])
        return refuse("weft_init_identity", "a square matrix", shape);
    weft_scope_open();
    weft_array *i = weft_arange(0, (double)shape.at[0], 1, WEFT_INT32);
    weft_array *equal = weft_equal(weft_expand_dims(i, 1), i);
    return weft_scope_close(weft_astype(equal, dtype));
}

/* ---- by fans -------------------------------------------------------------------------------- */

/* Computes the fans of a shape. False if it has fewer than two axes, or more than an array has. */
static bool fans(weft_dims shape, double *fan_in, double *fan_out)
{
    double between = 1;
    if (shape.n < 2 || shape.n > WEFT_MAX_DIMS)
        return false;
    for (int i = 1; i < shape.n - 1; i++)
        between *= (double)shape.at[i];
    *fan_in = between * (double)shape.at[shape.n - 1];
    *fan_out = between * (double)shape.at[0];
    return true;
}

/* 1 / fan, or 0 for an empty fan, whose array has no elements. */
static double inverse(double fan)
{
    return fan > 0 ? 1 / fan : 0;
}

weft_array *weft_init_glorot_normal(weft_array *key, weft_dims shape, double gain, weft_dtype dtype)
{
    double in, out;
    if (!fans(shape, &in, &out))
        return refuse("weft_init_glorot_normal", "two or more axes", shape);
    return weft_random_normal(key, shape, 0, gain * sqrt(2 * inverse(in + out)), dtype);
}

weft_array *weft_init_glorot_uniform(weft_array *key, weft_dims shape, double gain,
                                     weft_dtype dtype)
{
    double in, out;
    if (!fans(shape, &in, &out))
        return refuse("weft_init_glorot_uniform", "two or more axes", shape);
    const double limit = gain * sqrt(6 * inverse(in + out));
    return weft_random_uniform(key, shape, -limit, limit, dtype);
}

weft_array *weft_init_he_normal(weft_array *key, weft_dims shape, weft_fan fan, double gain,
                                weft_dtype dtype)
{
    double in, out;
    if (!fans(shape, &in, &out))
        return refuse("weft_init_he_normal", "two or more axes", shape);
    const double std = gain * sqrt(inverse(fan == WEFT_FAN_OUT ? out : in));
    return weft_random_normal(key, shape, 0, std, dtype);
}

weft_array *weft_init_he_uniform(weft_array *key, weft_dims shape, weft_fan fan, double gain,
                                 weft_dtype dtype)
{
    double in, out;
    if (!fans(shape, &in, &out))
        return refuse("weft_init_he_uniform", "two or more axes", shape);
    const double limit = gain * sqrt(3 * inverse(fan == WEFT_FAN_OUT ? out : in));
    return weft_random_uniform(key, shape, -limit, limit, dtype);
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* Zeroes the elements with the lowest ranks of a random order in each row. */
weft_array *weft_init_sparse(weft_array *key, weft_dims shape, double sparsity, double mean,
                             double std, weft_dtype dtype)
{
    if (shape.n != 2)
        return refuse("weft_init_sparse", "a matrix", shape);
    if (!(sparsity >= 0 && sparsity <= 1))
        return weft_error_array("weft_init_sparse: expected a sparsity in [0, 1], got %g",
                                sparsity);
    weft_scope_open();
    weft_array *order_key, *value_key;
    weft_random_split_pair(key ? key : weft_random_next_key(), &order_key, &value_key);
    weft_array *order = weft_random_uniform(order_key, shape, 0, 1, WEFT_FLOAT32);
    weft_array *place = weft_argsort(weft_argsort(order, -1), -1);
    weft_array *zeros = weft_scalar(ceil(sparsity * (double)shape.at[1]), WEFT_UINT32);
    weft_array *values = weft_random_normal(value_key, shape, mean, std, dtype);
    return weft_scope_close(weft_where(weft_less(place, zeros), weft_scalar(0, dtype), values));
}

/* q of a normal square matrix, with the signs of r's diagonal, which makes it uniformly distributed
 * over orthogonal matrices (Mezzadri 2006). */
weft_array *weft_init_orthogonal(weft_array *key, weft_dims shape, double gain, weft_dtype dtype)
{
    if (shape.n != 2)
        return refuse("weft_init_orthogonal", "a matrix", shape);
    weft_scope_open();
    const int64_t n = shape.at[0] > shape.at[1] ? shape.at[0] : shape.at[1];
    const weft_dtype wide = dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_array *q, *r, *eye = weft_init_identity(WEFT_DIMS(n, n), wide);
    weft_qr(weft_random_normal(key, WEFT_DIMS(n, n), 0, 1, wide), false, &q, &r);
    weft_array *diagonal = weft_sum(weft_multiply(r, eye), WEFT_DIMS(-2), false);
    weft_array *signs = weft_where(weft_less(diagonal, weft_scalar(0, wide)),
                                   weft_scalar(-gain, wide), weft_scalar(gain, wide));
    q = weft_multiply(q, signs);
    q = weft_slice_axis(weft_slice_axis(q, 0, 0, shape.at[0]), 1, 0, shape.at[1]);
    return weft_scope_close(weft_astype(q, dtype));
}
