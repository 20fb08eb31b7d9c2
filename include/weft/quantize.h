/* weft/quantize.h -- quantized matrices: as MLX's two or three tensors, and as encoded arrays.
 *
 * Along the last axis, groups of elements share a scale (and a bias). A matrix w (..., N, K) is
 *     codes  uint32 (..., N, K bits / 32)   element i of a row in the bits [i bits, (i + 1) bits)
 *                                           of the row, counted from the lowest of its first byte
 *     scales (..., N, K / group)            affine: in w's dtype; the others: uint8
 *     biases as the scales                  affine only, else NULL
 * Modes, with their defaults first:
 *     affine  bits 4 (2 3 5 6 8), group 64 (32 128)   scale * code + bias
 *     mxfp4   bits 4, group 32                        2^(scale - 127) * E2M1
 *     mxfp8   bits 8, group 32                        2^(scale - 127) * E4M3
 *     nvfp4   bits 4, group 16                        E4M3 scale * E2M1 [* global_scale / 2688]
 * Results equal MLX's bit for bit wherever MLX's are finite. A NaN becomes 0 (mxfp8: 448); groups
 * with an infinity, or whose scale would overflow, saturate.
 *
 * The same formats exist as encodings (op.h): an (N, K) float array with packed storage.
 * weft_linear, weft_embedding and weft_take along axis 0 read it directly; weft_astype and
 * weft_decode make it dense; any other op gives an error. Common rules: ops.h.
 */
#ifndef WEFT_QUANTIZE_H
#define WEFT_QUANTIZE_H

#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_quantize_mode {
    WEFT_AFFINE = 0,
    WEFT_MXFP4,
    WEFT_MXFP8,
    WEFT_NVFP4
} weft_quantize_mode;

/* Zero means the mode's default. NULL options: affine, 4 bits, groups of 64. */
typedef struct weft_quantize_options {
    weft_quantize_mode mode;
    int64_t group_size;
    int64_t bits;
    weft_array *global_scale; /* nvfp4 only: float32 0-d, the largest magnitude of w; or NULL */
} weft_quantize_options;

/* ---- Over separate tensors ------------------------------------------------------------------ */

/* w (..., N, K) float32, float16 or bfloat16, K a multiple of the group -> out[0] codes, out[1]
 * scales, out[2] biases or NULL. No gradient flows through it. */
WEFT_API void weft_quantize(weft_array *w, const weft_quantize_options *options,
                            weft_array *out[3]);

/* The matrix (..., N, K) in `dtype`. The affine mode computes in the scales' dtype and rounds
 * product and sum, as MLX. Differentiable in float scales and biases. */
WEFT_API weft_array *weft_dequantize(weft_array *codes, weft_array *scales, weft_array *biases,
                                     weft_dtype dtype, const weft_quantize_options *options);

/* transposed: x w^T (..., M, N) for x (..., M, K). Otherwise: x w (..., M, K) for x (..., M, N).
 * Batch axes broadcast; a vector x is one row. Sums are float32 over unrounded weights, rounded
 * once to the common dtype of x, scales and biases (affine), or to x's dtype. Differentiable in x
 * and in float scales and biases; a gradient for the codes is an error. */
WEFT_API weft_array *weft_quantized_matmul(weft_array *x, weft_array *codes, weft_array *scales,
                                           weft_array *biases, bool transposed,
                                           const weft_quantize_options *options);

/* The same for selected pairs of matrices: lhs and rhs are integer indices into the flattened batch
 * axes of x and w, broadcast together to (J...); the result is (J..., M, N). NULL selects all
 * matrices in order, in the shape of the batch axes. */
WEFT_API weft_array *weft_gather_qmm(weft_array *x, weft_array *codes, weft_array *scales,
                                     weft_array *biases, weft_array *lhs, weft_array *rhs,
                                     bool transposed, const weft_quantize_options *options);

/* x w^T in x's dtype with both operands quantized: x (..., M, K) on the fly; w (..., N, K) as codes
 * with scales, or, with scales NULL, as floats that are quantized on the fly. The default mode is
 * nvfp4 here and affine is an error; global scales, which may be NULL, need nvfp4. Gradients of x
 * and of a float w are straight-through: those of the product of the quantized values. */
WEFT_API weft_array *weft_qqmm(weft_array *x, weft_array *w, weft_array *scales,
                               weft_array *global_scale_x, weft_array *global_scale_w,
                               const weft_quantize_options *options);
WEFT_API weft_array *weft_gather_qqmm(weft_array *x, weft_array *w, weft_array *scales,
                                      weft_array *lhs, weft_array *rhs, weft_array *global_scale_x,
                                      weft_array *global_scale_w,
                                      const weft_quantize_options *options);

/* Converts floats to E4M3 in uint8, rounding to nearest even; larger magnitudes and NaN become 448.
 * And back to `dtype`, where 0x7f and 0xff are NaN. The shape stays. */
WEFT_API weft_array *weft_to_fp8(weft_array *x);
WEFT_API weft_array *weft_from_fp8(weft_array *x, weft_dtype dtype);
/* Converts E5M2 in uint8, the upper bytes of float16, exactly to `dtype`. The shape stays. */
WEFT_API weft_array *weft_from_fp8_e5m2(weft_array *x, weft_dtype dtype);

/* ---- Encodings ------------------------------------------------------------------------------ */

/* The encoding with index i, or NULL past the last one. And by name: "affine-4-64-bfloat16" (bits,
 * group, dtype of the scales), "mxfp4", "mxfp8", "nvfp4"; NULL for an unknown name. */
WEFT_API const weft_encoding *weft_encoding_at(int i);
WEFT_API const weft_encoding *weft_encoding_find(const char *name);
/* By its properties; `scale` matters for affine only. A static literal; NULL if none matches. */
WEFT_API const weft_encoding *weft_encoding_of_kind(weft_encoding_kind kind, int64_t bits,
                                                    int64_t group, weft_dtype scale);
/* The encoding of the options, with scales of `dtype`: a static literal. NULL with a message if
 * none matches, for instance with a global scale. */
WEFT_API const weft_encoding *weft_quantize_encoding(const weft_quantize_options *options,
                                                     weft_dtype dtype);

/* x (..., K) stored as `encoding`, with the same shape and dtype: float32, float16 or bfloat16, K a
 * multiple of the block. No gradient flows through it. */
WEFT_API weft_array *weft_encode(weft_array *x, const weft_encoding *encoding);
/* The dense array of the same shape and dtype; a dense x is returned unchanged. */
WEFT_API weft_array *weft_decode(weft_array *x);

/* An encoded array (..., K) of `dtype`, a float, over the caller's memory, which holds the blocks
 * row by row. As weft_from_memory, but without an alignment requirement. */
WEFT_API weft_array *weft_from_blocks(void *blocks, const weft_encoding *encoding, weft_dtype dtype,
                                      weft_dims shape, void (*release)(void *context),
                                      void *context) WEFT_NONNULL(2);

/* Joins separate tensors into an encoded array (..., K) of `dtype`, and splits it again; both copy
 * bits. The scales may have another float dtype than `dtype`. out[2] is NULL without biases. GGUF's
 * Q4_0, Q4_1 and Q8_0 are split into affine codes in groups of 32 with float16 scales and biases,
 * as MLX loads them. */
WEFT_API weft_array *weft_join_encoded(weft_array *codes, weft_array *scales, weft_array *biases,
                                       weft_dtype dtype, const weft_quantize_options *options);
WEFT_API void weft_split_encoded(weft_array *x, weft_array *out[3]);

#ifdef __cplusplus
}
#endif
#endif
