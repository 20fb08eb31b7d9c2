/* ops/reduce/extremes.h -- which of two elements max, min, argmax and argmin take. */
#ifndef OPS_REDUCE_EXTREMES_H
#define OPS_REDUCE_EXTREMES_H

#include "ops/reduce/reduce.h"

/* Whether element a of t replaces b, which came first: a is larger (or smaller), or it is NaN and b
 * is not. */
bool weft__beats(const weft_tensor *t, int64_t a, int64_t b, bool largest);

#endif
