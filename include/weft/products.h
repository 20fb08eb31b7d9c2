/* weft/products.h -- products of matrices.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_PRODUCTS_H
#define WEFT_PRODUCTS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a (..., M, K) b (..., K, N) -> (..., M, N); 1-d operands as NumPy's matmul. float32
 * accumulation for 16-bit floats. */
WEFT_API weft_array *weft_matmul(weft_array *a, weft_array *b);
/* x (..., E) weight (F, E) [bias (F)] -> (..., F) in x's dtype: x weight^T + bias. The weight may
 * have another float dtype; it is converted on load. bias may be NULL. */
WEFT_API weft_array *weft_linear(weft_array *x, weft_array *weight, weft_array *bias);

#ifdef __cplusplus
}
#endif
#endif
