/* weft/conv.h -- convolutions, sliding windows and pooling, channels last.
 *
 * Inputs are (N, spatial..., C) with one to three spatial axes, weights (O, kernel..., C / groups),
 * results (N, out..., O) in the common dtype; integers wrap, bool counts as float32,
 * complex64 is computed as two real ones. Common rules: ops.h.
 */
#ifndef WEFT_CONV_H
#define WEFT_CONV_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists have one number for each spatial axis, or one for all of them, or none: the default. */
typedef struct weft_conv_options {
    weft_dims stride;            /* default 1 */
    weft_dims pad_low, pad_high; /* zeros around x, default 0; negative ones cut x */
    weft_dims kernel_dilation;   /* distance of the kernel's elements, default 1 */
    weft_dims input_dilation;    /* distance that x's elements get, zeros between them; default 1 */
    int64_t groups;              /* 0 is 1: channels that meet only their own part of the outputs */
    bool flip;                   /* the kernel backwards: convolution as in signal processing */
} weft_conv_options;

/* y[n, o, f] = sum over j and c of x[n, o stride + j kernel_dilation - pad_low, c] weight[f, j, c],
 * with x spread and padded. Options NULL: defaults. */
WEFT_API weft_array *weft_conv_general(weft_array *x, weft_array *weight,
                                       const weft_conv_options *options);
/* The same with the same padding on both sides. */
WEFT_API weft_array *weft_conv1d(weft_array *x, weft_array *weight, int64_t stride, int64_t padding,
                                 int64_t dilation, int64_t groups);
WEFT_API weft_array *weft_conv2d(weft_array *x, weft_array *weight, weft_dims stride,
                                 weft_dims padding, weft_dims dilation, int64_t groups);
WEFT_API weft_array *weft_conv3d(weft_array *x, weft_array *weight, weft_dims stride,
                                 weft_dims padding, weft_dims dilation, int64_t groups);

/* The transposed convolution, the shape of a gradient with respect to x: each axis of L becomes
 * (L - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding. Weights are (O, ...,
 * C / groups) as above; output_padding lies at the end. */
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
    WEFT_CONVOLVE_FULL, /* m + n - 1: wherever they overlap */
    WEFT_CONVOLVE_SAME, /* max(m, n): the middle of that */
    WEFT_CONVOLVE_VALID /* max(m, n) - min(m, n) + 1: where they overlap wholly */
} weft_convolve_mode;

/* NumPy's convolve of two vectors that are not empty. */
WEFT_API weft_array *weft_convolve(weft_array *a, weft_array *v, weft_convolve_mode mode);

/* ---- Windows -------------------------------------------------------------------------------- */

/* NumPy's sliding_window_view: the windows of these sizes on these axes, which become the last
 * axes; no element is copied where x is row-major. */
WEFT_API weft_array *weft_sliding_window_view(weft_array *x, weft_dims window, weft_dims axes);

/* The largest, or the mean, of each window: x (N, spatial..., C) -> (N, out..., C). Lists have one
 * number for each spatial axis, or one for all; stride empty: the window; padding empty: 0. Padding
 * is below everything for the largest and counts as zeros for the mean. Where elements are equal
 * the gradient of the largest is divided as weft_maximum does. */
WEFT_API weft_array *weft_max_pool(weft_array *x, weft_dims window, weft_dims stride,
                                   weft_dims padding);
WEFT_API weft_array *weft_avg_pool(weft_array *x, weft_dims window, weft_dims stride,
                                   weft_dims padding);

#ifdef __cplusplus
}
#endif
#endif
