/* weft/ops.h -- the array operations, in a header for each family.
 *
 * Common rules. Inputs are borrowed; the result is a temporary of the innermost scope; a failed
 * input is returned; a bad shape or dtype makes an error array. Elementwise functions promote
 * dtypes (weft_promote) and broadcast shapes as NumPy does. Axes may be negative. Functions on real
 * numbers take integers as float32 and compute 16-bit floats in float32. Names and semantics are
 * NumPy's where NumPy has the function. Letters: B batch, L query length, S key length, H heads,
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
