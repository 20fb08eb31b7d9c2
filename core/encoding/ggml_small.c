/* core/encoding/ggml_small.c -- GGUF's blocks of 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL,
 * MXFP4.
 *
 * Codes of 4 bits are in 16 bytes, with the first half of the block in the low nibbles. float32
 * arithmetic, rounded after each operation.
 */
#include "core/encoding/ggml.h"

enum { HALF = 16, SIZE = 32 };

/* The 4-bit code of element i. */
static inline int nibble(const uint8_t *codes, int i)
{
    return i < HALF ? codes[i] & 15 : codes[i - HALF] >> 4;
}

/* The 5-bit code of element i; its high bit is in 4 separate bytes. */
static inline int five_bits(const uint8_t *high, const uint8_t *codes, int i)
{
    return nibble(codes, i) | (high[i / 8] >> i % 8 & 1) << 4;
}

static void q4_0(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)(nibble(b + 2, i) - 8);
    }
}

static void q4_1(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b), m = weft__ggml_half(b + 2);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)nibble(b + 4, i) + m;
    }
}

static void q5_0(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)(five_bits(b + 2, b + 6, i) - 16);
    }
}

static void q5_1(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b), m = weft__ggml_half(b + 2);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)five_bits(b + 4, b + 8, i) + m;
    }
}

static void q8_0(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)(int8_t)b[2 + i];
    }
}

const int8_t weft__ggml_uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static void iq4_nl(const uint8_t *b, float *out)
{
    const float d = weft__ggml_half(b);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)weft__ggml_uneven[nibble(b + 2, i)];
    }
}

/* The table has twice the values of E2M1, so half the power of two is the factor. */
static void mxfp4(const uint8_t *b, float *out)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t bits = *b < 2 ? (uint32_t)0x00200000 << *b : (uint32_t)(*b - 1) << 23;
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int i = 0; i < SIZE; i++) {
        out[i] = d * (float)doubled[nibble(b + 1, i)];
    }
}

WEFT__GGML_ROWS(q4_0)
WEFT__GGML_ROWS(q4_1)
WEFT__GGML_ROWS(q5_0)
WEFT__GGML_ROWS(q5_1)
WEFT__GGML_ROWS(q8_0)
WEFT__GGML_ROWS(iq4_nl)
WEFT__GGML_ROWS(mxfp4)
