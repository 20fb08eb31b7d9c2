/* weft/linalg.h -- linear algebra on matrices.
 *
 * Matrices are the last two axes; leading axes are a batch. Integers count as float32; 16-bit
 * floats are computed in float32 and the results rounded once; float64 and complex64 are computed
 * as they are, except that eig and eigvals always return complex64. Everything has derivatives of
 * any order.
 *
 * A matrix with a NaN or an infinity gives NaN in all its results, without an error. A singular
 * matrix where an inverse is needed, and one that is not positive definite in cholesky, fail the
 * evaluation with a message that names the matrix of the batch. Only an exact zero pivot counts as
 * singular, as in NumPy.
 *
 * Signs. The vectors that svd, eigh and eig return could be multiplied by any number of magnitude
 * 1; here the first of the largest components (to a thousandth) is real and positive: of the
 * columns of U, and of the eigenvectors. So results do not depend on the device. Derivatives of
 * complex vectors hold for functions that do not depend on that factor.
 *
 * Equal values. Single vectors of equal singular values or eigenvalues have no derivative; those
 * terms count as 0, which is right for functions that do not depend on the choice among them, and
 * derivatives grow as 1 / gap near there. Values alone have no such terms.
 *
 * cholesky, eigh and eigvalsh read one triangle and take the other one to be its adjoint; the
 * gradient is that of the triangle that is read, and 0 in the other. Common rules: ops.h.
 */
#ifndef WEFT_LINALG_H
#define WEFT_LINALG_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- norms and products --------------------------------------------------------------------- */

/* The square root of the sum of |x|^2 over any axes, or all: the 2-norm of vectors, the Frobenius
 * norm of matrices. The gradient at 0 is 0. */
WEFT_API weft_array *weft_norm(weft_array *x, weft_dims axes, bool keepdims);
/* Over one axis, the vector norm sum(|x|^p)^(1/p): p may be infinite (largest |x|), minus infinite
 * (smallest), 0 (how many are not 0) and below 1. Over two axes (rows, columns), the matrix norm:
 * 1 and -1 the largest and smallest sum of |x| of a column, +-infinity of a row, 2 and -2 the
 * largest and smallest singular value. */
WEFT_API weft_array *weft_norm_p(weft_array *x, double p, weft_dims axes, bool keepdims);
/* The sum of the singular values; two axes. */
WEFT_API weft_array *weft_norm_nuclear(weft_array *x, weft_dims axes, bool keepdims);
/* Of vectors with three components along the axis. With two, the third is 0; if both have two, only
 * the third component of the product is returned, without the axis. */
WEFT_API weft_array *weft_cross(weft_array *a, weft_array *b, int axis);

/* ---- factorisations ------------------------------------------------------------------------- */

/* a (..., M, N) = q r: q (..., M, K) with orthonormal columns, r (..., K, N) upper triangular,
 * K = min(M, N), or M when `complete`. Signs are LAPACK's. The derivative needs full rank of the
 * first K columns; of the columns that `complete` adds it is right for functions of the space that
 * they span. */
WEFT_API void weft_qr(weft_array *a, bool complete, weft_array **q, weft_array **r)
    WEFT_NONNULL(3, 4);
/* a (..., M, N) = u diag(s) vh with s (..., K) descending, K = min(M, N): u (..., M, K) and
 * vh (..., K, N), or square ones (M, M) and (N, N) when `full` (what MLX returns). */
WEFT_API void weft_svd(weft_array *a, bool full, weft_array **u, weft_array **s, weft_array **vh)
    WEFT_NONNULL(3, 4, 5);
WEFT_API weft_array *weft_svdvals(weft_array *a);
/* The lower triangle L with L L^H = a, or the upper one with U^H U = a. */
WEFT_API weft_array *weft_cholesky(weft_array *a, bool upper);
/* a (..., M, N) = l[p] u with partial pivoting: l (..., M, K) with ones on its diagonal, u
 * (..., K, N), and p (..., M) uint32: row i of a is row p[i] of l u, as in MLX and in
 * scipy.linalg.lu(p_indices=True). a[argsort(p)] = l u. lu_factor: l and u in one (..., M, N), and
 * pivots (..., K) uint32: row i was exchanged with row pivots[i], in this order. */
WEFT_API void weft_lu(weft_array *a, weft_array **p, weft_array **l, weft_array **u)
    WEFT_NONNULL(2, 3, 4);
WEFT_API void weft_lu_factor(weft_array *a, weft_array **packed, weft_array **pivots)
    WEFT_NONNULL(2, 3);

/* ---- eigenvalues ---------------------------------------------------------------------------- */

/* Of Hermitian a (..., N, N): values (..., N) ascending, real; vectors in the columns of
 * (..., N, N), of length 1. The lower triangle is read, or the upper one. */
WEFT_API void weft_eigh(weft_array *a, bool upper, weft_array **values, weft_array **vectors)
    WEFT_NONNULL(3, 4);
WEFT_API weft_array *weft_eigvalsh(weft_array *a, bool upper);
/* Of any a (..., N, N): values and vectors of length 1 in complex64, in ascending order of the real
 * part and then of the imaginary part. The derivative needs distinct values. */
WEFT_API void weft_eig(weft_array *a, weft_array **values, weft_array **vectors) WEFT_NONNULL(2, 3);
WEFT_API weft_array *weft_eigvals(weft_array *a);

/* ---- systems and inverses ------------------------------------------------------------------- */

/* x with a x = b: a (..., N, N), b (..., N, K) or (N); leading axes broadcast. */
WEFT_API weft_array *weft_solve(weft_array *a, weft_array *b);
/* The same with a triangle; the other triangle of a is not looked at. */
WEFT_API weft_array *weft_solve_triangular(weft_array *a, weft_array *b, bool upper);
WEFT_API weft_array *weft_inv(weft_array *a);
WEFT_API weft_array *weft_tri_inv(weft_array *a, bool upper);
/* Moore and Penrose's inverse (..., N, M) of a (..., M, N); singular values up to max(M, N) epsilon
 * times the largest count as 0. */
WEFT_API weft_array *weft_pinv(weft_array *a);
/* The inverse of the matrix whose cholesky factor is l. */
WEFT_API weft_array *weft_cholesky_inv(weft_array *l, bool upper);

/* ---- determinants --------------------------------------------------------------------------- */

/* (..., N, N) -> (...). The derivative needs a regular matrix. */
WEFT_API weft_array *weft_det(weft_array *a);
/* det = sign exp(logarithm); a singular matrix has sign 0 and logarithm -infinity. */
WEFT_API void weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm)
    WEFT_NONNULL(2, 3);

#ifdef __cplusplus
}
#endif
#endif
