/* weft/op_params.h -- parameter structs of Weft's own ops, for kernels that read them.
 *
 * Axes count from the end (-1 is the last), so that leading batch axes never renumber them.
 */
#ifndef WEFT_OP_PARAMS_H
#define WEFT_OP_PARAMS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cast */
typedef struct weft_cast_params {
    weft_dtype dtype;
} weft_cast_params;

/* full, arange: no inputs */
typedef struct weft_full_params {
    weft_dims shape;
    weft_dtype dtype;
    double value;    /* arange: the start */
    double step;     /* arange */
    int64_t integer; /* the value of an integer dtype, exactly */
} weft_full_params;

/* sum prod max min all any logsumexp */
typedef struct weft_reduce_params {
    weft_dims axes; /* sorted, distinct, negative */
    bool keepdims;
} weft_reduce_params;

/* var */
typedef struct weft_var_params {
    weft_dims axes; /* as in weft_reduce_params, which this begins like */
    bool keepdims;
    int64_t ddof;
} weft_var_params;

/* argpartition: 0 <= kth < length */
typedef struct weft_partition_params {
    int64_t axis, kth;
} weft_partition_params;

/* topk: 0 <= k <= length; the k largest, the largest first; NaN counts as larger than all */
typedef struct weft_topk_params {
    int64_t axis, k;
} weft_topk_params;

/* top_p: inputs x (B, V) and total (B, 1) of one float dtype -> (B, 1). Of the k largest of each
 * row, the largest first, those are kept in front of which the sum of exp(x - total) is below p:
 * the smallest that is kept. */
typedef struct weft_top_p_params {
    int64_t k; /* 0 < k <= V */
    double p;
} weft_top_p_params;

/* searchsorted: inputs sorted (..., N), values (..., M), one dtype */
typedef struct weft_search_params {
    bool right;
} weft_search_params;

/* argmax argmin softmax log_softmax sort argsort take take_along_axis concatenate */
typedef struct weft_axis_params {
    int64_t axis;
    bool keepdims;
} weft_axis_params;

/* cumsum cumprod cummax cummin cumargmax cumargmin logcumsumexp linear_scan */
typedef struct weft_scan_params {
    int64_t axis;
    bool reverse, inclusive;
} weft_scan_params;

/* reshape broadcast_to */
typedef struct weft_shape_params {
    weft_dims shape;
} weft_shape_params;

/* transpose: output axis i is input axis axes[i] (non-negative) */
typedef struct weft_transpose_params {
    weft_dims axes;
} weft_transpose_params;

/* slice: normalised; dynamic_slice and slice_update use axes and sizes */
typedef struct weft_slice_params {
    weft_dims axes, starts, sizes, steps;
} weft_slice_params;

/* slice_set: the second input at the slice's place in the first; as slice */

/* bounded_index: an integer array -> the same places on an axis of `length`, all in [0, length):
 * int32 if length < 2^31, else int64 */
typedef enum weft_bounds {
    WEFT_BOUNDS_CHECK, /* negative ones count from the end; others fail the evaluation */
    WEFT_BOUNDS_CLIP,
    WEFT_BOUNDS_WRAP
} weft_bounds;
typedef struct weft_bounds_params {
    int64_t length, mode;
} weft_bounds_params;

/* scatter: x, indices, values as in scatter_add (x with the axis replaced by the indices' shape);
 * put_along_axis: as scatter_add_along_axis, with weft_axis_params */
typedef enum weft_combine {
    WEFT_COMBINE_PUT, /* the last counts */
    WEFT_COMBINE_ADD, /* not of scatter: scatter_add */
    WEFT_COMBINE_PROD,
    WEFT_COMBINE_MAX,
    WEFT_COMBINE_MIN
} weft_combine;
typedef struct weft_scatter_params {
    int64_t axis, combine;
} weft_scatter_params;

/* slice_grad: the slice of an array of `shape` */
typedef struct weft_slice_grad_params {
    weft_slice_params slice;
    weft_dims shape;
} weft_slice_grad_params;

/* pad: before and after have one number an axis of `axes` */
typedef struct weft_pad_params {
    weft_dims axes, before, after;
    double value;
} weft_pad_params;

/* as_strided: strides and offset in elements of the input's row-major order */
typedef struct weft_strided_params {
    weft_dims shape, strides;
    int64_t offset;
} weft_strided_params;

/* The ops below are those of ops/nn. Where they say "compute dtype": float64 when the first input
 * is float64, else float32; that is what they compute in. Other float inputs may have any float
 * dtype and are converted on load. */

/* matmul (no parameters): a (..., M, K), b (..., K, N), one dtype, equal ranks of at least 2, batch
 * dims equal or 1 -> (..., M, N) in that dtype. bool: or of ands. */

/* linear: inputs x (..., E), weight (F, E) [, bias (F)] -> (..., F) in x's dtype: x w^T + bias.
 * When transposed (the form of dx): x (..., F), weight (F, E) -> (..., E): x w, never with a bias.
 * int8: a kernel may round x as weft_linear_int8 says. */
typedef struct weft_linear_params {
    bool transposed, int8;
} weft_linear_params;

/* rms_norm: inputs x (..., E) [, weight (E)] -> x's shape and dtype; without a weight the gain is 1
 * and offset has no meaning. layer_norm: x [, weight] [, bias].
 * rms_norm_vjp: inputs x [, weight], ct -> dx (x's dtype) [, dw (E)]; dw unless frozen.
 * layer_norm_vjp: inputs x [, weight], ct -> dx [, dw] [, db]; dw if has_weight and db if has_bias,
 * neither when frozen. dw and db are in the compute dtype. */
typedef struct weft_norm_params {
    double eps, offset;
    bool has_weight, has_bias;
    bool frozen; /* of the gradient ops: only dx */
} weft_norm_params;

/* rope: inputs x (B, L, H, D), positions (L) or (B, L) of any integer dtype, frequencies (d/2)
 * float32 with d <= D -> x's shape and dtype. The angle is float32(position) * frequency, in
 * float32. */
typedef struct weft_rope_params {
    bool interleaved, inverse; /* inverse: by the negative angle */
    double amplitude;
} weft_rope_params;

/* attention: inputs q (B, L, H, D), k (B, S, Hk, D), v (B, S, Hk, Dv) [, mask] [, lengths or
 * first]; outputs o (B, L, H, Dv) in q's dtype and the log-sum-exp of the scores (after scale,
 * softcap and mask) (B, L, H) in the compute dtype, -inf for a query that sees nothing (its o is
 * 0). The mask has rank 4, each dim 1 or that of (B, H, L, S): bool (true: visible) or a float
 * dtype (added). Of lengths int32 (B) each says how many keys its row of the batch has, the others
 * being as if they were not there; below 0 is 0 and above S is S. Of first int32 (B, L) each is the
 * first key that its query sees. scale is never 0 here. attention_vjp: inputs q, k, v, o, lse, do
 * [, mask] [, first], never with lengths; outputs dq, dk, dv in the dtypes of q, k, v.
 * attention_codes and attention_sinks never have first. attention_codes: attention with three
 * inputs for each of k and v: codes, steps and least values of weft_kv_codes, of 8 bits where the
 * codes of k are as many as q's elements. attention_sinks: attention with sinks (H) of a float
 * dtype after v, which the log-sum-exp counts too. */
typedef struct weft_attention_params {
    double scale, softcap;
    int64_t window;
    bool causal, has_mask, has_lengths, has_first;
} weft_attention_params;

/* cross_entropy (no parameters): logits (..., V), targets (...) of any integer dtype -> (...) in
 * the compute dtype. cross_entropy_vjp: logits, targets, ct (...) -> the gradient, as the logits. A
 * negative target gives 0 in both; one of V or more fails the evaluation.
 * linear_cross_entropy: inputs x (N, E), weight (V, E), targets (N); outputs the losses (N) in the
 * compute dtype and, with_gradient, the gradient of each row's loss with respect to its row of x
 * (N, E) in x's dtype. Logits are in the compute dtype; softcap 0: none. */
typedef struct weft_linear_cross_entropy_params {
    double softcap;
    bool with_gradient;
} weft_linear_cross_entropy_params;

/* The ops of ops/quantize. `mode` is a weft_encoding_kind; `bits` and `group` complete it. Codes
 * are uint32 (..., K bits / 32), scales (..., K / group) and, of the affine mode, biases like them;
 * w is these two or three inputs, one after another. quantize: w (..., K) [, global_scale ()] ->
 * codes, scales [, biases]. dequantize: w -> (..., K) of `dtype`. quantized_matmul: x (Bx, M, T), w
 * (Bw, R, ...) -> (J, M, C): the products of x[lhs[j]] with the transpose of w[rhs[j]] (T = K, C =
 * R) or, unless `transposed`, with itself (T = R, C = K). When `gathered`, lhs and rhs are the last
 * two inputs, integers (J) below Bx and Bw; else J = Bx, lhs[j] = j, and rhs[j] = j or, with Bw =
 * 1, 0. requantize: w (..., K) [, global_scale ()] -> what dequantize makes of its codes, in its
 * dtype. encode: x (..., K) -> the same, encoded. join_encoded: w -> encoded, of `dtype`.
 * split_encoded: an encoded array -> w. */
typedef struct weft_quantized_params {
    int64_t mode, bits, group;
    weft_dtype dtype;
    bool transposed, gathered, has_global;
    int64_t encoding; /* encode: its number */
} weft_quantized_params;

/* adamw: inputs parameter, gradient (any float dtypes), m, v, hyper (5); outputs the new parameter
 * (its own dtype), m, v. Computed in the dtype of m and v, which is float32 or float64.
 * adamw8bit: inputs parameter, gradient, m, v (uint8), their scales (float32: one for each block of
 * 256 elements), hyper; outputs parameter, m, v and the scales of both (2, blocks). Computed in
 * hyper's dtype. */
typedef struct weft_adamw_params {
    double beta1, beta2, eps, decay;
} weft_adamw_params;

/* gather_mm: inputs a (A, M, K), b (B, K, N), lhs (I), rhs (I) integers -> (I, M, N): a[lhs_i]
 * b[rhs_i]. gather_mm_sums: a (A, M, K), ct (I, M, N), lhs, rhs -> (count, K, N): the sums of
 * a[lhs_i]^T ct_i over the i of each rhs. segmented_mm (no parameters): a (..., M, K), b (..., K,
 * N), segments (..., S, 2) -> (..., S, M, N). segmented_mm_grad: ct (..., S, M, N), b, segments ->
 * (..., M, K). */
typedef struct weft_gather_mm_params {
    int64_t count;
    bool sorted;
} weft_gather_mm_params;

/* hadamard: x (..., m 2^k), m of 1, 12, 20 or 28; transposed: by the transpose of the matrix of m.
 */
typedef struct weft_hadamard_params {
    double scale;
    bool transposed;
} weft_hadamard_params;

/* conv: inputs x (N, ..., C), weight (O, ..., C / groups), one dtype, one to three spatial axes ->
 * (N, ..., O). Output o of an axis meets with element j of the kernel (flipped: the last less j)
 * element o stride + j kernel_dilation - pad_low of x spread: input_dilation - 1 zeros between its
 * elements, zeros outside. Pads below 0 cut. conv_weight_grad: inputs x, the cotangent (N, ..., O)
 * -> (O, kernel..., C / groups). */
typedef struct weft_conv_params {
    weft_dims stride, pad_low, pad_high, kernel_dilation, input_dilation; /* one a spatial axis */
    weft_dims kernel; /* conv_weight_grad: its sizes */
    int64_t groups;
    bool flip;
} weft_conv_params;

/* random_bits */
typedef struct weft_bits_params {
    weft_dims shape;
    int64_t width;
} weft_bits_params;

/* qr (..., M, N): outputs q (..., M, K), r (..., K, N); K = M when complete, else min(M, N). */
typedef struct weft_qr_params {
    bool complete;
} weft_qr_params;

/* Outputs, of which only the values remain without vectors. svd: u (..., M, K), values (..., K),
 * v^H (..., K, N). eigh (the lower triangle is read) and eig (complex64): values (..., N), vectors
 * (..., N, N). linalg.h says which of the possible vectors these are. */
typedef struct weft_vectors_params {
    bool vectors;
} weft_vectors_params;

/* solve_triangular */
typedef struct weft_triangular_params {
    bool upper;
} weft_triangular_params;

/* fft: complex64 -> complex64; rfft: float32 or float64 (..., N, ...) -> complex64 with N / 2 + 1
 * elements; irfft: complex64 with n / 2 + 1 elements -> float32 with n. All times scale. */
typedef struct weft_fft_params {
    int64_t axis;
    int64_t n;    /* of irfft */
    bool inverse; /* of fft */
    double scale;
} weft_fft_params;

#ifdef __cplusplus
}
#endif
#endif
