/* ops/random/random.h -- functions shared by the distributions. */
#ifndef OPS_RANDOM_RANDOM_H
#define OPS_RANDOM_RANDOM_H

#include "ops/common.h"
#include "weft/random.h"

/* Returns NULL, or an error array if the dtype is not a real float. */
weft_array *weft__random_check(const char *op, weft_dtype dtype);

/* As weft_random_split_pair, on the host: the key becomes the first of the two, `given` the second.
 */
void weft__random_next(uint32_t key[2], uint32_t given[2]);

/* Uniform in (-1, 1), in float32 or float64. */
weft_array *weft__random_signed_unit(weft_array *key, weft_dims shape, weft_dtype dtype);

#endif
