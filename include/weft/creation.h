/* weft/creation.h -- arrays from numbers.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_CREATION_H
#define WEFT_CREATION_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_array *weft_zeros(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_ones(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_full(weft_dims shape, double value, weft_dtype dtype);
WEFT_API weft_array *weft_full_complex(weft_dims shape, double re, double im); /* complex64 */
/* `value`, converted and broadcast to `shape`. */
WEFT_API weft_array *weft_full_array(weft_dims shape, weft_array *value, weft_dtype dtype);
WEFT_API weft_array *weft_zeros_like(weft_array *x);
WEFT_API weft_array *weft_ones_like(weft_array *x);
WEFT_API weft_array *weft_full_like(weft_array *x, double value);

/* start, start + step, ... below (above, for a negative step) stop: start + i step, computed in
 * double. arange_int is exact for all of int64; its numbers convert to `dtype`. */
WEFT_API weft_array *weft_arange(double start, double stop, double step, weft_dtype dtype);
WEFT_API weft_array *weft_arange_int(int64_t start, int64_t stop, int64_t step, weft_dtype dtype);
/* `num` numbers from start to stop, the last one stop itself; without endpoint stop would be the
 * next. Integer dtypes truncate. */
WEFT_API weft_array *weft_linspace(double start, double stop, int64_t num, bool endpoint,
                                   weft_dtype dtype);

/* (rows, columns): 1 where column = row + k, else 0; identity: square, k = 0. */
WEFT_API weft_array *weft_eye(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype);
WEFT_API weft_array *weft_identity(int64_t n, weft_dtype dtype);
/* (rows, columns): 1 where column <= row + k, else 0. */
WEFT_API weft_array *weft_tri(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype);
/* x (..., M, N) with zeros above (tril) or below (triu) the k-th diagonal. */
WEFT_API weft_array *weft_tril(weft_array *x, int64_t k);
WEFT_API weft_array *weft_triu(weft_array *x, int64_t k);
/* The elements of x whose places on the two axes differ by `offset`, along a new last axis. */
WEFT_API weft_array *weft_diagonal(weft_array *x, int64_t offset, int axis1, int axis2);
/* Of a vector the matrix that has it on the k-th diagonal; of a matrix that diagonal. */
WEFT_API weft_array *weft_diag(weft_array *x, int64_t k);
/* out[0 .. n): arrays[i], flattened, along axis i of an n-dimensional grid; the first two axes
 * exchanged unless matrix_order ("ij"; NumPy's default is "xy"). Sparse: the other axes have
 * length 1. */
WEFT_API void weft_meshgrid(weft_array *const *arrays, int n, bool sparse, bool matrix_order,
                            weft_array **out);

/* Windows of M points, float32, computed in float64; M = 1: a one. hanning: (1 - cos t) / 2,
 * hamming: 0.54 - 0.46 cos t, blackman: 0.42 - 0.5 cos t + 0.08 cos 2t, for t from 0 to 2 pi;
 * bartlett: a triangle with zeros at its ends. */
WEFT_API weft_array *weft_hanning(int64_t M);
WEFT_API weft_array *weft_hamming(int64_t M);
WEFT_API weft_array *weft_blackman(int64_t M);
WEFT_API weft_array *weft_bartlett(int64_t M);

#ifdef __cplusplus
}
#endif
#endif
