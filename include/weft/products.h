/* weft/products.h -- products of matrices and of arrays of any rank.
 *
 * Sums are taken in at least float32, and in float64 for float64. The operands take their common
 * dtype (weft_promote), which is the result's unless a line says otherwise; bool: or of ands.
 * Common rules: ops.h.
 */
#ifndef WEFT_PRODUCTS_H
#define WEFT_PRODUCTS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a (..., M, K) b (..., K, N) -> (..., M, N); 1-d operands as NumPy's matmul. float32
 * accumulation for 16-bit floats. */
WEFT_API weft_array *weft_matmul(weft_array *a, weft_array *b);
/* x (..., E) weight (F, E) [bias (F)] -> (..., F) in x's dtype: x weight^T + bias. The weight may
 * have another float dtype; it is converted on load. bias may be NULL. */
WEFT_API weft_array *weft_linear(weft_array *x, weft_array *weight, weft_array *bias);

/* The same, and a device may round x first: each 32 numbers of a row to the nearest of the 255
 * multiples of 1/127 of their largest magnitude. A block with a NaN or an infinity gives NaN. The
 * CPU does so for affine weights of 4 or 8 bits and GGUF types with a scale for 32 (not Q2_K, Q3_K,
 * Q6_K), and more than 8 rows; with AVX-512 VNNI from 4 on for Q8_0, Q4_0 and Q4_1, with AVX2 and
 * not AVX-512 any number. With AMX and more than 24 rows it rounds x and all weights to bfloat16
 * instead, halves away from zero: faster, half the error. float16 x and derivatives are exact. */
WEFT_API weft_array *weft_linear_int8(weft_array *x, weft_array *weight, weft_array *bias);
/* alpha (a b) + beta c, where a b is weft_matmul and c broadcasts with it. */
WEFT_API weft_array *weft_addmm(weft_array *c, weft_array *a, weft_array *b, double alpha,
                                double beta);

/* Sums over pairs of axes: a_axes.at[i] of a with b_axes.at[i] of b. The result has a's other axes
 * in order, then b's. tensordot_n: the last n axes of a with the first n of b. */
WEFT_API weft_array *weft_tensordot(weft_array *a, weft_array *b, weft_dims a_axes,
                                    weft_dims b_axes);
WEFT_API weft_array *weft_tensordot_n(weft_array *a, weft_array *b, int n);
/* The products of all pairs of elements: (size of a, size of b). */
WEFT_API weft_array *weft_outer(weft_array *a, weft_array *b);
/* Over the last axes of both; with a 0-d operand, their product. */
WEFT_API weft_array *weft_inner(weft_array *a, weft_array *b);
/* The sum of conj(a) b along `axis` of both; the other axes broadcast. */
WEFT_API weft_array *weft_vecdot(weft_array *a, weft_array *b, int axis);
/* Kronecker product: each element of a times all of b. The lower rank gets ones in front; ranks up
 * to 8. */
WEFT_API weft_array *weft_kron(weft_array *a, weft_array *b);

/* ---- Einstein summation --------------------------------------------------------------------- */

/* NumPy's einsum of n operands: "ij,jk->ik". A letter a-z or A-Z names an axis and has one size
 * everywhere, or 1, which broadcasts; "..." stands for the axes that are not named, aligned from
 * the last. A letter twice in one operand takes the diagonal. Without "->" the result has the
 * ellipsis and then, in alphabetical order, the letters that occur once. Spaces are skipped. Pairs
 * are contracted in the order of weft_einsum_path, each as one matmul where it can be. */
WEFT_API weft_array *weft_einsum(const char *subscripts, weft_array *const *operands, int n);

/* Describes the order in which weft_einsum contracts: optimal in operations for up to 8 operands,
 * greedy by the size of the result beyond. The text in `out` (size bytes, always terminated) has
 * the number of operations, counting multiplications and additions, of contracting all operands at
 * once and in this order. Then each line is a contraction: the indices of two operands, which are
 * removed from the list; the result is appended. Fails as weft_einsum. */
WEFT_NODISCARD WEFT_API weft_status weft_einsum_path(const char *subscripts,
                                                     weft_array *const *operands, int n, char *out,
                                                     size_t size);

/* ---- Products of parts ---------------------------------------------------------------------- */

/* a (..., M, K) and b (..., K, N) are lists of matrices; result i is a[lhs_i] b[rhs_i], (I..., M,
 * N) where the indices, integers that count from the end when negative, broadcast to (I...). NULL:
 * all matrices in order. `sorted` says that rhs ascends; results do not depend on it. Floats; an
 * index out of range fails the evaluation. */
WEFT_API weft_array *weft_gather_mm(weft_array *a, weft_array *b, weft_array *lhs, weft_array *rhs,
                                    bool sorted);
/* Rows of x (A, K) through matrices of weight (B, N, K): result i is x[rows_i] weight[ids_i]^T,
 * (I, N) in x's dtype, for integers rows and ids (I). NULL rows: all in order. The weight may have
 * another float dtype, or an encoding (weft/quantize.h). An index out of range fails the
 * evaluation. */
WEFT_API weft_array *weft_gather_linear(weft_array *x, weft_array *weight, weft_array *rows,
                                        weft_array *ids);
/* a (M, K), b (K, N), segments (..., 2) integers -> (..., M, N): result i sums only the terms from
 * segments[i, 0] to segments[i, 1], which lie in [0, K] or fail the evaluation. Floats. */
WEFT_API weft_array *weft_segmented_mm(weft_array *a, weft_array *b, weft_array *segments);
/* a (..., M, K) b (..., K, N) with masks on blocks of `block` by `block` elements of a, b and the
 * result. A mask has the shape (..., rows / block, columns / block), rounded up, or is NULL. A bool
 * mask replaces elements by zero; a numeric mask multiplies and has a gradient. */
WEFT_API weft_array *weft_block_masked_mm(weft_array *a, weft_array *b, int64_t block,
                                          weft_array *mask_out, weft_array *mask_lhs,
                                          weft_array *mask_rhs);
/* H x along the last axis, of m 2^k elements with m of 1, 12, 20 or 28: H is the Kronecker product
 * of a Hadamard matrix of m (N. J. A. Sloane's) and Sylvester's of 2^k. Times `scale`; 0:
 * 1 / sqrt(elements). */
WEFT_API weft_array *weft_hadamard_transform(weft_array *x, double scale);

#ifdef __cplusplus
}
#endif
#endif
