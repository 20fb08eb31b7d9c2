/* weft/ops.h -- the array operations, in a header for each family.
 *
 * Common rules of these headers:
 *   - Ownership: inputs are borrowed; the result belongs to the innermost scope of the calling
 *     thread. NULL is accepted only where a comment says so.
 *   - Errors: a failed input is returned; NULL, a bad shape or a bad dtype gives an error array.
 *   - Shapes: elementwise functions broadcast their inputs as NumPy does. Axes may be negative:
 *     they count from the end.
 *   - Dtypes: inputs of different dtypes are promoted (weft_promote). Functions of real numbers
 *     convert integers and bool to float32 and compute 16-bit floats in float32.
 *   - Names and semantics are NumPy's where NumPy has the function.
 *
 * Letters in shapes: B batch, L query length, S key length, H heads,
 * Hk key/value heads, D head dim, E model dim, F output features, V vocabulary, R rank.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/conv.h"
#include "weft/creation.h"
#include "weft/elementwise.h"
#include "weft/fft.h"
#include "weft/indexing.h"
#include "weft/linalg.h"
#include "weft/neural.h"
#include "weft/products.h"
#include "weft/quantize.h"
#include "weft/reduce.h"
#include "weft/shape.h"

#endif
