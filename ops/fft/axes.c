/* ops/fft/axes.c -- the public Fourier transforms: lengths, several axes, normalization. */
#include <math.h>

#include "ops/fft/fft.h"

/* The arguments of a call: axes counted from the end, in order, and the length along each. */
typedef struct request {
    const char *name;
    weft_dims axes, lengths;
    bool inverse;
    weft_fft_norm norm;
} request;

static bool refuse(weft_array **failed, weft_array *error)
{
    *failed = error;
    return false;
}

/* Completes r->axes, which must be at least this many, and r->lengths. By default the axes are the
 * last ones, as many as there are lengths, or all. */
static bool complete(request *r, weft_array *x, int least, weft_array **failed)
{
    weft_why why;
    int n = weft_ndim(x);
    if (!weft_ok(x)) {
        return refuse(failed, x);
    }
    if (r->axes.n < 0) {
        r->axes.n = r->lengths.n > 0 ? r->lengths.n : n;
        for (int i = 0; i < r->axes.n; i++) {
            r->axes.at[i] = i - r->axes.n;
        }
    }
    if (!weft__axes_in_order(&r->axes, n, &r->axes, &why)) {
        return refuse(failed, weft_error_array("%s: %s", r->name, why.text));
    }
    if (r->axes.n < least) {
        return refuse(failed, weft_error_array("%s: expected at least one axis", r->name));
    }
    if (r->lengths.n > 0 && r->lengths.n != r->axes.n) {
        return refuse(failed, weft_error_array("%s: %d lengths for %d axes", r->name, r->lengths.n,
                                               r->axes.n));
    }
    for (int i = 0; i < r->axes.n; i++) {
        if (r->lengths.n <= 0) {
            r->lengths.at[i] = weft_dim(x, (int)r->axes.at[i]);
        }
    }
    return true;
}

static bool check_lengths(const request *r, weft_array **failed)
{
    for (int i = 0; i < r->axes.n; i++) {
        if (r->lengths.at[i] < 1) {
            return refuse(failed, weft_error_array("%s: length %lld, expected 1 or more", r->name,
                                                   (long long)r->lengths.at[i]));
        }
    }
    return true;
}

/* Crops the axis, or appends zeros. */
static weft_array *resize(weft_array *x, int64_t axis, int64_t length)
{
    int64_t has = weft_dim(x, (int)axis);
    return has > length ? weft_slice_axis(x, (int)axis, 0, length)
                        : weft_pad(x, (int)axis, 0, length - has, 0);
}

static double scale_of(const request *r, int64_t length)
{
    double n = (double)length;
    if (r->norm == WEFT_FFT_ORTHO) {
        return 1 / sqrt(n);
    }
    return (r->norm == WEFT_FFT_BACKWARD) == r->inverse ? 1 / n : 1;
}

static weft_array *as_complex(weft_array *x)
{
    return weft_astype(x, WEFT_COMPLEX64);
}

/* Axis i of the request, complex to complex. */
static weft_array *along(const request *r, weft_array *x, int i)
{
    int64_t length = r->lengths.at[i], axis = r->axes.at[i];
    return weft__fft_axis(resize(x, axis, length), axis, r->inverse, scale_of(r, length));
}

static weft_array *complex_transform(request r, weft_array *x)
{
    weft_array *failed;
    if (!complete(&r, x, 0, &failed) || !check_lengths(&r, &failed)) {
        return failed;
    }
    x = as_complex(x);
    for (int i = r.axes.n - 1; i >= 0; i--) {
        x = along(&r, x, i);
    }
    return x;
}

/* Transforms the last axis from real numbers, then the other axes. */
static weft_array *from_real(request r, weft_array *x)
{
    weft_array *failed;
    if (!complete(&r, x, 1, &failed) || !check_lengths(&r, &failed)) {
        return failed;
    }
    int end = r.axes.n - 1;
    int64_t length = r.lengths.at[end], axis = r.axes.at[end];
    x = weft_dtype_of(x) == WEFT_FLOAT64 ? x : weft_astype(x, WEFT_FLOAT32);
    x = weft__rfft_axis(resize(x, axis, length), axis, scale_of(&r, length));
    for (int i = end - 1; i >= 0; i--) {
        x = along(&r, x, i);
    }
    return x;
}

/* Transforms the other axes, then the last one to real numbers. */
static weft_array *to_real(request r, weft_array *x)
{
    weft_array *failed;
    bool given = r.lengths.n > 0;
    if (!complete(&r, x, 1, &failed)) {
        return failed;
    }
    int end = r.axes.n - 1;
    r.lengths.at[end] = given ? r.lengths.at[end] : 2 * (r.lengths.at[end] - 1);
    if (!check_lengths(&r, &failed)) {
        return failed;
    }
    int64_t length = r.lengths.at[end], axis = r.axes.at[end];
    x = as_complex(x);
    for (int i = 0; i < end; i++) {
        x = along(&r, x, i);
    }
    return weft__irfft_axis(resize(x, axis, length / 2 + 1), axis, length, scale_of(&r, length));
}

/* ---- one axis ------------------------------------------------------------------------------- */

static request one(const char *name, int64_t n, int axis, bool inverse, weft_fft_norm norm)
{
    return (request){name, WEFT_DIMS(axis), n == 0 ? WEFT_SCALAR : WEFT_DIMS(n), inverse, norm};
}

weft_array *weft_fft(weft_array *x, int64_t n, int axis, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(complex_transform(one("fft", n, axis, false, norm), x));
}

weft_array *weft_ifft(weft_array *x, int64_t n, int axis, weft_fft_norm norm)
{
    return complex_transform(one("ifft", n, axis, true, norm), x);
}

weft_array *weft_rfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(from_real(one("rfft", n, axis, false, norm), x));
}

weft_array *weft_irfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm)
{
    return to_real(one("irfft", n, axis, true, norm), x);
}

/* ---- several axes --------------------------------------------------------------------------- */

static weft_dims last_two(weft_dims axes)
{
    return axes.n < 0 ? WEFT_DIMS(-2, -1) : axes;
}

weft_array *weft_fftn(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(complex_transform((request){"fftn", axes, lengths, false, norm}, x));
}

weft_array *weft_ifftn(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    return complex_transform((request){"ifftn", axes, lengths, true, norm}, x);
}

weft_array *weft_rfftn(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(from_real((request){"rfftn", axes, lengths, false, norm}, x));
}

weft_array *weft_irfftn(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    return to_real((request){"irfftn", axes, lengths, true, norm}, x);
}

weft_array *weft_fft2(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(
        complex_transform((request){"fft2", last_two(axes), lengths, false, norm}, x));
}

weft_array *weft_ifft2(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(
        complex_transform((request){"ifft2", last_two(axes), lengths, true, norm}, x));
}

weft_array *weft_rfft2(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(from_real((request){"rfft2", last_two(axes), lengths, false, norm}, x));
}

weft_array *weft_irfft2(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm)
{
    weft_scope_open();
    return weft_scope_close(to_real((request){"irfft2", last_two(axes), lengths, true, norm}, x));
}
