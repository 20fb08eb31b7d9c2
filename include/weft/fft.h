/* weft/fft.h -- discrete Fourier transforms.
 *
 * The forward transform of x along an axis is sum_j x_j e^{-2 pi i j k / n}, the inverse one has
 * the other sign. Spectra are complex64 and real results float32, computed in float32 whatever the
 * input: float64, too, is rounded, because there is no wider complex dtype. Any length is
 * transformed in n log n steps.
 *
 * n is the length to transform: x is cropped or followed by zeros; 0 is x's own. For several axes,
 * `lengths` has one length for each; without lengths (n == 0) they are x's own. WEFT_ALL_AXES stands
 * for as many last axes as there are lengths, or for all axes if there are none; in the functions
 * on two axes it stands for the last two. With an empty list of axes fftn, ifftn, fft2 and ifft2
 * only convert x to complex64 (NumPy returns x in its own dtype), and transforms from or to real
 * numbers give an error array. An axis of length 0 is an error. All transforms are linear and have
 * derivatives of any order. Common rules: ops.h.
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
/* x with frequency 0 moved from the start to the middle of the axes, and back. */
WEFT_API weft_array *weft_fftshift(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_ifftshift(weft_array *x, weft_dims axes);

#ifdef __cplusplus
}
#endif
#endif
