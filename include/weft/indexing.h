/* weft/indexing.h -- elements at places that an array of integers says.
 *
 * An index that is out of range fails the evaluation. Common rules: ops.h.
 */
#ifndef WEFT_INDEXING_H
#define WEFT_INDEXING_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x with `axis` replaced by the shape of `indices` (integers; negative count from the end). */
WEFT_API weft_array *weft_take(weft_array *x, weft_array *indices, int axis);
/* out[..., i, ...] = x[..., indices[..., i, ...], ...]; equal shapes off the axis. */
WEFT_API weft_array *weft_take_along_axis(weft_array *x, weft_array *indices, int axis);
/* x plus values at indices along the axis; repeated indices add up, in index order. */
WEFT_API weft_array *weft_scatter_add_along_axis(weft_array *x, weft_array *indices,
                                                 weft_array *values, int axis);
/* Rows of table (V, E) at ids (...): (..., E). */
WEFT_API weft_array *weft_embedding(weft_array *table, weft_array *ids);

#ifdef __cplusplus
}
#endif
#endif
