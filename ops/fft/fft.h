/* ops/fft/fft.h -- functions shared by the Fourier transforms. */
#ifndef OPS_FFT_FFT_H
#define OPS_FFT_FFT_H

#include "ops/kernel.h"

/* transform.c: transforms along one axis, counted from the end. Each multiplies by `scale`. */

/* complex64 -> complex64, e^{-i...}, or e^{+i...} when inverse */
weft_array *weft__fft_axis(weft_array *x, int64_t axis, bool inverse, double scale);
/* float32 or float64 (..., N, ...) -> complex64 (..., N / 2 + 1, ...) */
weft_array *weft__rfft_axis(weft_array *x, int64_t axis, double scale);
/* complex64 (..., n / 2 + 1, ...) -> float32 (..., n, ...), e^{+i...} */
weft_array *weft__irfft_axis(weft_array *x, int64_t axis, int64_t n, double scale);

#endif
