/* weft/conv.h -- convolutions, sliding windows and pooling, channels last.
 *
 * Inputs are (N, spatial..., C) with one to three spatial axes, weights (O, kernel..., C / groups),
 * results (N, out..., O) in the common dtype. Integers wrap, bool is converted to float32, and
 * complex64 is computed as real convolutions. Common rules: ops.h.
 */
#ifndef WEFT_CONV_H
#define WEFT_CONV_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list has one number per spatial axis, or one for all axes; empty: the default. */
typedef struct weft_conv_options {
    weft_dims stride;            /* default 1 */
    weft_dims pad_low, pad_high; /* zeros around x, default 0; negative: crop x */
    weft_dims kernel_dilation;   /* spacing of kernel elements, default 1 */
    weft_dims input_dilation;    /* spacing of x's elements, with zeros between; default 1 */
    int64_t groups;              /* 0: 1; each group of channels has its own outputs */
    bool flip;                   /* flip the kernel: convolution as in signal processing */
} weft_conv_options;

/* y[n, o, f] = sum over j and c of x[n, o stride + j kernel_dilation - pad_low, c] weight[f, j, c],
 * where x is dilated and zero outside. NULL options are the defaults. */
WEFT_API weft_array *weft_conv_general(weft_array *x, weft_array *weight,
                                       const weft_conv_options *options);
/* The same with equal padding on both sides. */
WEFT_API weft_array *weft_conv1d(weft_array *x, weft_array *weight, int64_t stride, int64_t padding,
                                 int64_t dilation, int64_t groups);
WEFT_API weft_array *weft_conv2d(weft_array *x, weft_array *weight, weft_dims stride,
                                 weft_dims padding, weft_dims dilation, int64_t groups);
WEFT_API weft_array *weft_conv3d(weft_array *x, weft_array *weight, weft_dims stride,
                                 weft_dims padding, weft_dims dilation, int64_t groups);

/* Transposed convolutions: each spatial axis of length L becomes
 * (L - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding, with the output padding
 * at the end. Weights are (O, kernel..., C / groups) as above. */
WEFT_API weft_array *weft_conv_transpose1d(weft_array *x, weft_array *weight, int64_t stride,
                                           int64_t padding, int64_t dilation,
                                           int64_t output_padding, int64_t groups);
WEFT_API weft_array *weft_conv_transpose2d(weft_array *x, weft_array *weight, weft_dims stride,
                                           weft_dims padding, weft_dims dilation,
                                           weft_dims output_padding, int64_t groups);
WEFT_API weft_array *weft_conv_transpose3d(weft_array *x, weft_array *weight, weft_dims stride,
                                           weft_dims padding, weft_dims dilation,
                                           weft_dims output_padding, int64_t groups);

typedef enum weft_convolve_mode {
    WEFT_CONVOLVE_FULL, /* length m + n - 1: every overlap */
    WEFT_CONVOLVE_SAME, /* length max(m, n): the middle of that */
    WEFT_CONVOLVE_VALID /* length max(m, n) - min(m, n) + 1: full overlap */
} weft_convolve_mode;

/* NumPy's convolve of vectors a (m) and v (n), neither empty. */
WEFT_API weft_array *weft_convolve(weft_array *a, weft_array *v, weft_convolve_mode mode);

/* ---- Windows -------------------------------------------------------------------------------- */

/* NumPy's sliding_window_view: windows of the given sizes along the given axes, as new last axes.
 * A row-major x is not copied. */
WEFT_API weft_array *weft_sliding_window_view(weft_array *x, weft_dims window, weft_dims axes);

/* The maximum or mean of each window: x (N, spatial..., C) -> (N, out..., C). A list has one number
 * per spatial axis, or one for all; an empty stride is the window, an empty padding 0. Padding
 * counts as minus infinity for the maximum and as zeros for the mean. Equal maxima share the
 * gradient as in weft_maximum. */
WEFT_API weft_array *weft_max_pool(weft_array *x, weft_dims window, weft_dims stride,
                                   weft_dims padding);
WEFT_API weft_array *weft_avg_pool(weft_array *x, weft_dims window, weft_dims stride,
                                   weft_dims padding);

#ifdef __cplusplus
}
#endif
#endif
