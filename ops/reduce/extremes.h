/* ops/reduce/extremes.h -- the comparison used by max, min, argmax and argmin. */
#ifndef OPS_REDUCE_EXTREMES_H
#define OPS_REDUCE_EXTREMES_H

#include "ops/reduce/reduce.h"

/* Whether element a of t replaces the earlier element b as the extreme: it is larger (or smaller),
 * or it is NaN and b is not. */
bool weft__replaces_extreme(const weft_tensor *t, int64_t a, int64_t b, bool largest);

#endif
