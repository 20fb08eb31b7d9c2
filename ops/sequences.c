/* ops/sequences.c -- evenly spaced numbers, and window functions for signals. */
#include <math.h>

#include "ops/kernel.h"

weft_array *weft_arange_int(int64_t start, int64_t stop, int64_t step, weft_dtype dtype)
{
    if (step == 0) {
        return weft_error_array("arange: expected a step other than 0");
    }
    /* Differences and multiples use unsigned arithmetic, since they may overflow int64. */
    bool up = step > 0, any = up ? start < stop : start > stop;
    uint64_t gap = up ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = up ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = any ? (gap - 1) / stride + 1 : 0;
    if (count > UINT64_C(1) << 53) {
        return weft_error_array("arange: from %lld to %lld in steps of %lld: expected at most 2^53 "
                                "elements",
                                (long long)start, (long long)stop, (long long)step);
    }
    double last = (double)start + (double)count * (double)step;
    if (fabs((double)start) <= 0x1p53 && fabs(last) <= 0x1p53) {
        weft_scope_open();
        return weft_scope_close(weft_arange(
            (double)start, (double)start + (double)count * (double)step, (double)step, dtype));
    }
    weft_scope_open();
    weft_array *indices = weft_arange(0, (double)count, 1, WEFT_INT64);
    weft_array *from_start = weft_multiply(indices, weft_scalar_int(step, WEFT_INT64));
    weft_array *all = weft_add(from_start, weft_scalar_int(start, WEFT_INT64));
    return weft_scope_close(weft_astype(all, dtype));
}

weft_array *weft_linspace(double start, double stop, int64_t num, bool endpoint, weft_dtype dtype)
{
    if (num < 0) {
        return weft_error_array("linspace: expected at least 0 numbers, got %lld", (long long)num);
    }
    int64_t parts = endpoint ? num - 1 : num;
    if (parts < 1) {
        return weft_full(WEFT_DIMS(num), start, dtype);
    }
    double step = (stop - start) / (double)parts;
    weft_dtype inner = weft_dtype_is_integer(dtype) ? WEFT_FLOAT64 : dtype;
    weft_scope_open();
    weft_array *all = weft__arange_count(start, step, num, inner);
    if (endpoint) { /* set exactly, since start + parts * step may be rounded */
        weft_array *last = weft_arange(0, (double)num, 1, WEFT_INT64);
        all = weft_where(weft_equal_scalar(last, (double)parts), weft_scalar(stop, inner), all);
    }
    return weft_scope_close(weft_astype(all, dtype));
}

/* ---- windows -------------------------------------------------------------------------------- */

/* constant + first cos(x) + second cos(2 x) at M points from 0 to 2 pi, in float64. */
static weft_array *cosines(const char *op, int64_t M, double constant, double first, double second)
{
    if (M < 0) {
        return weft_error_array("%s: expected at least 0 points, got %lld", op, (long long)M);
    }
    if (M == 1) {
        return weft_ones(WEFT_DIMS(M), WEFT_FLOAT32);
    }
    weft_scope_open();
    const double turn = 6.28318530717958647692;
    weft_array *x = weft__arange_count(0, turn / (double)(M - 1), M, WEFT_FLOAT64);
    weft_array *y = weft_add_scalar(weft_scale(weft_cos(x), first), constant);
    if (second != 0) {
        y = weft_add(y, weft_scale(weft_cos(weft_scale(x, 2)), second));
    }
    return weft_scope_close(weft_astype(y, WEFT_FLOAT32));
}

weft_array *weft_hanning(int64_t M)
{
    return cosines("hanning", M, 0.5, -0.5, 0);
}

weft_array *weft_hamming(int64_t M)
{
    return cosines("hamming", M, 0.54, -0.46, 0);
}

weft_array *weft_blackman(int64_t M)
{
    return cosines("blackman", M, 0.42, -0.5, 0.08);
}

weft_array *weft_bartlett(int64_t M)
{
    if (M < 0) {
        return weft_error_array("bartlett: expected at least 0 points, got %lld", (long long)M);
    }
    if (M == 1) {
        return weft_ones(WEFT_DIMS(M), WEFT_FLOAT32);
    }
    weft_scope_open();
    weft_array *x = weft__arange_count(-1, 2 / (double)(M - 1), M, WEFT_FLOAT64);
    return weft_scope_close(weft_astype(weft_scalar_subtract(1, weft_abs(x)), WEFT_FLOAT32));
}
