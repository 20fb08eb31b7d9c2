/* weft/shape.h -- changing the shape of an array and the order of its elements.
 *
 * Dtypes: results have x's dtype; functions of several arrays promote them. Where possible, the
 * result is a view that shares x's memory. Common rules: ops.h.
 */
#ifndef WEFT_SHAPE_H
#define WEFT_SHAPE_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x in `shape`, in row-major order. One dim may be -1: it is computed from the number of elements.
 */
WEFT_API weft_array *weft_reshape(weft_array *x, weft_dims shape);
/* Joins the axes from from_axis to to_axis, both included, to one. */
WEFT_API weft_array *weft_flatten(weft_array *x, int from_axis, int to_axis);
/* Splits an axis into the axes of `shape`, whose product is its length; one dim may be -1. */
WEFT_API weft_array *weft_unflatten(weft_array *x, int axis, weft_dims shape);
/* Axis i of the result is axis axes.at[i] of x. WEFT_ALL_AXES reverses the order of all axes.
 * Otherwise each axis must be named exactly once. */
WEFT_API weft_array *weft_transpose(weft_array *x, weft_dims axes);
/* x with two axes exchanged, and x with axis `from` at position `to`. */
WEFT_API weft_array *weft_swapaxes(weft_array *x, int axis_a, int axis_b);
WEFT_API weft_array *weft_moveaxis(weft_array *x, int from, int to);
/* x with the order of its elements reversed along the axes; WEFT_ALL_AXES: along all. A view. */
WEFT_API weft_array *weft_flip(weft_array *x, weft_dims axes);
/* x with new axes of length 1 at these axes of the result. */
WEFT_API weft_array *weft_expand_dims(weft_array *x, int axis);
WEFT_API weft_array *weft_expand_dims_axes(weft_array *x, weft_dims axes);
/* x without these axes, which have length 1; WEFT_ALL_AXES removes every axis of length 1. */
WEFT_API weft_array *weft_squeeze(weft_array *x, int axis);
WEFT_API weft_array *weft_squeeze_axes(weft_array *x, weft_dims axes);
/* x with at least 1, 2 or 3 axes: new axes of length 1 are added in front. weft_atleast_3d makes
 * (N) to (1, N, 1) and (M, N) to (M, N, 1). */
WEFT_API weft_array *weft_atleast_1d(weft_array *x);
WEFT_API weft_array *weft_atleast_2d(weft_array *x);
WEFT_API weft_array *weft_atleast_3d(weft_array *x);
/* x broadcast to `shape`. A view. */
WEFT_API weft_array *weft_broadcast_to(weft_array *x, weft_dims shape);
/* Sets out[i], i < n, to arrays[i] broadcast to the common shape. If there is none, all are the
 * same error array. */
WEFT_API void weft_broadcast_arrays(weft_array *const *arrays, int n, weft_array **out);
/* The array of `shape` with out[i] = x.flat[offset + sum of i[d] * strides[d]], x.flat being x's
 * elements in row-major order. Elements may be used several times: their gradients are added. */
WEFT_API weft_array *weft_as_strided(weft_array *x, weft_dims shape, weft_dims strides,
                                     int64_t offset);
/* The bytes of x as elements of another dtype. Where the sizes of the dtypes differ, the length of
 * the last axis changes accordingly. As bool, bytes other than 0 are true. There is a gradient only
 * if `dtype` is x's. */
WEFT_API weft_array *weft_view(weft_array *x, weft_dtype dtype);
/* A copy of x with memory of its own. */
WEFT_API weft_array *weft_copy(weft_array *x);
/* The number of elements of x along the axes, or with `inverted` its reciprocal; 0-d, of `dtype`.
 */
WEFT_API weft_array *weft_number_of_elements(weft_array *x, weft_dims axes, bool inverted,
                                             weft_dtype dtype);
/* x[start:stop:step] on every axis of `axes`; starts, stops and steps are in the same order.
 * steps.n = 0: all steps are 1. As in Python, negative starts and stops count from the end, and
 * those out of range are clipped. weft_slice_axis slices one axis with step 1. */
WEFT_API weft_array *weft_slice(weft_array *x, weft_dims axes, weft_dims starts, weft_dims stops,
                                weft_dims steps);
WEFT_API weft_array *weft_slice_axis(weft_array *x, int axis, int64_t start, int64_t stop);
/* The window of `sizes` on `axes` that begins at `start`, an integer array (axes.n). A start is
 * clipped so that the window fits. */
WEFT_API weft_array *weft_dynamic_slice(weft_array *x, weft_array *start, weft_dims axes,
                                        weft_dims sizes);
/* x with the window at `start` on `axes` replaced by `update` (which has x's rank). */
WEFT_API weft_array *weft_slice_update(weft_array *x, weft_array *update, weft_array *start,
                                       weft_dims axes);
/* x with x[start:stop:step] on `axes` (as in weft_slice) replaced by `update`, which is broadcast
 * to its shape. The others add or multiply, or take the larger or smaller element. */
WEFT_API weft_array *weft_slice_update_static(weft_array *x, weft_array *update, weft_dims axes,
                                              weft_dims starts, weft_dims stops, weft_dims steps);
WEFT_API weft_array *weft_slice_update_add(weft_array *x, weft_array *update, weft_dims axes,
                                           weft_dims starts, weft_dims stops, weft_dims steps);
WEFT_API weft_array *weft_slice_update_prod(weft_array *x, weft_array *update, weft_dims axes,
                                            weft_dims starts, weft_dims stops, weft_dims steps);
WEFT_API weft_array *weft_slice_update_max(weft_array *x, weft_array *update, weft_dims axes,
                                           weft_dims starts, weft_dims stops, weft_dims steps);
WEFT_API weft_array *weft_slice_update_min(weft_array *x, weft_array *update, weft_dims axes,
                                           weft_dims starts, weft_dims stops, weft_dims steps);
/* The arrays joined along an existing axis, and stacked along a new one. Their other dims are
 * equal; n is at least 1. Arrays of length 0 along the axis are allowed. */
WEFT_API weft_array *weft_concatenate(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_stack(weft_array *const *arrays, int n, int axis);
/* Sets out[i], i < sections, to the parts of equal length along the axis. `sections` must divide
 * the length of the axis. */
WEFT_API void weft_split(weft_array *x, int sections, int axis, weft_array **out);
/* Sets out[i], i <= at.n, to the slices [: at[0]], [at[0] : at[1]], ..., [at[n - 1] :] along the
 * axis, as in Python. */
WEFT_API void weft_split_at(weft_array *x, weft_dims at, int axis, weft_array **out);
/* Sets out[i] to x[..., i, ...] without the axis. Its length must be n. */
WEFT_API void weft_unstack(weft_array *x, int axis, weft_array **out, int n);
/* x with every element repeated `repeats` times in a row along the axis. */
WEFT_API weft_array *weft_repeat(weft_array *x, int64_t repeats, int axis);
/* x repeated reps[d] times along axis d. The shorter of x's shape and reps is padded in front with
 * ones. */
WEFT_API weft_array *weft_tile(weft_array *x, weft_dims reps);
/* x with elements shifted by shifts[i], or by one shift for all, along axes[i], wrapping around.
 * WEFT_ALL_AXES: x is shifted by the sum of the shifts as if it were flattened. */
WEFT_API weft_array *weft_roll(weft_array *x, weft_dims shifts, weft_dims axes);
/* x[i + 1] - x[i] along the axis, applied n times; for bool, whether they differ. `prepend` and
 * `append` (NULL: none) are joined to x first; they are broadcast to x's shape on the other axes.
 */
WEFT_API weft_array *weft_diff(weft_array *x, int n, int axis, weft_array *prepend,
                               weft_array *append);
/* x with `before` and `after` elements of this value added to both ends of an axis. */
WEFT_API weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value);
/* The elements of the padding, for x = a b c: */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT,  /* v v | a b c | v v */
    WEFT_PAD_EDGE,      /* a a | a b c | c c */
    WEFT_PAD_REFLECT,   /* c b | a b c | b a; the ends once */
    WEFT_PAD_SYMMETRIC, /* b a | a b c | c b; the ends twice */
    WEFT_PAD_WRAP       /* b c | a b c | a b */
} weft_pad_mode;
/* x with before[i] and after[i] elements added to axes[i]. `value` is used by WEFT_PAD_CONSTANT
 * only. Padding may be longer than the axis. An axis of length 0 can be padded with constants only.
 */
WEFT_API weft_array *weft_pad_axes(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                                   weft_pad_mode mode, double value);
/* The same with a constant that is an array (0-d) and gets a gradient. */
WEFT_API weft_array *weft_pad_with(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                                   weft_array *value);
/* x, row-major in memory; x itself if it is so already. */
WEFT_API weft_array *weft_contiguous(weft_array *x);

#ifdef __cplusplus
}
#endif
#endif
