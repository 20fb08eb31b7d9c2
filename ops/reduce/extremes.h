/* ops/reduce/extremes.h -- which of two elements max, min, argmax and argmin take. */
#ifndef OPS_REDUCE_EXTREMES_H
#define OPS_REDUCE_EXTREMES_H

#include "ops/reduce/reduce.h"

/* Whether element a of t is taken rather than b, which came first: larger (or smaller), or NaN
 * where b is none. */
bool weft__beats(const weft_tensor *t, int64_t a, int64_t b, bool largest);

#endif
