/* weft/reduce.h -- reductions, scans, sorting.
 *
 * Axes of reductions may be WEFT_ALL_AXES. complex64 is ordered by real parts, then by imaginary
 * parts; it is NaN if one of its parts is, and NaN sorts last and wins as maximum and minimum.
 * logsumexp and logcumsumexp of complex64 are principal logarithms. Common rules: ops.h.
 */
#ifndef WEFT_REDUCE_H
#define WEFT_REDUCE_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As the axis of argmax, argmin, the scans, the sorts and partitions: all elements in row-major
 * order, as one axis. */
enum { WEFT_FLATTENED = -2147483647 - 1 };

/* ---- Reductions ----------------------------------------------------------------------------- */

/* sum and prod of bool and integers up to 32 bits are int32 or uint32; accumulation in at least
 * float32. mean of integers is float32. prod has all derivatives where there are zeros too; equal
 * maxima or minima share the gradient. all and any refuse complex64. */
WEFT_API weft_array *weft_sum(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_mean(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_prod(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_max(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_min(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_all(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_any(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_logsumexp(weft_array *x, weft_dims axes, bool keepdims);
/* How many elements are not 0: int32. */
WEFT_API weft_array *weft_count_nonzero(weft_array *x, weft_dims axes, bool keepdims);
/* The sum of squared deviations from the mean over n - ddof, in two passes, and its root (with
 * derivative 0 where that is 0). Integers as float32. complex64: the mean of
 * |x - mean|^2, in float32. */
WEFT_API weft_array *weft_var(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof);
WEFT_API weft_array *weft_std(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof);
/* The middle element, or halfway between the two in the middle; NaN if there is one, or for no
 * elements. Integers as float32. */
WEFT_API weft_array *weft_median(weft_array *x, weft_dims axes, bool keepdims);
/* Sums of the diagonals x[..., i, i + offset, ...] of two axes; the dtype is that of weft_sum, or
 * the one to which the diagonal is converted first. */
WEFT_API weft_array *weft_trace(weft_array *x, int64_t offset, int axis_a, int axis_b);
WEFT_API weft_array *weft_trace_as(weft_array *x, int64_t offset, int axis_a, int axis_b,
                                   weft_dtype dtype);
/* Whether shapes and all elements are equal (with equal_nan NaN equals NaN): bool, 0-d. */
WEFT_API weft_array *weft_array_equal(weft_array *a, weft_array *b, bool equal_nan);
/* Whether |a - b| <= atol + rtol |b| everywhere, after broadcasting, infinities being close only to
 * themselves: bool, 0-d. Computed in at least float32. */
WEFT_API weft_array *weft_allclose(weft_array *a, weft_array *b, double rtol, double atol,
                                   bool equal_nan);
WEFT_API weft_array *weft_argmax(weft_array *x, int axis, bool keepdims); /* uint32; first wins */
WEFT_API weft_array *weft_argmin(weft_array *x, int axis, bool keepdims);
/* Computed in at least float32 and rounded once, whatever the dtype: always what MLX calls
 * precise. */
WEFT_API weft_array *weft_softmax(weft_array *x, int axis);
/* Over several axes together. */
WEFT_API weft_array *weft_softmax_axes(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_log_softmax(weft_array *x, int axis);

/* ---- Scans ---------------------------------------------------------------------------------- */

/* Results of the elements up to each one along the axis: from the end if `reverse`, without the
 * element itself unless `inclusive` (the first result is then 0, 1, -infinity or the lowest value,
 * infinity or the highest, -infinity). Shape of x. cumsum and cumprod of bool are int32, other
 * dtypes stay; 16-bit floats are accumulated in more and rounded once; NaN wins; logcumsumexp takes
 * integers as float32. All have derivatives everywhere, cumprod at zeros too; of equal maxima the
 * first in the direction of the scan has it. */
WEFT_API weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cumprod(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cummax(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cummin(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_logcumsumexp(weft_array *x, int axis, bool reverse, bool inclusive);
/* x is converted to `dtype` first. */
WEFT_API weft_array *weft_cumsum_as(weft_array *x, int axis, bool reverse, bool inclusive,
                                    weft_dtype dtype);
WEFT_API weft_array *weft_cumprod_as(weft_array *x, int axis, bool reverse, bool inclusive,
                                     weft_dtype dtype);
/* The linear recurrence h_k = a_k h_{k-1} + b_k along the axis, begun with 0 (from the end if
 * `reverse`). a and b: one floating dtype and shape, which is the result's. */
WEFT_API weft_array *weft_linear_scan(weft_array *a, weft_array *b, int axis, bool reverse);

/* ---- Sorting -------------------------------------------------------------------------------- */

WEFT_API weft_array *weft_sort(weft_array *x, int axis);    /* ascending, stable, NaN last */
WEFT_API weft_array *weft_argsort(weft_array *x, int axis); /* uint32 */
/* The k largest along the axis, descending; and where they are: uint32. */
WEFT_API weft_array *weft_topk(weft_array *x, int64_t k, int axis);
WEFT_API weft_array *weft_argtopk(weft_array *x, int64_t k, int axis);
/* Element kth (negative: from the end) of the sorted axis in its place, those that sort before it
 * in front of it, the others behind, all else in the order of x; and the places: uint32. */
WEFT_API weft_array *weft_partition(weft_array *x, int64_t kth, int axis);
WEFT_API weft_array *weft_argpartition(weft_array *x, int64_t kth, int axis);
/* Where the values would have to be inserted in an ascending row (NaN last) to keep it so: in
 * front of equal elements, or with `right` behind them. sorted (N) with values of any shape, or
 * sorted (..., N) with values (..., M): uint32 in the shape of the values. */
WEFT_API weft_array *weft_searchsorted(weft_array *sorted, weft_array *values, bool right);

#ifdef __cplusplus
}
#endif
#endif
