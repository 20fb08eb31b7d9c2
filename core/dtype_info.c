/* core/dtype_info.c -- kinds and limits of dtypes. */
#include <math.h>

#include "weft/dtype.h"

bool weft_can_cast(weft_dtype from, weft_dtype to)
{
    return weft_promote(from, to) == to;
}

bool weft_is_dtype(weft_dtype dtype, weft_kind kind)
{
    bool whole = weft_dtype_is_integer(dtype), floating = weft_dtype_is_float(dtype);
    bool is_complex = dtype == WEFT_COMPLEX64;
    switch (kind) {
    case WEFT_KIND_GENERIC:
        return true;
    case WEFT_KIND_NUMBER:
        return whole || floating || is_complex;
    case WEFT_KIND_INTEGER:
        return whole;
    case WEFT_KIND_SIGNED_INTEGER:
        return weft_dtype_is_signed(dtype);
    case WEFT_KIND_UNSIGNED_INTEGER:
        return whole && !weft_dtype_is_signed(dtype);
    case WEFT_KIND_INEXACT:
        return floating || is_complex;
    case WEFT_KIND_FLOATING:
        return floating;
    case WEFT_KIND_COMPLEX:
        return is_complex;
    }
    return false;
}

bool weft_finfo_of(weft_dtype dtype, weft_finfo *out)
{
    int bits, digits, top; /* bits of the type; digits of the significand; values are below 2^top */
    switch (dtype) {
    case WEFT_FLOAT16:
        bits = 16, digits = 11, top = 16;
        break;
    case WEFT_BFLOAT16:
        bits = 16, digits = 8, top = 128;
        break;
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        bits = 32, digits = 24, top = 128;
        break;
    case WEFT_FLOAT64:
        bits = 64, digits = 53, top = 1024;
        break;
    default:
        return false;
    }
    double max = ldexp(2 - ldexp(1, 1 - digits), top - 1);
    *out = (weft_finfo){.bits = bits,
                        .min = -max,
                        .max = max,
                        .eps = ldexp(1, 1 - digits),
                        .smallest_normal = ldexp(1, 2 - top),
                        .smallest_subnormal = ldexp(1, 3 - top - digits)};
    return true;
}

bool weft_iinfo_of(weft_dtype dtype, weft_iinfo *out)
{
    if (!weft_dtype_is_integer(dtype)) {
        return false;
    }
    int bits = 8 * (int)weft_dtype_size(dtype);
    bool is_signed = weft_dtype_is_signed(dtype);
    uint64_t max = ~UINT64_C(0) >> (64 - bits + is_signed);
    *out = (weft_iinfo){.bits = bits, .min = is_signed ? -(int64_t)max - 1 : 0, .max = max};
    return true;
}
