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
    weft_dims axes; /* the first two fields are those of weft_reduce_params */
    bool keepdims;
    int64_t ddof;
} weft_var_params;

/* argpartition: 0 <= kth < length */
typedef struct weft_partition_params {
    int64_t axis, kth;
} weft_partition_params;

/* topk: 0 <= k <= length; the k largest in descending order, NaN first */
typedef struct weft_topk_params {
    int64_t axis, k;
} weft_topk_params;

/* top_p: inputs x (B, V) and total (B, 1) of one float dtype -> (B, 1): the smallest kept element
 * of each row. Walking the row's k largest elements in descending order, an element is kept while
 * the sum of exp(x - total) over those before it is below p. */
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

/* slice: all fields, with starts and steps resolved; dynamic_slice and slice_update: axes and sizes
 */
typedef struct weft_slice_params {
    weft_dims axes, starts, sizes, steps;
} weft_slice_params;

/* slice_set: parameters as slice; the first input with that slice replaced by the second */

/* bounded_index: integer indices into an axis of `length` -> valid indices in [0, length), int32 if
 * length < 2^31, else int64 */
typedef enum weft_bounds {
    WEFT_BOUNDS_CHECK, /* negative indices count from the end; out of range fails the evaluation */
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

/* pad: before and after have one number for each of `axes` */
typedef struct weft_pad_params {
    weft_dims axes, before, after;
    double value;
} weft_pad_params;

/* as_strided: strides and offset in elements of the input's row-major order */
typedef struct weft_strided_params {
    weft_dims shape, strides;
    int64_t offset;
} weft_strided_params;

/* The ops below are in ops/nn. Their compute dtype is float64 when the first input is float64, else
 * float32. Other float inputs may have any float dtype and are converted on load. */

/* matmul (no parameters): a (..., M, K), b (..., K, N), one dtype, equal ranks of at least 2, batch
 * dims equal or 1 -> (..., M, N) in that dtype. For bool, or and and replace sum and product. */

/* linear: inputs x (..., E), weight (F, E) [, bias (F)] -> (..., F): x w^T + bias.
 * transposed (for dx): x (..., F), weight (F, E) -> (..., E): x w, without a bias.
 * int8: kernels may round x, and an encoded weight, as weft_linear_int8 describes.
 * dtype: the result's, a float; 0: x's. */
typedef struct weft_linear_params {
    bool transposed, int8;
    weft_dtype dtype;
} weft_linear_params;

/* linear_sum: inputs x_0 (..., E_0), weight_0 (F, E_0), x_1, weight_1, ... [, bias (F)], with
 * 1 to 8 pairs -> (..., F): the sum of all x_i w_i^T, + bias. transposed: x_i (..., F_i), weight_i
 * (F_i, E) -> (..., E): the sum of all x_i w_i, without a bias. It is rounded once, after the last
 * sum.
 * dtype: the result's, a float; 0: that of x_0. */
typedef struct weft_linear_sum_params {
    bool transposed;
    weft_dtype dtype;
} weft_linear_sum_params;

/* rms_norm: inputs x (..., E) [, weight (E)] -> x's shape and dtype. Without a weight the gain is 1
 * and offset is ignored. rms_norm_vjp: x [, weight], ct -> dx [, dw (E)]; dw unless frozen.
 * layer_norm: x [, weight] [, bias] -> x's shape and dtype. layer_norm_vjp: x [, weight], ct -> dx
 * [, dw] [, db]; dw if has_weight and db if has_bias, neither if frozen. dx has x's dtype, dw and
 * db the compute dtype. */
typedef struct weft_norm_params {
    double eps, offset;
    bool has_weight, has_bias;
    bool frozen; /* gradient ops: compute dx only */
} weft_norm_params;

/* glu_vjp: inputs gate, up and ct of one shape and float dtype -> the gradients of gate and up (the
 * same spec), where y = activation(gate) * up has the cotangent ct */
typedef enum weft_glu_activation { WEFT_GLU_SILU, WEFT_GLU_GELU_TANH } weft_glu_activation;
typedef struct weft_glu_params {
    int64_t activation; /* weft_glu_activation */
} weft_glu_params;

/* rope: inputs x (B, L, H, D), positions (L) or (B, L) of any integer dtype, frequencies (d/2)
 * float32 with d <= D -> x's shape and dtype. The angle, float32(position) * frequency, is computed
 * in float32. */
typedef struct weft_rope_params {
    bool interleaved, inverse; /* inverse: by the negative angle */
    double amplitude;
} weft_rope_params;

/* attention: inputs q (B, L, H, D), k (B, S, Hk, D), v (B, S, Hk, Dv) [, mask] [, lengths, or
 * first and ends]. Outputs: o (B, L, H, Dv) in q's dtype, and the log-sum-exp (B, L, H) of the
 * scores after scale, softcap and mask, in the compute dtype. A query with no visible key has o = 0
 * and log-sum-exp -inf. scale is never 0.
 *   mask     rank 4, each dim 1 or that of (B, H, L, S): bool (true: visible) or a float (added)
 *   lengths  int32 (B): how many keys each row of the batch has, clipped to [0, S]
 *   first    int32 (B, L): the first key that each query sees
 *   ends     int32 (B, L): the end of the keys that each query sees
 *
 * causal: query l sees keys j <= l + S - L. window > 0: and those with |l + S - L - j| < window.
 *
 * attention_vjp: inputs q, k, v, o, lse, do [, mask] [, first] [, ends] -> dq, dk, dv in the dtypes
 * of q, k and v; never with lengths.
 *
 * attention_codes: k and v are each three inputs: codes, steps and minima of weft_kv_codes, 8 bits
 * each if their last dim is D, 4 bits if it is D / 2. It takes no bounds.
 * attention_pages: as attention or attention_codes, with pages int32 (B, N) after keys and values,
 * which are (P, page, ...); S is N page. It takes no bounds.
 * attention_sinks: sinks (H) of a float dtype follow v and are included in the log-sum-exp. */
typedef struct weft_attention_params {
    double scale, softcap;
    int64_t window;
    bool causal, has_mask, has_lengths, has_first, has_ends;
} weft_attention_params;

/* attention_append: the attention of rotated queries over caches that get rotated keys. Inputs
 * q (B, L, H, D), keys (B, S, Hk, D), values (B, S, Hk, Dv), v (B, L, Hk, Dv), k (B, L, Hk, D),
 * rope's positions and frequencies, start (1), [, mask] [, lengths, or first and ends]. Outputs: as
 * attention's, keys with the rotated k from `start` on (slice_update), and values with v.
 * page > 0: keys and values (1, S, ...) are S / page pages of a pool. L is 1, start (B) has each
 * row's index in the pool (negative: from the end), which no other row reads in this call, and
 * after it comes the row's pages, int32 (B, N) (attention_pages). */
typedef struct weft_attention_append_params {
    weft_attention_params attention;
    weft_rope_params rope;
    int64_t page;
} weft_attention_append_params;

/* cross_entropy (no parameters): logits (..., V), targets (...) of any integer dtype -> (...) in
 * the compute dtype. cross_entropy_vjp: logits, targets, ct (...) -> the gradient, with the shape
 * and dtype of the logits. A negative target is ignored (0 in both); a target >= V fails the
 * evaluation.
 *
 * linear_cross_entropy: inputs x (N, E), weight (V, E), targets (N) -> the losses (N) in the
 * compute dtype and, with_gradient, the gradient (N, E) in x's dtype of each row's loss with
 * respect to its row of x; with_entropy, last, the entropies (N) of the rows' distributions, 0 for
 * negative targets. Logits are in the compute dtype; softcap 0: off. */
typedef struct weft_linear_cross_entropy_params {
    double softcap;
    bool with_gradient, with_entropy;
} weft_linear_cross_entropy_params;

/* linear_cross_entropy_weight_grad: inputs x (N, E), weight (V, E), targets, lse, ct (N) -> the
 * gradient (V, E) of sum(ct losses) with respect to the weight, in its dtype. lse: the logarithm of
 * the sum of e^logit, after the softcap, of each row. */
typedef struct weft_linear_cross_entropy_weight_grad_params {
    double softcap;
} weft_linear_cross_entropy_weight_grad_params;

/* The ops of ops/quantize. `mode` is a weft_encoding_kind with `bits` and `group`. "w" stands for
 * two or three inputs: codes uint32 (..., K bits / 32), scales (..., K / group) and, for the affine
 * mode, biases of the scales' shape.
 *   quantize          w (..., K) dense [, global_scale ()] -> codes, scales [, biases]
 *   dequantize        w -> (..., K) of `dtype`
 *   requantize        w (..., K) dense [, global_scale ()] -> dequantize of its codes, in its dtype
 *   encode            x (..., K) -> the same, encoded
 *   join_encoded      w -> an encoded array of `dtype`
 *   split_encoded     an encoded array -> w
 *   quantized_matmul  x (Bx, M, T), w (Bw, R, ...) [, lhs (J), rhs (J)] -> (J, M, C)
 *
 * quantized_matmul multiplies x[lhs[j]] by the transpose of w[rhs[j]] (T = K, C = R) or, unless
 * `transposed`, by w[rhs[j]] (T = R, C = K). lhs and rhs are integers below Bx and Bw, given when
 * `gathered`; otherwise J = Bx, lhs[j] = j, and rhs[j] = j, or 0 if Bw = 1. */
typedef struct weft_quantized_params {
    int64_t mode, bits, group;
    weft_dtype dtype;
    bool transposed, gathered, has_global;
    int64_t encoding; /* encode: the index for weft_encoding_at */
} weft_quantized_params;

/* adamw: parameter, gradient (any float dtypes), m, v, hyper (5) -> the new parameter in its dtype,
 * m, v. Computed in the dtype of m and v, float32 or float64. adamw8bit: m and v are uint8; inputs
 * 4, 5 and outputs 3, 4 are their float32 scales, per 256 elements; in hyper's dtype. adamw16bit:
 * after hyper a random key (2), by which bfloat16 outputs are rounded; no float16 but gradients. */
typedef struct weft_adamw_params {
    double beta1, beta2, eps, decay;
} weft_adamw_params;

/* gather_mm: inputs a (A, M, K), b (B, K, N), integers lhs (I), rhs (I) -> (I, M, N): a[lhs_i]
 * b[rhs_i]. gather_mm_sums: a (A, M, K), ct (I, M, N), lhs, rhs -> (count, K, N): for each value of
 * rhs the sum of a[lhs_i]^T ct_i. segmented_mm (no parameters): a (..., M, K), b (..., K, N),
 * segments (..., S, 2) -> (..., S, M, N). segmented_mm_grad: ct (..., S, M, N), b, segments ->
 * (..., M, K). */
typedef struct weft_gather_mm_params {
    int64_t count;
    bool sorted;
} weft_gather_mm_params;

/* hadamard: x (..., m 2^k) with m 1, 12, 20 or 28; transposed: with the transposed matrix of size m
 */
typedef struct weft_hadamard_params {
    double scale;
    bool transposed;
} weft_hadamard_params;

/* conv: inputs x (N, ..., C), weight (O, ..., C / groups), one dtype, one to three spatial axes ->
 * (N, ..., O). Along an axis, x is first dilated (input_dilation - 1 zeros between elements) and
 * padded with zeros (negative padding crops). Output o then multiplies kernel element j, or with
 * `flip` its mirror, with element o stride + j kernel_dilation of that.
 * conv_weight_grad: inputs x, cotangent (N, ..., O) -> (O, kernel..., C / groups). */
typedef struct weft_conv_params {
    weft_dims stride, pad_low, pad_high, kernel_dilation, input_dilation; /* per spatial axis */
    weft_dims kernel; /* conv_weight_grad: the kernel's sizes */
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

/* svd: outputs u (..., M, K), values (..., K), v^H (..., K, N). eigh (reads the lower triangle) and
 * eig (complex64): values (..., N), vectors (..., N, N). Without `vectors`: the values only.
 * linalg.h describes the signs of vectors. */
typedef struct weft_vectors_params {
    bool vectors;
} weft_vectors_params;

/* solve_triangular */
typedef struct weft_triangular_params {
    bool upper;
} weft_triangular_params;

/* fft: complex64 -> complex64. rfft: float32 or float64 with N elements -> complex64 with N / 2 +
 * 1. irfft: complex64 with n / 2 + 1 elements -> float32 with n. All results are multiplied by
 * scale. */
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
