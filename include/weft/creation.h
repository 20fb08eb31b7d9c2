/* weft/creation.h -- arrays from numbers.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_CREATION_H
#define WEFT_CREATION_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_array *weft_zeros(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_ones(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_full(weft_dims shape, double value, weft_dtype dtype);
WEFT_API weft_array *weft_zeros_like(weft_array *x);
WEFT_API weft_array *weft_ones_like(weft_array *x);
/* start, start + step, ... below (above, for a negative step) stop. */
WEFT_API weft_array *weft_arange(double start, double stop, double step, weft_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
