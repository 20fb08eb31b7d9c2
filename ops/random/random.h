/* ops/random/random.h -- what the distributions share. */
#ifndef OPS_RANDOM_RANDOM_H
#define OPS_RANDOM_RANDOM_H

#include "ops/common.h"
#include "weft/random.h"

/* NULL, or an error array: the dtype is not a floating one. */
weft_array *weft__random_check(const char *op, weft_dtype dtype);

/* Uniform in (-1, 1), in float32 or float64. */
weft_array *weft__random_signed_unit(weft_array *key, weft_dims shape, weft_dtype dtype);

#endif
