/* weft/reduce.h -- reductions, scans, sorting.
 *
 * Shapes: a reduction removes the axes, or leaves them with length 1 if `keepdims`; axes may be
 * WEFT_ALL_AXES, and an empty list of axes reduces nothing. Scans and sorts keep the shape.
 * Reducing over axes without elements gives the neutral element: 0 for sum, 1 for prod, true for
 * all, false for any, -infinity for logsumexp; mean, var, std and median are NaN; max, min, argmax
 * and argmin have no neutral element and give an error array.
 * complex64 is ordered by the real parts and, where these are equal, by the imaginary parts. A
 * complex number with a NaN part counts as NaN. NaN sorts last and is the maximum and minimum of
 * what it is among. logsumexp and logcumsumexp of complex64 are principal logarithms. Common rules:
 * ops.h.
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

/* sum and prod of bool and of integers of at most 32 bits are int32 or uint32; floats keep their
 * dtype and are accumulated in at least float32. mean of integers is float32. all and any return
 * bool and refuse complex64. The derivatives of prod are exact where elements are 0. Equal maxima
 * or minima share the gradient. */
WEFT_API weft_array *weft_sum(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_mean(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_prod(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_max(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_min(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_all(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_any(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_logsumexp(weft_array *x, weft_dims axes, bool keepdims);
/* The number of elements that are not 0: int32. */
WEFT_API weft_array *weft_count_nonzero(weft_array *x, weft_dims axes, bool keepdims);
/* The variance, sum (x - mean)^2 / (n - ddof), computed in two passes, and its square root, whose
 * derivative is 0 where it is 0. Integers are converted to float32. For complex64 it is the mean of
 * |x - mean|^2, in float32. */
WEFT_API weft_array *weft_var(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof);
WEFT_API weft_array *weft_std(weft_array *x, weft_dims axes, bool keepdims, int64_t ddof);
/* The middle element, or the mean of the two in the middle; NaN if an element is NaN. Integers are
 * converted to float32. */
WEFT_API weft_array *weft_median(weft_array *x, weft_dims axes, bool keepdims);
/* The sum of the diagonal x[..., i, i + offset, ...] of two axes, in the dtype of weft_sum, or in
 * `dtype`, to which the diagonal is converted first. */
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
/* exp(x) / sum(exp(x)) along the axis, in x's dtype: computed in at least float32 and rounded once
 * (MLX's `precise`). */
WEFT_API weft_array *weft_softmax(weft_array *x, int axis);
/* The same over several axes together; and the logarithm of the softmax. */
WEFT_API weft_array *weft_softmax_axes(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_log_softmax(weft_array *x, int axis);

/* ---- Scans ---------------------------------------------------------------------------------- */

/* Scans along the axis: element i of the result is the reduction of the elements up to i, counted
 * from the end if `reverse`, and without element i unless `inclusive`. Without it the first result
 * is the neutral element: 0, 1, the lowest value, the highest value, -infinity. The shape is x's.
 * cumsum and cumprod of bool are int32, other dtypes stay; 16-bit floats are accumulated in float32
 * and rounded once; logcumsumexp converts integers to float32. A NaN makes all later results NaN.
 * The derivatives of cumprod are exact at zeros; of equal maxima or minima the first in the
 * direction of the scan gets the gradient. */
WEFT_API weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cumprod(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cummax(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_cummin(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_logcumsumexp(weft_array *x, int axis, bool reverse, bool inclusive);
/* The same, with x converted to `dtype` first. */
WEFT_API weft_array *weft_cumsum_as(weft_array *x, int axis, bool reverse, bool inclusive,
                                    weft_dtype dtype);
WEFT_API weft_array *weft_cumprod_as(weft_array *x, int axis, bool reverse, bool inclusive,
                                     weft_dtype dtype);
/* The linear recurrence h_k = a_k h_{k-1} + b_k along the axis, starting from h = 0; from the end
 * if `reverse`. a, b and the result have the same shape and float dtype. */
WEFT_API weft_array *weft_linear_scan(weft_array *a, weft_array *b, int axis, bool reverse);

/* ---- Sorting -------------------------------------------------------------------------------- */

WEFT_API weft_array *weft_sort(weft_array *x, int axis);    /* ascending, stable, NaN last */
WEFT_API weft_array *weft_argsort(weft_array *x, int axis); /* uint32 */
/* The k largest elements along the axis, descending, and their indices (uint32). */
WEFT_API weft_array *weft_topk(weft_array *x, int64_t k, int axis);
WEFT_API weft_array *weft_argtopk(weft_array *x, int64_t k, int axis);
/* x with element kth of the sorted axis at index kth (negative: from the end), smaller elements
 * before it and the others after it, otherwise in the order of x; and the indices (uint32). */
WEFT_API weft_array *weft_partition(weft_array *x, int64_t kth, int axis);
WEFT_API weft_array *weft_argpartition(weft_array *x, int64_t kth, int axis);
/* The indices at which values have to be inserted in an ascending array (NaN last) to keep it
 * sorted: before equal elements, or with `right` after them. sorted is (N) with values of any
 * shape, or (..., N) with values (..., M). Returns uint32 in the shape of values. */
WEFT_API weft_array *weft_searchsorted(weft_array *sorted, weft_array *values, bool right);

#ifdef __cplusplus
}
#endif
#endif
