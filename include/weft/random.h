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
/* Two new keys: uint32 (2) each. */
WEFT_API void weft_random_split_pair(weft_array *key, weft_array **first, weft_array **second)
    WEFT_NONNULL(2, 3);
/* A fresh key of the default generator: uint32 (2). */
WEFT_API weft_array *weft_random_next_key(void);

/* Random words; width is 1, 2 or 4 bytes: uint8, uint16, uint32. Keys (..., 2) give (..., shape):
 * each fills its own. */
WEFT_API weft_array *weft_random_bits(weft_array *key, weft_dims shape, int width);
/* Uniform in [low, high); low where they are equal. */
WEFT_API weft_array *weft_random_uniform(weft_array *key, weft_dims shape, double low, double high,
                                         weft_dtype dtype);
WEFT_API weft_array *weft_random_normal(weft_array *key, weft_dims shape, double mean, double std,
                                        weft_dtype dtype);
/* bool, true with probability p. */
WEFT_API weft_array *weft_random_bernoulli(weft_array *key, weft_dims shape, double p);

/* The same with parameters that broadcast to `shape`. NULL: mean 0, std 1. */
WEFT_API weft_array *weft_random_uniform_array(weft_array *key, weft_dims shape, weft_array *low,
                                               weft_array *high, weft_dtype dtype);
WEFT_API weft_array *weft_random_normal_array(weft_array *key, weft_dims shape, weft_array *mean,
                                              weft_array *std, weft_dtype dtype);
WEFT_API weft_array *weft_random_bernoulli_array(weft_array *key, weft_dims shape, weft_array *p);

/* The standard normal distribution between two bounds, by its inverse distribution function:
 * where both bounds are beyond 5 on one side float32 has few distinct values left. */
WEFT_API weft_array *weft_random_truncated_normal(weft_array *key, weft_dims shape, double lower,
                                                  double upper, weft_dtype dtype);
WEFT_API weft_array *weft_random_truncated_normal_array(weft_array *key, weft_dims shape,
                                                        weft_array *lower, weft_array *upper,
                                                        weft_dtype dtype);
/* The standard Gumbel distribution: -log(-log(u)). */
WEFT_API weft_array *weft_random_gumbel(weft_array *key, weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_random_laplace(weft_array *key, weft_dims shape, double mean,
                                         double scale, weft_dtype dtype);

/* The multivariate normal distribution of mean (..., N) and covariance (..., N, N), of which the
 * batch axes broadcast: (shape..., N). A scalar shape: that of the batch axes. mean + F z with z
 * standard normal and F F^T = covariance: by svd the symmetric root, as in MLX, or by eigh the
 * same; by cholesky the lower triangle, as JAX's default, which fails where the covariance is
 * singular. By svd a matrix that is not positive semi-definite gives no error and no distribution;
 * by eigh negative eigenvalues count as 0. */
typedef enum weft_normal_method {
    WEFT_NORMAL_SVD = 0,
    WEFT_NORMAL_EIGH,
    WEFT_NORMAL_CHOLESKY
} weft_normal_method;
WEFT_API weft_array *weft_random_multivariate_normal(weft_array *key, weft_dims shape,
                                                     weft_array *mean, weft_array *covariance,
                                                     weft_normal_method method, weft_dtype dtype);

/* Integers in [low, high), from two words an element as in JAX: nearly without bias, and exact
 * whatever the range. The array form gives low where high is not above it. */
WEFT_API weft_array *weft_random_randint(weft_array *key, weft_dims shape, int64_t low,
                                         int64_t high, weft_dtype dtype);
WEFT_API weft_array *weft_random_randint_array(weft_array *key, weft_dims shape, weft_array *low,
                                               weft_array *high, weft_dtype dtype);

/* 0 ... n - 1 in random order: uint32 (n). x with its slices along the axis in random order. */
WEFT_API weft_array *weft_random_permutation(weft_array *key, int64_t n);
WEFT_API weft_array *weft_random_permute(weft_array *key, weft_array *x, int axis);

/* Indices drawn from softmax(logits) along the axis (Gumbel maximum): uint32, in the shape of the
 * logits without the axis; with n of each as a last axis; in a shape to which the logits without
 * the axis broadcast. */
WEFT_API weft_array *weft_random_categorical(weft_array *key, weft_array *logits, int axis);
WEFT_API weft_array *weft_random_categorical_n(weft_array *key, weft_array *logits, int axis,
                                               int64_t n);
WEFT_API weft_array *weft_random_categorical_shape(weft_array *key, weft_array *logits, int axis,
                                                   weft_dims shape);

#ifdef __cplusplus
}
#endif
#endif
