/* weft/random.h -- random arrays from explicit keys: the Threefry 2x32 counter generator.
 *
 * The same key gives the same numbers on every device and for any number of threads. The random
 * bits are those of JAX (jax_threefry_partitionable=False) and MLX. A NULL key uses the calling
 * thread's default generator, which weft_random_seed seeds; its seed is 0 at first.
 *
 * Shapes and dtypes: results have the shape and dtype that are passed. Parameters that are arrays
 * are broadcast to the shape. Common rules: ops.h.
 */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The key of a seed: uint32 (2), high word and low word. */
WEFT_API weft_array *weft_random_key(uint64_t seed);
/* Seeds the default generator of the calling thread. */
WEFT_API void weft_random_seed(uint64_t seed);
/* n new keys from one: uint32 (n, 2). */
WEFT_API weft_array *weft_random_split(weft_array *key, int64_t n);
/* Sets *first and *second to two new keys: uint32 (2) each. */
WEFT_API void weft_random_split_pair(weft_array *key, weft_array **first, weft_array **second)
    WEFT_NONNULL(2, 3);
/* A fresh key of the default generator: uint32 (2). */
WEFT_API weft_array *weft_random_next_key(void);

/* Random bits; width is 1, 2 or 4 bytes: uint8, uint16 or uint32. Keys (..., 2) give (..., shape):
 * each key fills one array of `shape`. */
WEFT_API weft_array *weft_random_bits(weft_array *key, weft_dims shape, int width);
/* The uniform distribution over [low, high), or low where they are equal; and the normal
 * distribution. */
WEFT_API weft_array *weft_random_uniform(weft_array *key, weft_dims shape, double low, double high,
                                         weft_dtype dtype);
WEFT_API weft_array *weft_random_normal(weft_array *key, weft_dims shape, double mean, double std,
                                        weft_dtype dtype);
/* bool of `shape`, true with probability p. */
WEFT_API weft_array *weft_random_bernoulli(weft_array *key, weft_dims shape, double p);

/* The same with parameters that are arrays. mean NULL is 0 and std NULL is 1. */
WEFT_API weft_array *weft_random_uniform_array(weft_array *key, weft_dims shape, weft_array *low,
                                               weft_array *high, weft_dtype dtype);
WEFT_API weft_array *weft_random_normal_array(weft_array *key, weft_dims shape, weft_array *mean,
                                              weft_array *std, weft_dtype dtype);
WEFT_API weft_array *weft_random_bernoulli_array(weft_array *key, weft_dims shape, weft_array *p);

/* The standard normal distribution between two bounds, by its inverse distribution function. If
 * both bounds are beyond 5 on the same side, float32 has few distinct values there. */
WEFT_API weft_array *weft_random_truncated_normal(weft_array *key, weft_dims shape, double lower,
                                                  double upper, weft_dtype dtype);
WEFT_API weft_array *weft_random_truncated_normal_array(weft_array *key, weft_dims shape,
                                                        weft_array *lower, weft_array *upper,
                                                        weft_dtype dtype);
/* The standard Gumbel distribution, -log(-log(u)), and the Laplace distribution. */
WEFT_API weft_array *weft_random_gumbel(weft_array *key, weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_random_laplace(weft_array *key, weft_dims shape, double mean,
                                         double scale, weft_dtype dtype);

/* How the factor F of the covariance F F^T is computed: the symmetric root by SVD (as in MLX) or
 * by eigenvalues, or the Cholesky factor (as in JAX). Cholesky fails if the covariance is singular.
 * The covariance must be positive semi-definite. SVD does not check this, and the eigenvalue method
 * sets negative eigenvalues to 0. */
typedef enum weft_normal_method {
    WEFT_NORMAL_SVD = 0,
    WEFT_NORMAL_EIGH,
    WEFT_NORMAL_CHOLESKY
} weft_normal_method;
/* The multivariate normal distribution, mean + F z with z standard normal: mean (..., N) and
 * covariance (..., N, N), whose batch axes are broadcast to `shape` -> (shape..., N). A scalar
 * shape is that of the batch axes. */
WEFT_API weft_array *weft_random_multivariate_normal(weft_array *key, weft_dims shape,
                                                     weft_array *mean, weft_array *covariance,
                                                     weft_normal_method method, weft_dtype dtype);

/* Integers in [low, high), from two random words per element as in JAX: exact for any range, with
 * negligible bias. The array form gives low where high is not above it. Bool: low and high from 0
 * to 2. */
WEFT_API weft_array *weft_random_randint(weft_array *key, weft_dims shape, int64_t low,
                                         int64_t high, weft_dtype dtype);
WEFT_API weft_array *weft_random_randint_array(weft_array *key, weft_dims shape, weft_array *low,
                                               weft_array *high, weft_dtype dtype);

/* The numbers 0 ... n - 1 in random order: uint32 (n); and x with its slices along the axis in
 * random order. */
WEFT_API weft_array *weft_random_permutation(weft_array *key, int64_t n);
WEFT_API weft_array *weft_random_permute(weft_array *key, weft_array *x, int axis);

/* Indices drawn from softmax(logits) along the axis: uint32. The shape is that of the logits
 * without the axis; with _n it has a last axis of n draws; with _shape it is `shape`, to which the
 * logits without the axis are broadcast. With a key (B, 2) each row of logits (B, V) has the draw
 * that its key gives for logits (1, V). */
WEFT_API weft_array *weft_random_categorical(weft_array *key, weft_array *logits, int axis);
WEFT_API weft_array *weft_random_categorical_n(weft_array *key, weft_array *logits, int axis,
                                               int64_t n);
WEFT_API weft_array *weft_random_categorical_shape(weft_array *key, weft_array *logits, int axis,
                                                   weft_dims shape);

#ifdef __cplusplus
}
#endif
#endif
