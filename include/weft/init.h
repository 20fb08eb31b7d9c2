/* weft/init.h -- initial values of parameters.
 *
 * Each function returns an array of `shape` and of the float dtype `dtype`. A key NULL uses the
 * default random generator. Weights are (out, ..., in): fan_in is the product of all axes but the
 * first, fan_out that of all axes but the last; fewer than two axes give an error array where a fan
 * is used. Distributions are MLX's. Common rules: ops.h.
 */
#ifndef WEFT_INIT_H
#define WEFT_INIT_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_fan { WEFT_FAN_IN = 0, WEFT_FAN_OUT } weft_fan;

/* All elements `value`; the identity matrix; the normal and the uniform distribution. */
WEFT_API weft_array *weft_init_constant(weft_dims shape, double value, weft_dtype dtype);
WEFT_API weft_array *weft_init_identity(weft_dims shape, weft_dtype dtype); /* (N, N) */
WEFT_API weft_array *weft_init_normal(weft_array *key, weft_dims shape, double mean, double std,
                                      weft_dtype dtype);
WEFT_API weft_array *weft_init_uniform(weft_array *key, weft_dims shape, double low, double high,
                                       weft_dtype dtype);
/* Normal, standard deviation gain sqrt(2 / (fan_in + fan_out)). (Glorot & Bengio 2010) */
WEFT_API weft_array *weft_init_glorot_normal(weft_array *key, weft_dims shape, double gain,
                                             weft_dtype dtype);
/* Uniform within +-gain sqrt(6 / (fan_in + fan_out)). */
WEFT_API weft_array *weft_init_glorot_uniform(weft_array *key, weft_dims shape, double gain,
                                              weft_dtype dtype);
/* Normal, standard deviation gain / sqrt(fan). (He et al. 2015) */
WEFT_API weft_array *weft_init_he_normal(weft_array *key, weft_dims shape, weft_fan fan,
                                         double gain, weft_dtype dtype);
/* Uniform within +-gain sqrt(3 / fan). */
WEFT_API weft_array *weft_init_he_uniform(weft_array *key, weft_dims shape, weft_fan fan,
                                          double gain, weft_dtype dtype);
/* A normal matrix with ceil(sparsity * columns) random zeros in every row. */
WEFT_API weft_array *weft_init_sparse(weft_array *key, weft_dims shape, double sparsity,
                                      double mean, double std, weft_dtype dtype);
/* gain times a random matrix with orthonormal rows or, if there are fewer of them, columns. (Saxe
 * et al. 2013) */
WEFT_API weft_array *weft_init_orthogonal(weft_array *key, weft_dims shape, double gain,
                                          weft_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
