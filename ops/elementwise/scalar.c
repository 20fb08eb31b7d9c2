/* ops/elementwise/scalar.c -- arithmetic and comparisons with a weak scalar. */
#include "ops/elementwise/elementwise.h"

#include <math.h>

/* `value` as a 0-d array for an op with x: in x's dtype, or a wider one if necessary. */
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
    weft_scope_open();
    return weft_scope_close(weft_add(x, weak_scalar(x, value)));
}

weft_array *weft_scalar_subtract(double value, weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_subtract(weak_scalar(x, value), x));
}

weft_array *weft_scale(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_multiply(x, weak_scalar(x, value)));
}

weft_array *weft_divide_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_divide(x, weak_scalar(x, value)));
}

weft_array *weft_scalar_divide(double value, weft_array *x)
{
    weft_scope_open();
    return weft_scope_close(weft_divide(weak_scalar(x, value), x));
}

weft_array *weft_floor_divide_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_floor_divide(x, weak_scalar(x, value)));
}

weft_array *weft_remainder_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_remainder(x, weak_scalar(x, value)));
}

weft_array *weft_power_scalar(weft_array *x, double exponent)
{
    weft_scope_open();
    if (exponent == 2) {
        return weft_scope_close(weft_square(x));
    }
    if (exponent == 0.5) {
        return weft_scope_close(weft_sqrt(x));
    }
    if (exponent == -0.5) {
        return weft_scope_close(weft_rsqrt(x));
    }
    return weft_scope_close(weft_power(x, weak_scalar(x, exponent)));
}

weft_array *weft_maximum_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_maximum(x, weak_scalar(x, value)));
}

weft_array *weft_minimum_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_minimum(x, weak_scalar(x, value)));
}

weft_array *weft_clip_scalar(weft_array *x, double low, double high)
{
    weft_scope_open();
    weft_array *y = low == -(double)INFINITY ? x : weft_maximum_scalar(x, low);
    return weft_scope_close(high == (double)INFINITY ? y : weft_minimum_scalar(y, high));
}

weft_array *weft_equal_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_equal(x, weak_scalar(x, value)));
}

weft_array *weft_not_equal_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_not_equal(x, weak_scalar(x, value)));
}

weft_array *weft_less_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_less(x, weak_scalar(x, value)));
}

weft_array *weft_less_equal_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_less_equal(x, weak_scalar(x, value)));
}

weft_array *weft_greater_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_greater(x, weak_scalar(x, value)));
}

weft_array *weft_greater_equal_scalar(weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_greater_equal(x, weak_scalar(x, value)));
}

weft_array *weft_where_scalar(weft_array *condition, weft_array *x, double value)
{
    weft_scope_open();
    return weft_scope_close(weft_where(condition, x, weak_scalar(x, value)));
}
