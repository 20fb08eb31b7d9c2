/* weft/fft.h -- discrete Fourier transforms.
 *
 * The forward transform of x along an axis is sum_j x_j e^{-2 pi i j k / n}, the inverse one has
 * the other sign. Spectra are complex64 and real results float32, computed in float32 whatever the
 * input: float64, too, is rounded, because there is no wider complex dtype. Any length is
 * transformed in n log n steps.
 *
 * n is the length to transform: x is cropped or followed by zeros; 0 is x's own. Of several axes,
 * `lengths` has one for each (n == 0: x's own), and without axes (n <= 0) they are the last ones
 * that lengths are given for, or all; of the functions on two axes, the last two. An axis of length
 * 0 is an error. All are linear and have derivatives of any order. Common rules: ops.h.
 */
#ifndef WEFT_FFT_H
#define WEFT_FFT_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the factor 1 / n goes. */
typedef enum weft_fft_norm {
    WEFT_FFT_BACKWARD, /* to the inverse */
    WEFT_FFT_ORTHO,    /* its square root to both */
    WEFT_FFT_FORWARD   /* to the forward transform */
} weft_fft_norm;

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

/* Of real numbers, which have a spectrum that mirrors itself: the last of the axes becomes
 * n / 2 + 1 elements long. A complex input counts by its real part. */
WEFT_API weft_array *weft_rfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_rfft2(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);
WEFT_API weft_array *weft_rfftn(weft_array *x, weft_dims lengths, weft_dims axes,
                                weft_fft_norm norm);
/* The inverse: the last of the axes becomes n elements long, by itself 2 (length - 1). Imaginary
 * parts where a mirrored spectrum has none, at 0 and at n / 2, are not looked at. */
WEFT_API weft_array *weft_irfft(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
WEFT_API weft_array *weft_irfft2(weft_array *x, weft_dims lengths, weft_dims axes,
                                 weft_fft_norm norm);
WEFT_API weft_array *weft_irfftn(weft_array *x, weft_dims lengths, weft_dims axes,
                                 weft_fft_norm norm);

/* The frequencies, in cycles per unit of the spacing, that belong to the elements of a spectrum of
 * n: (n,) and (n / 2 + 1,) float32. */
WEFT_API weft_array *weft_fftfreq(int64_t n, double spacing);
WEFT_API weft_array *weft_rfftfreq(int64_t n, double spacing);
/* Frequency 0 from the front to the middle of the axes (n <= 0: all), and back. */
WEFT_API weft_array *weft_fftshift(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_ifftshift(weft_array *x, weft_dims axes);

#ifdef __cplusplus
}
#endif
#endif
