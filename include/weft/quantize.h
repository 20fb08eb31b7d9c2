/* weft/quantize.h -- quantised matrices: as MLX's two or three tensors, and as encoded arrays.
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
 * Values are MLX's, bit for bit, wherever its own are finite: a NaN becomes 0 (mxfp8: 448), groups
 * with an infinity or magnitudes that leave the scale's range saturate.
 *
 * The same formats are encodings (op.h): a bf16 (N, K) array whose storage is packed. weft_linear,
 * weft_embedding and weft_take along axis 0 read it directly, weft_astype and weft_decode make it
 * dense, and every other op refuses it. Common rules: ops.h.
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

/* Zero: the default. NULL options: affine, 4 bits, groups of 64. */
typedef struct weft_quantize_options {
    weft_quantize_mode mode;
    int64_t group_size;
    int64_t bits;
    weft_array *global_scale; /* NULL, or nvfp4: float32 (), the largest magnitude of w */
} weft_quantize_options;

/* ---- Over separate tensors ------------------------------------------------------------------ */

/* w (..., N, K) float32, float16 or bfloat16, K a multiple of the group -> out[0] codes, out[1]
 * scales, out[2] biases or NULL. No gradient flows: the codes are integers and scales and biases
 * are taken as constants. */
WEFT_API void weft_quantize(weft_array *w, const weft_quantize_options *options,
                            weft_array *out[3]);

/* The matrix (..., N, K) in `dtype`. The affine mode computes in the scales' dtype, rounding
 * product and sum (MLX). Differentiable in float scales and biases. */
WEFT_API weft_array *weft_dequantize(weft_array *codes, weft_array *scales, weft_array *biases,
                                     weft_dtype dtype, const weft_quantize_options *options);

/* x w^T (..., M, N) for x (..., M, K), or, unless transposed, x w (..., M, K) for x (..., M, N);
 * batch axes broadcast; a vector x is one row. Products are summed in float32 from weights that are
 * not rounded, and rounded once, to the common dtype of x, scales and biases (affine) or to x's.
 * Differentiable in x and in float scales and biases; codes refuse a gradient. */
WEFT_API weft_array *weft_quantized_matmul(weft_array *x, weft_array *codes, weft_array *scales,
                                           weft_array *biases, bool transposed,
                                           const weft_quantize_options *options);

/* The same for the pairs of matrices that flat indices into the batch axes of x and of w name:
 * (J..., M, N) for integers lhs and rhs, broadcast together to (J...). NULL: all matrices in order,
 * in the shape of the batch axes. */
WEFT_API weft_array *weft_gather_qmm(weft_array *x, weft_array *codes, weft_array *scales,
                                     weft_array *biases, weft_array *lhs, weft_array *rhs,
                                     bool transposed, const weft_quantize_options *options);

/* x w^T with both quantised: x (..., M, K) on the fly, w (..., N, K) given as codes and scales, or
 * with scales NULL in floats and quantised on the fly. The options' default mode is nvfp4 here, and
 * affine is refused; global scales (NULL: none) are of nvfp4. In x's dtype. The gradients of x and
 * of a float w are those of the product of the quantised (straight through the rounding). */
WEFT_API weft_array *weft_qqmm(weft_array *x, weft_array *w, weft_array *scales,
                               weft_array *global_scale_x, weft_array *global_scale_w,
                               const weft_quantize_options *options);
WEFT_API weft_array *weft_gather_qqmm(weft_array *x, weft_array *w, weft_array *scales,
                                      weft_array *lhs, weft_array *rhs, weft_array *global_scale_x,
                                      weft_array *global_scale_w,
                                      const weft_quantize_options *options);

/* Floats as E4M3 in uint8: nearest even, saturating at 448, NaN too. And back; 0x7f and 0xff are
 * NaN. */
WEFT_API weft_array *weft_to_fp8(weft_array *x);
WEFT_API weft_array *weft_from_fp8(weft_array *x, weft_dtype dtype);
/* E5M2 in uint8 as floats, exactly: the upper bytes of float16. */
WEFT_API weft_array *weft_from_fp8_e5m2(weft_array *x, weft_dtype dtype);

/* ---- Encodings ------------------------------------------------------------------------------ */

/* Encoding i of the table, from 0; NULL: there are no more. By name: "affine-4-64-bfloat16" (bits,
 * group, dtype of the scales), "mxfp4", "mxfp8", "nvfp4"; NULL when there is none. */
WEFT_API const weft_encoding *weft_encoding_at(int i);
WEFT_API const weft_encoding *weft_encoding_find(const char *name);
/* By what it is; `scale` counts for affine only. */
WEFT_API const weft_encoding *weft_encoding_of_kind(weft_encoding_kind kind, int64_t bits,
                                                    int64_t group, weft_dtype scale);
/* Of the options' mode, with scales of `dtype`; NULL and a message when there is none, as for a
 * global scale. */
WEFT_API const weft_encoding *weft_quantize_encoding(const weft_quantize_options *options,
                                                     weft_dtype dtype);

/* x (..., K) of the same shape and dtype, stored as `encoding`: float32, float16 or bfloat16, K a
 * multiple of a block. No gradient flows. */
WEFT_API weft_array *weft_encode(weft_array *x, const weft_encoding *encoding);
/* The dense array of the same shape and dtype; one that is dense is returned. */
WEFT_API weft_array *weft_decode(weft_array *x);

/* The caller's memory as an array (..., K) of `dtype`, a float, whose blocks lie there row after
 * row: as weft_from_memory, without an alignment. */
WEFT_API weft_array *weft_from_blocks(void *blocks, const weft_encoding *encoding, weft_dtype dtype,
                                      weft_dims shape, void (*release)(void *context),
                                      void *context) WEFT_NONNULL(2);

/* An encoded array of `dtype` from separate tensors, and its tensors again: both copy bits. A
 * bfloat16 array usually has bfloat16 scales, but need not. out[2] is NULL without biases. */
WEFT_API weft_array *weft_join_encoded(weft_array *codes, weft_array *scales, weft_array *biases,
                                       weft_dtype dtype, const weft_quantize_options *options);
WEFT_API void weft_split_encoded(weft_array *x, weft_array *out[3]);

#ifdef __cplusplus
}
#endif
#endif
