/* weft/fft.h -- discrete Fourier transforms.
 *
 * The forward transform of x along an axis is sum_j x_j e^{-2 pi i j k / n}, the inverse has the
 * other sign. Spectra are complex64 and real results float32, computed in float32 whatever the
 * input. Any length is transformed in n log n steps. All have derivatives of any order.
 *
 * n is the length to transform: x is cropped or followed by zeros; 0 is x's own. `lengths` has one
 * for each axis, or none. WEFT_ALL_AXES means the last axes, as many as there are lengths, or all;
 * in fft2 and its variants the last two. Over an empty list of axes complex transforms only convert
 * x to complex64 (NumPy keeps x's dtype), and real transforms fail. A length of 0 is an error.
 * Common rules: ops.h.
 */
#ifndef WEFT_FFT_H
#define WEFT_FFT_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which transform has the factor 1 / n. */
typedef enum weft_fft_norm {
    WEFT_FFT_BACKWARD, /* the inverse transform */
    WEFT_FFT_ORTHO,    /* both, as 1 / sqrt(n) */
    WEFT_FFT_FORWARD   /* the forward transform */
} weft_fft_norm;

/* The transform and its inverse along one axis, two axes and several axes: complex64. */
WEFT_API weft_array *weft_fft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_ifft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_fft2(weft_array *x, weft_dims lengths, weft_dims axes,
                               weft_fft_norm norm);
WEFT_API weft_array *weft_ifft2(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);
WEFT_API weft_array *weft_fftn(weft_array *x, weft_dims lengths, weft_dims axes,
                               weft_fft_norm norm);
WEFT_API weft_array *weft_ifftn(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);

/* The transform of real numbers, without the redundant half of the spectrum: the last of the axes
 * has n / 2 + 1 elements. The imaginary part of a complex input is dropped. */
WEFT_API weft_array *weft_rfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_rfft2(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);
WEFT_API weft_array *weft_rfftn(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);
/* The inverse, float32: the last of the axes has n elements, by default 2 (length - 1). The
 * imaginary parts at 0 and at n / 2, which are 0 in the spectrum of real numbers, are ignored. */
WEFT_API weft_array *weft_irfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_irfft2(weft_array *x, weft_dims lengths, weft_dims axes,
                                 weft_fft_norm norm);
WEFT_API weft_array *weft_irfftn(weft_array *x, weft_dims lengths, weft_dims axes,
                                 weft_fft_norm norm);

/* The frequencies of the elements of a spectrum of n, in cycles per unit of the spacing: float32
 * (n) and (n / 2 + 1). */
WEFT_API weft_array *weft_fftfreq(int64_t n, double spacing);
WEFT_API weft_array *weft_rfftfreq(int64_t n, double spacing);
/* x with frequency 0 moved from the start to the middle of the axes (WEFT_ALL_AXES: of all), and
 * back. */
WEFT_API weft_array *weft_fftshift(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_ifftshift(weft_array *x, weft_dims axes);

#ifdef __cplusplus
}
#endif
#endif
