/* ops/random/random.h -- functions shared by the distributions. */
#ifndef OPS_RANDOM_RANDOM_H
#define OPS_RANDOM_RANDOM_H

#include "ops/common.h"
#include "weft/random.h"

/* Returns NULL, or an error array if the dtype is not a real float. */
weft_array *weft__random_check(const char *op, weft_dtype dtype);

/* Uniform in (-1, 1), in float32 or float64. */
weft_array *weft__random_signed_unit(weft_array *key, weft_dims shape, weft_dtype dtype);

#endif
