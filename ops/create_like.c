/* ops/create_like.c -- constant arrays: like other arrays, and of complex numbers. */
#include "ops/kernel.h"

weft_array *weft_full_like(weft_array *x, double value)
{
    if (!weft_ok(x)) {
        return x;
    }
    return weft_to(weft_full(weft_shape(x), value, weft_dtype_of(x)), weft_device_of(x));
}

weft_array *weft_zeros_like(weft_array *x)
{
    return weft_full_like(x, 0);
}

weft_array *weft_ones_like(weft_array *x)
{
    return weft_full_like(x, 1);
}

weft_array *weft_full_array(weft_dims shape, weft_array *value, weft_dtype dtype)
{
    return weft_broadcast_to(weft_astype(value, dtype), shape);
}

weft_array *weft_full_complex(weft_dims shape, double re, double im)
{
    weft_scope_open();
    weft_complex64 value = {(float)re, (float)im};
    return weft_scope_close(
        weft_broadcast_to(weft_from_data(&value, WEFT_COMPLEX64, (weft_dims){0}), shape));
}
