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
/* One axis as several: `shape` multiplies to its length; one dim may be -1. */
WEFT_API weft_array *weft_unflatten(weft_array *x, int axis, weft_dims shape);
/* Axis i of the result is axis axes.at[i] of x; negative axes count from the last one.
 * WEFT_ALL_AXES reverses the order. An error unless each axis is named once. */
WEFT_API weft_array *weft_transpose(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_swapaxes(weft_array *x, int axis_a, int axis_b);
WEFT_API weft_array *weft_moveaxis(weft_array *x, int from, int to);
WEFT_API weft_array *weft_flip(weft_array *x, weft_dims axes); /* a view; WEFT_ALL_AXES: all */
WEFT_API weft_array *weft_expand_dims(weft_array *x, int axis);
WEFT_API weft_array *weft_expand_dims_axes(weft_array *x, weft_dims axes); /* of the result */
WEFT_API weft_array *weft_squeeze(weft_array *x, int axis);
WEFT_API weft_array *weft_squeeze_axes(weft_array *x, weft_dims axes); /* WEFT_ALL_AXES: all of 1 */
/* At least so many axes, new ones in front; atleast_3d makes (N) to (1, N, 1) and (M, N) to
 * (M, N, 1). */
WEFT_API weft_array *weft_atleast_1d(weft_array *x);
WEFT_API weft_array *weft_atleast_2d(weft_array *x);
WEFT_API weft_array *weft_atleast_3d(weft_array *x);
WEFT_API weft_array *weft_broadcast_to(weft_array *x, weft_dims shape);
/* out[0 .. n): the arrays in their common shape; all the same error array when there is none. */
WEFT_API void weft_broadcast_arrays(weft_array *const *arrays, int n, weft_array **out);
/* out[i] = x.flat[offset + sum of i[d] * strides[d]]: windows that may overlap, in elements of x's
 * row-major order. The gradient adds up where they do. */
WEFT_API weft_array *weft_as_strided(weft_array *x, weft_dims shape, weft_dims strides,
                                     int64_t offset);
/* The same bytes as elements of another dtype; where the sizes differ, the last axis grows or
 * shrinks. As bool, bytes other than 0 are true. No gradient, but for the dtype that x has. */
WEFT_API weft_array *weft_view(weft_array *x, weft_dtype dtype);
WEFT_API weft_array *weft_copy(weft_array *x); /* in memory of its own */
/* How many elements x has along the axes, 0-d; `inverted`: its reciprocal. */
WEFT_API weft_array *weft_number_of_elements(weft_array *x, weft_dims axes, bool inverted,
                                             weft_dtype dtype);
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
/* x with x[start:stop:step] on `axes` (as weft_slice) replaced by `update`, which broadcasts to it;
 * or with it added, multiplied, or the extremes of both. */
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
WEFT_API weft_array *weft_concatenate(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_stack(weft_array *const *arrays, int n, int axis);
/* Fills out[0 .. sections) with equal parts along the axis, whose length they must divide. */
WEFT_API void weft_split(weft_array *x, int sections, int axis, weft_array **out);
/* Fills out[0 .. at.n]: x before at[0], from there to at[1], ..., and from the last on, each cut as
 * Python slices. */
WEFT_API void weft_split_at(weft_array *x, weft_dims at, int axis, weft_array **out);
/* The n slices along an axis of length n, without that axis. */
WEFT_API void weft_unstack(weft_array *x, int axis, weft_array **out, int n);
/* Every element `repeats` times in a row along the axis. */
WEFT_API weft_array *weft_repeat(weft_array *x, int64_t repeats, int axis);
/* x repeated reps[d] times along axis d; the shorter of shape and reps is filled up in front. */
WEFT_API weft_array *weft_tile(weft_array *x, weft_dims reps);
/* Elements moved on by shifts[i] along axes[i], around the end; axes.n == 0: through x.flat. */
WEFT_API weft_array *weft_roll(weft_array *x, weft_dims shifts, weft_dims axes);
/* x[i + 1] - x[i] along the axis, n times (bool: whether they differ), of x with `prepend` before
 * it and `append` after it (NULL: nothing; they broadcast to x's shape off the axis). */
WEFT_API weft_array *weft_diff(weft_array *x, int n, int axis, weft_array *prepend,
                               weft_array *append);
WEFT_API weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value);
/* What padding is made of, for x = a b c: */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT,  /* v v | a b c | v v */
    WEFT_PAD_EDGE,      /* a a | a b c | c c */
    WEFT_PAD_REFLECT,   /* c b | a b c | b a; the ends once */
    WEFT_PAD_SYMMETRIC, /* b a | a b c | c b; the ends twice */
    WEFT_PAD_WRAP       /* b c | a b c | a b */
} weft_pad_mode;
/* before[i] and after[i] elements on axes[i]; `value` is of WEFT_PAD_CONSTANT. Padding may be
 * longer than the axis; an empty axis has only constants to be padded with. */
WEFT_API weft_array *weft_pad_axes(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                                   weft_pad_mode mode, double value);
/* A constant that is an array (0-d) and has a gradient. */
WEFT_API weft_array *weft_pad_with(weft_array *x, weft_dims axes, weft_dims before, weft_dims after,
                                   weft_array *value);
/* Row-major in memory; x itself when it is already. */
WEFT_API weft_array *weft_contiguous(weft_array *x);

#ifdef __cplusplus
}
#endif
#endif
