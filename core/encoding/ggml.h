/* core/encoding/ggml.h -- functions shared by the GGUF block types. */
#ifndef CORE_ENCODING_GGML_H
#define CORE_ENCODING_GGML_H

#include "core/encoding/encoding.h"

typedef void weft__ggml_decode(const weft_encoding *e, const void *blocks, int64_t count,
                               float *out);
typedef void weft__ggml_encode(const weft_encoding *e, const float *in, int64_t count,
                               void *blocks);

weft__ggml_decode weft__ggml_decode_q4_0, weft__ggml_decode_q4_1, weft__ggml_decode_q5_0,
    weft__ggml_decode_q5_1, weft__ggml_decode_q8_0, weft__ggml_decode_q2_k, weft__ggml_decode_q3_k,
    weft__ggml_decode_q4_k, weft__ggml_decode_q5_k, weft__ggml_decode_q6_k,
    weft__ggml_decode_iq4_nl, weft__ggml_decode_iq4_xs, weft__ggml_decode_mxfp4;
weft__ggml_encode weft__ggml_encode_q4_0, weft__ggml_encode_q8_0, weft__ggml_encode_q4_k,
    weft__ggml_encode_q5_k, weft__ggml_encode_q6_k;

/* The 16 values of IQ4_NL and IQ4_XS. */
extern const int8_t weft__ggml_uneven[16];

/* Scale and minimum, 6 bits each, of group g of 8 in the 12 bytes of Q4_K and Q5_K. First come
 * those of groups 0 to 3, then the low nibbles of groups 4 to 7, whose high bits are the top bits
 * of the first bytes. */
void weft__ggml_scale_min(const uint8_t *packed, int g, int *scale, int *minimum);

static inline float weft__ggml_half(const uint8_t *at)
{
    return weft_float16_to_float((uint16_t)(at[0] | at[1] << 8));
}

static inline void weft__ggml_put_half(uint8_t *to, float value)
{
    const uint16_t bits = weft_float_to_float16(value);
    to[0] = (uint8_t)bits;
    to[1] = (uint8_t)(bits >> 8);
}

/* `value` truncated to an integer within [low, high]; NaN becomes 0. */
static inline int weft__ggml_whole(float value, int low, int high)
{
    if (!(value > (float)low)) {
        return value != value && low < 0 ? 0 : low;
    }
    return value < (float)high ? (int)value : high;
}

/* Defines the encoder of rows, given the encoder `NAME` of a block. */
#define WEFT__GGML_BLOCKS(NAME)                                                                    \
    void weft__ggml_encode_##NAME(const weft_encoding *e, const float *in, int64_t count,          \
                                  void *blocks)                                                    \
    {                                                                                              \
        uint8_t *b = blocks;                                                                       \
        for (; count > 0; count -= e->block, b += e->block_bytes, in += e->block) {                \
            NAME(in, b);                                                                           \
        }                                                                                          \
    }

/* Defines the decoder of rows, given the decoder `NAME` of a block. */
#define WEFT__GGML_ROWS(NAME)                                                                      \
    void weft__ggml_decode_##NAME(const weft_encoding *e, const void *blocks, int64_t count,       \
                                  float *out)                                                      \
    {                                                                                              \
        const uint8_t *b = blocks;                                                                 \
        for (; count > 0; count -= e->block, b += e->block_bytes, out += e->block) {               \
            NAME(b, out);                                                                          \
        }                                                                                          \
    }

#endif
