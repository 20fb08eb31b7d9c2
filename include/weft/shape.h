/* weft/shape.h -- the same elements in another shape or order.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_SHAPE_H
#define WEFT_SHAPE_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_array *weft_reshape(weft_array *x, weft_dims shape); /* one dim may be -1 */
WEFT_API weft_array *weft_flatten(weft_array *x, int from_axis, int to_axis);
WEFT_API weft_array *weft_transpose(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_swapaxes(weft_array *x, int axis_a, int axis_b);
WEFT_API weft_array *weft_expand_dims(weft_array *x, int axis);
WEFT_API weft_array *weft_squeeze(weft_array *x, int axis);
WEFT_API weft_array *weft_broadcast_to(weft_array *x, weft_dims shape);
/* x[start:stop:step] on every axis listed in `axes` (with starts, stops, steps in the same order;
 * steps.n == 0: ones). Negative starts and stops count from the end; out-of-range ones clip. */
WEFT_API weft_array *weft_slice(weft_array *x, weft_dims axes, weft_dims starts, weft_dims stops,
                                weft_dims steps);
WEFT_API weft_array *weft_slice_axis(weft_array *x, int axis, int64_t start, int64_t stop);
/* The window of `sizes` on `axes` that begins at the integer array start (axes.n,); a start is
 * clipped so that the window fits. */
WEFT_API weft_array *weft_dynamic_slice(weft_array *x, weft_array *start, weft_dims axes,
                                        weft_dims sizes);
/* x with the window at `start` on `axes` replaced by `update` (which has x's rank). */
WEFT_API weft_array *weft_slice_update(weft_array *x, weft_array *update, weft_array *start,
                                       weft_dims axes);
WEFT_API weft_array *weft_concatenate(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_stack(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value);
/* Row-major in memory; x itself when it is already. */
WEFT_API weft_array *weft_contiguous(weft_array *x);

#ifdef __cplusplus
}
#endif
#endif
