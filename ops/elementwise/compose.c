/* ops/elementwise/compose.c -- elementwise functions composed of other ops. */
#include <math.h>

#include "ops/elementwise/elementwise.h"

weft_array *weft_isclose(weft_array *a, weft_array *b, double rtol, double atol, bool equal_nan)
{
    weft_scope_open();
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    dtype = weft_promote(dtype, WEFT_FLOAT32);
    a = weft_astype(a, dtype);
    b = weft_astype(b, dtype);
    weft_array *bound = weft_add_scalar(weft_scale(weft_abs(b), rtol), atol);
    weft_array *near = weft_less_equal(weft_abs(weft_subtract(a, b)), bound);
    weft_array *close = weft_logical_or(weft_equal(a, b), weft_logical_and(near, weft_isfinite(b)));
    if (equal_nan) {
        close = weft_logical_or(close, weft_logical_and(weft_isnan(a), weft_isnan(b)));
    }
    return weft_scope_close(close);
}

weft_array *weft_nan_to_num(weft_array *x, const weft_nan_to_num_options *options)
{
    static const weft_nan_to_num_options defaults = {0};
    const weft_nan_to_num_options *o = options ? options : &defaults;
    weft_finfo info;
    if (!weft_ok(x) || !weft_finfo_of(weft_dtype_of(x), &info)) {
        return x; /* integers are never NaN or infinite */
    }
    if (weft_dtype_of(x) == WEFT_COMPLEX64) {
        weft_scope_open();
        return weft_scope_close(
            weft_complex(weft_nan_to_num(weft_real(x), o), weft_nan_to_num(weft_imag(x), o)));
    }
    weft_scope_open();
    weft_array *y = weft_where(weft_isnan(x), constant_like(x, o->nan), x);
    y = weft_where(weft_isposinf(x), constant_like(x, o->posinf ? *o->posinf : info.max), y);
    y = weft_where(weft_isneginf(x), constant_like(x, o->neginf ? *o->neginf : info.min), y);
    return weft_scope_close(y);
}

/* Rounds integers to a power of ten, half to even, in integer arithmetic. */
static weft_array *round_whole(weft_array *x, int decimals)
{
    weft_iinfo info;
    if (decimals >= 0 || !weft_iinfo_of(weft_dtype_of(x), &info)) {
        return x;
    }
    if (decimals < -18 && weft_dtype_size(weft_dtype_of(x)) == 8) {
        return weft_error_array("round: expected at least -18 decimals, got %d", decimals);
    }
    double unit = pow(10, -(double)decimals);
    if (unit > (double)info.max) { /* all values are less than half of it */
        return weft_zeros_like(x);
    }
    weft_scope_open();
    weft_array *step = weft_scalar_int((int64_t)unit, weft_dtype_of(x));
    weft_array *lower = weft_floor_divide(x, step);
    weft_array *above = weft_remainder(x, step), *below = weft_subtract(step, above);
    weft_array *odd = weft_not_equal_scalar(weft_remainder_scalar(lower, 2), 0);
    weft_array *up = weft_logical_or(weft_greater(above, below),
                                     weft_logical_and(weft_equal(above, below), odd));
    weft_array *whole = weft_multiply(weft_add(lower, weft_astype(up, weft_dtype_of(x))), step);
    return weft_scope_close(whole);
}

weft_array *weft_round_decimals(weft_array *x, int decimals)
{
    if (!weft_ok(x) || decimals == 0) {
        return weft_round(x);
    }
    weft_class klass = weft_dtype_class(weft_dtype_of(x));
    if (klass == WEFT_CLASS_INTEGER || klass == WEFT_CLASS_BOOL) {
        return round_whole(x, decimals);
    }
    double unit = pow(10, fabs((double)decimals));
    if (isinf(unit)) { /* no float has so many digits */
        return decimals < 0 ? weft_zeros_like(x) : x;
    }
    weft_scope_open();
    weft_array *y = decimals < 0 ? weft_scale(weft_round(weft_divide_scalar(x, unit)), unit)
                                 : weft_divide_scalar(weft_round(weft_scale(x, unit)), unit);
    return weft_scope_close(y);
}

weft_array *weft_positive(weft_array *x)
{
    return x;
}
