/* ops/random/distributions.c -- distributions from random words. 16-bit floats are drawn in float32
 * and rounded. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/random/random.h"

/* The next number of `dtype` below `value`. */
static double below(double value, weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT64:
        return nextafter(value, -INFINITY);
    case WEFT_FLOAT32:
        return (double)nextafterf((float)value, -INFINITY);
    default: { /* one unit in the last place of a float with 7 or 10 explicit mantissa bits */
        int bits = dtype == WEFT_BFLOAT16 ? 8 : 11, exponent;
        int least = dtype == WEFT_BFLOAT16 ? -125 : -13;
        double mantissa = frexp(value, &exponent);
        exponent -= mantissa == 0.5; /* the spacing below a power of two is half as large */
        return value - ldexp(1, (exponent > least ? exponent : least) - bits);
    }
    }
}

static weft_array *constant(double value, weft_dtype dtype)
{
    return weft_scalar(value, dtype);
}

weft_array *weft__random_check(const char *op, weft_dtype dtype)
{
    return weft_dtype_is_float(dtype) ? NULL
                                      : weft_error_array("%s: expected a floating dtype, got %s",
                                                         op, weft_dtype_name(dtype));
}

/* Uniform in [low, high), float32 or float64, from 32 random bits per element: words / 2^32.
 * float32 may round this, or the product and sum, up to the upper end, hence the minimum. */
static weft_array *draw(weft_array *key, weft_dims shape, double low, double high, weft_dtype dtype,
                        double largest)
{
    weft_array *words = weft_astype(weft_random_bits(key, shape, 4), dtype);
    weft_array *unit = weft_minimum(weft_multiply(words, constant(0x1p-32, dtype)),
                                    constant(below(1, dtype), dtype));
    weft_array *x = unit;
    if (high - low != 1) {
        x = weft_multiply(x, constant(high - low, dtype));
    }
    if (low != 0) {
        x = weft_add(x, constant(low, dtype));
    }
    return weft_minimum(x, constant(largest, dtype));
}

weft_array *weft_random_uniform(weft_array *key, weft_dims shape, double low, double high,
                                weft_dtype dtype)
{
    weft_array *failed = weft__random_check("uniform", dtype);
    if (failed) {
        return failed;
    }
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    double range = wide == WEFT_FLOAT32 ? (double)(float)(high - low) : high - low;
    if (!(low <= high) || isinf(range)) {
        return weft_error_array("uniform: expected low <= high with a range that %s can hold, got "
                                "%g and %g",
                                weft_dtype_name(wide), low, high);
    }
    weft_scope_open();
    double largest = low < high ? below(high, dtype) : high;
    weft_array *x = draw(key, shape, low, high, wide, largest);
    return weft_scope_close(weft_astype(x, dtype));
}

weft_array *weft__random_signed_unit(weft_array *key, weft_dims shape, weft_dtype dtype)
{
    return draw(key, shape, -below(1, dtype), 1, dtype, below(1, dtype));
}

/* By the inverse distribution function: sqrt(2) erfinv(u), u uniform in (-1, 1). */
weft_array *weft_random_normal(weft_array *key, weft_dims shape, double mean, double std,
                               weft_dtype dtype)
{
    weft_array *failed = weft__random_check("normal", dtype);
    if (failed) {
        return failed;
    }
    weft_scope_open();
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    weft_array *u = weft__random_signed_unit(key, shape, wide);
    weft_array *x = weft_multiply(weft_erfinv(u), constant(sqrt(2) * std, wide));
    if (mean != 0) {
        x = weft_add(x, constant(mean, wide));
    }
    return weft_scope_close(weft_astype(x, dtype));
}

weft_array *weft_random_bernoulli(weft_array *key, weft_dims shape, double p)
{
    weft_scope_open();
    weft_array *u = weft_random_uniform(key, shape, 0, 1, WEFT_FLOAT32);
    return weft_scope_close(weft_less(u, constant(p, WEFT_FLOAT32)));
}
