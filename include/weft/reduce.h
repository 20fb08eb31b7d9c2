/* weft/reduce.h -- reductions, scans, sorting.
 *
 * Axes of reductions may be WEFT_ALL_AXES. Common rules: ops.h.
 */
#ifndef WEFT_REDUCE_H
#define WEFT_REDUCE_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sum and prod of bool and integers up to 32 bits are int32 or uint32; accumulation in at least
 * float32. mean of integers is float32. */
WEFT_API weft_array *weft_sum(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_mean(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_prod(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_max(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_min(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_all(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_any(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_logsumexp(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_argmax(weft_array *x, int axis, bool keepdims); /* uint32; first wins */
WEFT_API weft_array *weft_argmin(weft_array *x, int axis, bool keepdims);
WEFT_API weft_array *weft_softmax(weft_array *x, int axis);
WEFT_API weft_array *weft_log_softmax(weft_array *x, int axis);
WEFT_API weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_sort(weft_array *x, int axis);    /* ascending, stable, NaN last */
WEFT_API weft_array *weft_argsort(weft_array *x, int axis); /* uint32 */
/* The k largest along the axis, descending. */
WEFT_API weft_array *weft_topk(weft_array *x, int64_t k, int axis);

#ifdef __cplusplus
}
#endif
#endif
