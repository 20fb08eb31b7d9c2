/* ops/random/parameters.c -- distributions with array parameters, which broadcast to the drawn
 * shape, and distributions that are formulas of the uniform one. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/random/random.h"

static weft_array *constant(double value, weft_dtype dtype)
{
    return weft_scalar(value, dtype);
}

/* Converts a parameter to the compute dtype and broadcasts it to the drawn shape. */
static weft_array *parameter(weft_array *a, weft_dims shape, weft_dtype dtype)
{
    return weft_broadcast_to(weft_astype(a, dtype), shape);
}

/* The largest number of `dtype` below `high`: subtracts slightly more than half a step and rounds.
 */
static weft_array *below(weft_array *high, weft_dtype dtype)
{
    double step = dtype == WEFT_BFLOAT16  ? 0x1.02p-8
                  : dtype == WEFT_FLOAT16 ? 0x1.02p-11
                  : dtype == WEFT_FLOAT32 ? 0x1.02p-24
                                          : 0x1.02p-53;
    weft_array *x = weft_subtract(high, weft_scale(weft_abs(high), step));
    return weft_astype(weft_astype(x, dtype), weft_dtype_of(high));
}

weft_array *weft_random_uniform_array(weft_array *key, weft_dims shape, weft_array *low,
                                      weft_array *high, weft_dtype dtype)
{
    weft_array *failed = weft__random_check("uniform", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    weft_array *from = parameter(low, shape, wide), *to = parameter(high, shape, wide);
    weft_array *unit = weft_random_uniform(key, shape, 0, 1, wide);
    weft_array *x = weft_add(weft_multiply(unit, weft_subtract(to, from)), from);
    weft_array *largest = weft_maximum(below(to, dtype), from); /* for equal bounds the result is
                                                                 * `from` */
    return weft_scope_close(weft_astype(weft_minimum(x, largest), dtype));
}

weft_array *weft_random_normal_array(weft_array *key, weft_dims shape, weft_array *mean,
                                     weft_array *std, weft_dtype dtype)
{
    weft_array *failed = weft__random_check("normal", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    weft_array *x = weft_random_normal(key, shape, 0, 1, wide);
    x = std ? weft_multiply(x, parameter(std, shape, wide)) : x;
    x = mean ? weft_add(x, parameter(mean, shape, wide)) : x;
    return weft_scope_close(weft_astype(x, dtype));
}

weft_array *weft_random_bernoulli_array(weft_array *key, weft_dims shape, weft_array *p)
{
    weft_scope_open();
    weft_array *u = weft_random_uniform(key, shape, 0, 1, WEFT_FLOAT32);
    return weft_scope_close(weft_less(u, parameter(p, shape, WEFT_FLOAT32)));
}

/* sqrt(2) erfinv(u) with u uniform between the values of the distribution function at the bounds.
 */
weft_array *weft_random_truncated_normal_array(weft_array *key, weft_dims shape, weft_array *lower,
                                               weft_array *upper, weft_dtype dtype)
{
    weft_array *failed = weft__random_check("truncated_normal", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    weft_array *root = constant(sqrt(2), wide);
    weft_array *low = parameter(lower, shape, wide), *high = parameter(upper, shape, wide);
    weft_array *from = weft_erf(weft_divide(low, root)), *to = weft_erf(weft_divide(high, root));
    weft_array *u = weft_random_uniform_array(key, shape, from, to, wide);
    /* Bounds in one tail may both become 1 or -1; u must stay where erfinv is finite. */
    weft_array *one = below(constant(1, wide), wide);
    u = weft_maximum(weft_minimum(u, one), weft_negative(one));
    weft_array *x = weft_multiply(root, weft_erfinv(u));
    x = weft_maximum(weft_minimum(high, x), low);
    return weft_scope_close(weft_astype(x, dtype));
}

weft_array *weft_random_truncated_normal(weft_array *key, weft_dims shape, double lower,
                                         double upper, weft_dtype dtype)
{
    weft_scope_open();
    weft_array *failed = weft__random_check("truncated_normal", dtype);
    if (failed) {
        return weft_scope_close(failed);
    }
    if (!(lower <= upper)) {
        return weft_scope_close(weft_error_array(
            "truncated_normal: expected lower <= upper, got %g and %g", lower, upper));
    }
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    return weft_scope_close(weft_random_truncated_normal_array(key, shape, constant(lower, wide),
                                                               constant(upper, wide), dtype));
}

/* -log(-log(u)) */
weft_array *weft_random_gumbel(weft_array *key, weft_dims shape, weft_dtype dtype)
{
    weft_array *failed = weft__random_check("gumbel", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_array *u = weft_random_uniform(key, shape, 0, 1, weft_promote(dtype, WEFT_FLOAT32));
    weft_array *x = weft_negative(weft_log(weft_negative(weft_log(u))));
    return weft_scope_close(weft_astype(x, dtype));
}

/* sign(u) log(1 - |u|) with u uniform in (-1, 1) */
weft_array *weft_random_laplace(weft_array *key, weft_dims shape, double mean, double scale,
                                weft_dtype dtype)
{
    weft_array *failed = weft__random_check("laplace", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_array *u = weft__random_signed_unit(key, shape, weft_promote(dtype, WEFT_FLOAT32));
    weft_array *x = weft_multiply(weft_sign(u), weft_log1p(weft_negative(weft_abs(u))));
    x = weft_add_scalar(weft_scale(x, scale), mean);
    return weft_scope_close(weft_astype(x, dtype));
}
