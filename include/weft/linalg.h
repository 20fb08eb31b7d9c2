/* weft/linalg.h -- linear algebra on matrices.
 *
 * Matrices are the last two axes; leading axes are a batch. Integers are converted to float32;
 * 16-bit floats are computed in float32 and rounded once; float64 and complex64 are computed as
 * they are, except that eig and eigvals always return complex64. All functions have derivatives of
 * any order. Common rules: ops.h.
 *
 * Errors. A matrix with a NaN or an infinity gives NaN in all its results. A singular matrix where
 * an inverse is needed, and a matrix that is not positive definite in cholesky, fail the
 * evaluation; the message names the matrix of the batch. As in NumPy, only an exact zero pivot
 * counts as singular.
 *
 * Signs. Singular vectors and eigenvectors are determined only up to a factor of magnitude 1. Weft
 * makes the first of the largest components (within a thousandth) real and positive, in the columns
 * of U and in the eigenvectors, so results do not depend on the device. Derivatives of complex
 * vectors hold for functions that do not depend on that factor.
 *
 * Equal values. Vectors of equal singular values or eigenvalues have no derivative, but functions
 * that do not depend on the choice of vectors do. A gradient contains what the cotangents
 * determine:
 *   - Values alone, such as nuclear norms and log-determinants: always.
 *   - Vectors alone, such as the polar factor u vh and projections: if the function does not depend
 *     on the choice among vectors of equal values, and for u vh if those are not 0. Else NaN.
 *   - Vectors and values, such as u f(s) vh: NaN if the vectors of equal values are used, since
 *     cotangents contain f(b) - f(a), which is 0, but not (f(b) - f(a)) / (b - a).
 * Values are equal if they differ by less than 16 epsilon of the largest. Nearer than the square
 * root of epsilon, the relative error of gradients is epsilon / gap, and derivatives of single
 * vectors grow as 1 / gap. A tangent that mixes vectors of equal values is NaN.
 *
 * Triangles. cholesky, eigh and eigvalsh read one triangle and treat the other as its adjoint. The
 * gradient is that of the triangle they read, and 0 in the other.
 */
#ifndef WEFT_LINALG_H
#define WEFT_LINALG_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- norms and products --------------------------------------------------------------------- */

/* The square root of the sum of |x|^2 over the axes (none: |x|): the 2-norm of vectors, the
 * Frobenius norm of matrices. The gradient at 0 is 0. */
WEFT_API weft_array *weft_norm(weft_array *x, weft_dims axes, bool keepdims);
/* Over one axis, the vector norm sum(|x|^p)^(1/p); p = infinity is the largest |x|, -infinity the
 * smallest, 0 the number of nonzero elements. Over two axes (rows, columns), the matrix norm: p = 1
 * and -1 are the largest and smallest column sum of |x|, +-infinity those of rows, 2 and -2 the
 * largest and smallest singular value. */
WEFT_API weft_array *weft_norm_p(weft_array *x, double p, weft_dims axes, bool keepdims);
/* The nuclear norm, the sum of the singular values, over two axes. */
WEFT_API weft_array *weft_norm_nuclear(weft_array *x, weft_dims axes, bool keepdims);
/* The cross product of vectors with three components along the axis. A missing third component is
 * 0; if both are missing, only the third component of the product is returned, without the axis. */
WEFT_API weft_array *weft_cross(weft_array *a, weft_array *b, int axis);

/* ---- factorizations ------------------------------------------------------------------------- */

/* a (..., M, N) = q r: q (..., M, K) with orthonormal columns, r (..., K, N) upper triangular,
 * K = min(M, N), or M when `complete`. Signs are LAPACK's. The derivative needs full rank of the
 * first K columns. For the columns that `complete` adds it holds for functions of their span. */
WEFT_API void weft_qr(weft_array *a, bool complete, weft_array **q, weft_array **r)
    WEFT_NONNULL(3, 4);
/* a (..., M, N) = u diag(s) vh with s (..., K) descending, K = min(M, N): u (..., M, K) and
 * vh (..., K, N); when `full`, as MLX, u (..., M, M) and vh (..., N, N). svdvals: s alone. */
WEFT_API void weft_svd(weft_array *a, bool full, weft_array **u, weft_array **s, weft_array **vh)
    WEFT_NONNULL(3, 4, 5);
WEFT_API weft_array *weft_svdvals(weft_array *a);
/* The Cholesky factor of a (..., N, N): lower triangular L with L L^H = a, or upper triangular U
 * with U^H U = a. */
WEFT_API weft_array *weft_cholesky(weft_array *a, bool upper);
/* LU factorization with partial pivoting: a (..., M, N) = l[p] u with l (..., M, K), u (..., K, N)
 * and p (..., M) uint32. l has ones on its diagonal. Row i of a is row p[i] of l u, as in MLX and
 * scipy.linalg.lu(p_indices=True). lu_factor packs both into one (..., M, N). Its pivots (..., K)
 * are uint32: in this order, row i was exchanged with row pivots[i]. */
WEFT_API void weft_lu(weft_array *a, weft_array **p, weft_array **l, weft_array **u)
    WEFT_NONNULL(2, 3, 4);
WEFT_API void weft_lu_factor(weft_array *a, weft_array **packed, weft_array **pivots)
    WEFT_NONNULL(2, 3);

/* ---- eigenvalues ---------------------------------------------------------------------------- */

/* Eigenvalues (..., N), real and ascending, and eigenvectors of length 1, the columns of (..., N,
 * N), of a Hermitian a (..., N, N). Reads the upper triangle if `upper`, else the lower. */
WEFT_API void weft_eigh(weft_array *a, bool upper, weft_array **values, weft_array **vectors)
    WEFT_NONNULL(3, 4);
WEFT_API weft_array *weft_eigvalsh(weft_array *a, bool upper);
/* The same for any square a: complex64 values and vectors, ordered by real part, then by imaginary
 * part. The derivative needs distinct values. */
WEFT_API void weft_eig(weft_array *a, weft_array **values, weft_array **vectors) WEFT_NONNULL(2, 3);
WEFT_API weft_array *weft_eigvals(weft_array *a);

/* ---- systems and inverses ------------------------------------------------------------------- */

/* Solves a x = b: a (..., N, N), b and x (..., N, K) or (N); leading axes broadcast. */
WEFT_API weft_array *weft_solve(weft_array *a, weft_array *b);
/* The same for a triangular a; the other triangle is not read. */
WEFT_API weft_array *weft_solve_triangular(weft_array *a, weft_array *b, bool upper);
/* The inverse of a (..., N, N); tri_inv: of a triangular a, whose other triangle is not read. */
WEFT_API weft_array *weft_inv(weft_array *a);
WEFT_API weft_array *weft_tri_inv(weft_array *a, bool upper);
/* The Moore-Penrose inverse (..., N, M) of a (..., M, N). Singular values up to max(M, N) epsilon
 * times the largest count as 0. */
WEFT_API weft_array *weft_pinv(weft_array *a);
/* The inverse of the matrix whose Cholesky factor is l (..., N, N). */
WEFT_API weft_array *weft_cholesky_inv(weft_array *l, bool upper);

/* ---- determinants --------------------------------------------------------------------------- */

/* The determinant: (..., N, N) -> (...). The derivative needs an invertible matrix. */
WEFT_API weft_array *weft_det(weft_array *a);
/* Sign and logarithm (...) with det = sign exp(logarithm). A singular matrix has sign 0 and
 * logarithm -infinity. */
WEFT_API void weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm)
    WEFT_NONNULL(2, 3);

#ifdef __cplusplus
}
#endif
#endif
