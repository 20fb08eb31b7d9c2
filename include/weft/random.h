/* weft/random.h -- random arrays from explicit keys: the Threefry 2x32 counter generator.
 *
 * The same key gives the same numbers on every device and for any number of threads. Words agree
 * with JAX (jax_threefry_partitionable=False) and MLX. A NULL key draws from the calling thread's
 * default generator, which weft_random_seed sets (and which is seeded with 0 at first).
 */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_array *weft_random_key(uint64_t seed); /* uint32 (2): high word, low word */
WEFT_API void weft_random_seed(uint64_t seed);
/* n new keys: uint32 (n, 2). */
WEFT_API weft_array *weft_random_split(weft_array *key, int64_t n);
/* A fresh key of the default generator: uint32 (2). */
WEFT_API weft_array *weft_random_next_key(void);

/* Random words; width is 1, 2 or 4 bytes: uint8, uint16, uint32. Keys (..., 2) give (..., shape):
 * each fills its own. */
WEFT_API weft_array *weft_random_bits(weft_array *key, weft_dims shape, int width);
/* Uniform in [low, high). */
WEFT_API weft_array *weft_random_uniform(weft_array *key, weft_dims shape, double low, double high,
                                         weft_dtype dtype);
WEFT_API weft_array *weft_random_normal(weft_array *key, weft_dims shape, double mean, double std,
                                        weft_dtype dtype);
/* bool, true with probability p. */
WEFT_API weft_array *weft_random_bernoulli(weft_array *key, weft_dims shape, double p);
/* Indices drawn from softmax(logits) along the axis (Gumbel maximum): uint32. */
WEFT_API weft_array *weft_random_categorical(weft_array *key, weft_array *logits, int axis);

#ifdef __cplusplus
}
#endif
#endif
