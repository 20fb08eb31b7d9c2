/* core/encoding/encoding.h -- arithmetic of groups of codes, shared by the quantized formats.
 *
 * It is used by the encodings and by the ops over separate arrays of codes, scales and biases.
 * float32 arithmetic, rounded after each operation: the results of MLX on the CPU.
 */
#ifndef CORE_ENCODING_ENCODING_H
#define CORE_ENCODING_ENCODING_H

#include <string.h>

#include "weft/op.h"

/* Code i of a stream of codes of `bits` bits, packed from the lowest bit of the first byte. */
static inline uint32_t weft__code_get(const uint8_t *codes, int bits, int64_t i)
{
    int64_t bit = i * bits;
    uint32_t pair = codes[bit >> 3];
    if ((bit & 7) + bits > 8) {
        pair |= (uint32_t)codes[(bit >> 3) + 1] << 8;
    }
    return pair >> (bit & 7) & ((1u << bits) - 1);
}

/* The stream must be zeroed first. */
static inline void weft__code_put(uint8_t *codes, int bits, int64_t i, uint32_t code)
{
    int64_t bit = i * bits;
    uint32_t pair = code << (bit & 7);
    codes[bit >> 3] |= (uint8_t)pair;
    if (pair >> 8) {
        codes[(bit >> 3) + 1] |= (uint8_t)(pair >> 8);
    }
}

/* ---- affine.c ------------------------------------------------------------------------------- */

/* The scale and bias of a group, and its codes, computed from the unrounded scale and bias. */
void weft__affine_encode(const float *in, int64_t n, int bits, float *scale, float *bias,
                         uint8_t *codes);
extern const weft_encoding weft__affine_encodings[];
extern const int weft__affine_encoding_count;

/* ---- small_floats.c ------------------------------------------------------------------------- */

/* float8 E4M3: rounds to nearest even and saturates at 448, as does NaN. */
uint8_t weft__float8_from(float value);
float weft__float8_to(uint8_t code); /* 0x7f and 0xff are NaN */
/* E2M1: rounds to nearest, ties to the smaller magnitude; no negative zero; NaN becomes 0. */
uint8_t weft__float4_from(float value);
float weft__float4_to(uint32_t code);

/* The scale byte of a group, and its codes. `global` is 0, or the global scale of nvfp4 (the
 * tensor's largest magnitude). */
void weft__float_encode(weft_encoding_kind kind, const float *in, int64_t n, float global,
                        uint8_t *scale, uint8_t *codes);
/* The factor by which codes are multiplied. */
float weft__float_scale(weft_encoding_kind kind, uint8_t scale, float global);
float weft__float_code(weft_encoding_kind kind, uint32_t code);
extern const weft_encoding weft__float_encodings[];
extern const int weft__float_encoding_count;

/* ---- ggml.c --------------------------------------------------------------------------------- */

extern const weft_encoding weft__ggml_encodings[];
extern const int weft__ggml_encoding_count;

#endif
