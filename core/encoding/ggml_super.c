/* core/encoding/ggml_super.c -- GGUF's blocks of 256 elements, with groups of 16 or 32 whose scales
 * take a few bits: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS.
 *
 * float32 arithmetic, rounded after each operation.
 */
#include "core/encoding/ggml.h"

enum { SIZE = 256 };

/* 2-bit codes: every 32 bytes hold 128 elements, the first 32 in the lowest bits. */
static inline int two_bits(const uint8_t *codes, int i)
{
    return codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* 4-bit codes: every 32 bytes hold 64 elements, the first 32 in the low nibbles. */
static inline int four_bits(const uint8_t *codes, int i)
{
    return codes[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

/* Single bits: 32 bytes; element i is bit i / 32 of byte i % 32. */
static inline int one_bit(const uint8_t *codes, int i)
{
    return codes[i % 32] >> i / 32 & 1;
}

/* Layout: 16 bytes of scales (low nibbles) and minima, 64 of codes, two halves. */
static void q2_k(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b + 80), least = weft__ggml_half(b + 82);
    for (int i = 0; i < SIZE; i++) {
        const float scale = d * (float)(b[i / 16] & 15), minimum = least * (float)(b[i / 16] >> 4);
        out[i] = scale * (float)two_bits(b + 16, i) - minimum;
    }
}

/* Layout: 32 bytes of high bits, 64 of low bits, 12 of scales, a half. Codes without the high bit
 * are reduced by four. */
static void q3_k(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b + 108);
    const uint8_t *scales = b + 96;
    for (int i = 0; i < SIZE; i++) {
        const int g = i / 16;
        const int low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
        const float scale = d * (float)((low | high << 4) - 32);
        out[i] = scale * (float)(two_bits(b + 32, i) - (one_bit(b, i) ? 0 : 4));
    }
}

void weft__ggml_scale_min(const uint8_t *packed, int g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = packed[g] & 63;
        *minimum = packed[g + 4] & 63;
    } else {
        *scale = (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
        *minimum = packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    }
}

/* Layout: two halves, 12 bytes of scales and minima, 32 bytes of fifth bits if `five`, 128 bytes of
 * low bits. */
static void scales_and_minima(const uint8_t *b, bool five, float *out)
{
    const float d = weft__ggml_half(b), least = weft__ggml_half(b + 2);
    const uint8_t *codes = b + (five ? 48 : 16);
    for (int g = 0; g < SIZE / 32; g++) {
        int scale, minimum;
        weft__ggml_scale_min(b + 4, g, &scale, &minimum);
        const float by = d * (float)scale, less = least * (float)minimum;
        for (int i = 32 * g; i < 32 * g + 32; i++) {
            const int code = four_bits(codes, i) | (five ? one_bit(b + 16, i) << 4 : 0);
            out[i] = by * (float)code - less;
        }
    }
}

static void q4_k(const uint8_t *b, float *out)
{
    scales_and_minima(b, false, out);
}

static void q5_k(const uint8_t *b, float *out)
{
    scales_and_minima(b, true, out);
}

/* Layout: 128 bytes of low nibbles (64 bytes per 128 elements), 64 of high bits, 16 signed scales,
 * a half. */
static void q6_k(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b + 208);
    for (int i = 0; i < SIZE; i++) {
        const int low = b[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
        const float scale = d * (float)(int8_t)b[192 + i / 16];
        out[i] = scale * (float)((low | two_bits(b + 128, i) << 4) - 32);
    }
}

/* Layout: a half, 16 bits with the high bits of the 8 scales, 4 bytes with their low nibbles, then
 * 16 bytes of codes per 32 elements. */
static void iq4_xs(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b);
    const int high = b[2] | b[3] << 8;
    for (int g = 0; g < SIZE / 32; g++) {
        const int low = b[4 + g / 2] >> g % 2 * 4 & 15;
        const float scale = d * (float)((low | (high >> 2 * g & 3) << 4) - 32);
        const uint8_t *codes = b + 8 + 16 * g;
        for (int i = 0; i < 16; i++) {
            out[32 * g + i] = scale * (float)weft__ggml_uneven[codes[i] & 15];
            out[32 * g + 16 + i] = scale * (float)weft__ggml_uneven[codes[i] >> 4];
        }
    }
}

WEFT__GGML_ROWS(q2_k)
WEFT__GGML_ROWS(q3_k)
WEFT__GGML_ROWS(q4_k)
WEFT__GGML_ROWS(q5_k)
WEFT__GGML_ROWS(q6_k)
WEFT__GGML_ROWS(iq4_xs)
