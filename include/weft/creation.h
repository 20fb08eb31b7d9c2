/* weft/creation.h -- arrays from numbers.
 *
 * Dtypes: results have the dtype that is passed, or else that of the input. Common rules: ops.h.
 */
#ifndef WEFT_CREATION_H
#define WEFT_CREATION_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of `shape` with all elements 0, 1 or `value`, converted to `dtype`. */
WEFT_API weft_array *weft_zeros(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_ones(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_full(weft_dims shape, double value, weft_dtype dtype);
/* A complex64 array of `shape` with all elements re + i im. */
WEFT_API weft_array *weft_full_complex(weft_dims shape, double re, double im);
/* `value` converted to `dtype` and broadcast to `shape`. */
WEFT_API weft_array *weft_full_array(weft_dims shape, weft_array *value, weft_dtype dtype);
/* An array of x's shape and dtype with all elements 0, 1 or `value`. */
WEFT_API weft_array *weft_zeros_like(weft_array *x);
WEFT_API weft_array *weft_ones_like(weft_array *x);
WEFT_API weft_array *weft_full_like(weft_array *x, double value);

/* The vector of start + i step, i = 0, 1, ..., up to but without `stop`; the step may be negative.
 * weft_arange computes in double, weft_arange_int exactly in int64; both convert to `dtype`. */
WEFT_API weft_array *weft_arange(double start, double stop, double step, weft_dtype dtype);
WEFT_API weft_array *weft_arange_int(int64_t start, int64_t stop, int64_t step, weft_dtype dtype);
/* The vector of `num` evenly spaced numbers from start to stop. With `endpoint` the last one is
 * stop; without it, stop would be the number after the last. Integer dtypes truncate. */
WEFT_API weft_array *weft_linspace(double start, double stop, int64_t num, bool endpoint,
                                   weft_dtype dtype);

/* The matrix (rows, columns) with 1 where column = row + k, else 0. weft_identity is (n, n), k = 0.
 */
WEFT_API weft_array *weft_eye(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype);
WEFT_API weft_array *weft_identity(int64_t n, weft_dtype dtype);
/* The matrix (rows, columns) with 1 where column <= row + k, else 0. */
WEFT_API weft_array *weft_tri(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype);
/* x (..., M, N) with zeros above (tril) or below (triu) diagonal k. The shape is x's. */
WEFT_API weft_array *weft_tril(weft_array *x, int64_t k);
WEFT_API weft_array *weft_triu(weft_array *x, int64_t k);
/* The diagonal x[..., i, i + offset, ...] of two axes, as a new last axis. */
WEFT_API weft_array *weft_diagonal(weft_array *x, int64_t offset, int axis1, int axis2);
/* For a vector: the square matrix with x on diagonal k and 0 elsewhere. For a matrix: the vector of
 * its diagonal k. */
WEFT_API weft_array *weft_diag(weft_array *x, int64_t k);
/* Sets out[i], i < n, to arrays[i] repeated over an n-dimensional grid whose axis i has the length
 * of arrays[i]. Unless matrix_order is set (NumPy's "ij"), the first two axes are exchanged ("xy",
 * the default of NumPy). With `sparse`, the axes along which out[i] repeats have length 1. Dtypes
 * stay. */
WEFT_API void weft_meshgrid(weft_array *const *arrays, int n, bool sparse, bool matrix_order,
                            weft_array **out);

/* Window functions: a float32 vector of M points, computed in float64; for M = 1 its element is 1.
 * For t from 0 to 2 pi, hanning is (1 - cos t) / 2, hamming 0.54 - 0.46 cos t and blackman
 * 0.42 - 0.5 cos t + 0.08 cos 2t. bartlett is a triangle with zeros at its ends. */
WEFT_API weft_array *weft_hanning(int64_t M);
WEFT_API weft_array *weft_hamming(int64_t M);
WEFT_API weft_array *weft_blackman(int64_t M);
WEFT_API weft_array *weft_bartlett(int64_t M);

#ifdef __cplusplus
}
#endif
#endif
