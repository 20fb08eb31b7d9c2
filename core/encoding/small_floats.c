/* core/encoding/small_floats.c -- 4- and 8-bit floats, and groups of them with a scale: mxfp4,
 * mxfp8 (OCP Microscaling Formats 1.0) and nvfp4. */
#include "core/encoding/encoding.h"

#include <math.h>

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint8_t weft__float8_from(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 24 & 0x80, rest = bits & 0x7fffffff;
    float magnitude = fabsf(value);
    if (!(magnitude < 448)) {
        return (uint8_t)(sign | 0x7e);
    }
    if (magnitude < 0x1p-6f) { /* subnormal: multiples of 2^-9 */
        return (uint8_t)(sign | (uint32_t)rintf(magnitude * 512));
    }
    rest += 0x7ffff + (rest >> 20 & 1);
    return (uint8_t)(sign | ((rest >> 20) - (120u << 3)));
}

float weft__float8_to(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, rest = code & 0x7f;
    if (rest == 0x7f) {
        return from_bits(sign | 0x7fc00000);
    }
    float magnitude = rest < 8 ? (float)rest * 0x1p-9f : from_bits((rest << 20) + (120u << 23));
    return sign ? -magnitude : magnitude;
}

uint8_t weft__float4_from(float value)
{
    float a = fabsf(value);
    int code =
        (a > 0.25f) + (a > 0.75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5);
    return (uint8_t)(value < 0 && code > 0 ? code | 8 : code);
}

float weft__float4_to(uint32_t code)
{
    static const float values[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return values[code & 15];
}

/* ---- Groups --------------------------------------------------------------------------------- */

float weft__float_scale(weft_encoding_kind kind, uint8_t scale, float global)
{
    if (kind == WEFT_ENCODING_NVFP4) {
        float value = weft__float8_to(scale);
        return global != 0 ? value * (global / 2688) : value;
    }
    return scale == 255 ? INFINITY : ldexpf(1, scale - 127);
}

float weft__float_code(weft_encoding_kind kind, uint32_t code)
{
    return kind == WEFT_ENCODING_MXFP8 ? weft__float8_to((uint8_t)code) : weft__float4_to(code);
}

/* The power of two that scales the largest magnitude to `most` or below; 1 if it is zero. */
static uint8_t power_scale(float largest, float most)
{
    float ratio = largest / most;
    if (ratio == 0) {
        return 127;
    }
    float exponent = ceilf(log2f(ratio));
    return (uint8_t)((exponent < -127 ? -127 : exponent > 127 ? 127 : exponent) + 127);
}

void weft__float_encode(weft_encoding_kind kind, const float *in, int64_t n, float global,
                        uint8_t *scale, uint8_t *codes)
{
    const bool wide = kind == WEFT_ENCODING_MXFP8;
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fabsf(in[i]) > largest ? fabsf(in[i]) : largest;
    }
    if (kind == WEFT_ENCODING_NVFP4) {
        *scale = weft__float8_from(global != 0 ? largest / 6 * (2688 / global) : largest / 6);
    } else {
        *scale = power_scale(largest, wide ? 448 : 6);
    }
    float by = weft__float_scale(kind, *scale, global);
    memset(codes, 0, (size_t)(wide ? n : n / 2));
    for (int64_t i = 0; i < n; i++) {
        float value = by == 0 ? 0 : in[i] / by;
        weft__code_put(codes, wide ? 8 : 4, i,
                       wide ? weft__float8_from(value) : weft__float4_from(value));
    }
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static void decode(const weft_encoding *e, const void *blocks, int64_t count, float *out)
{
    const uint8_t *block = blocks;
    for (; count > 0; count -= e->block, block += e->block_bytes, out += e->block) {
        float scale = weft__float_scale(e->kind, block[0], 0);
        for (int64_t i = 0; i < e->block; i++) {
            out[i] = scale * weft__float_code(e->kind, weft__code_get(block + 1, e->bits, i));
        }
    }
}

static void encode(const weft_encoding *e, const float *in, int64_t count, void *blocks)
{
    uint8_t *block = blocks;
    for (; count > 0; count -= e->block, block += e->block_bytes, in += e->block) {
        weft__float_encode(e->kind, in, e->block, 0, block, block + 1);
    }
}

const weft_encoding weft__float_encodings[] = {
    {"mxfp4", 32, 17, WEFT_ENCODING_MXFP4, 4, WEFT_UINT8, decode, encode},
    {"mxfp8", 32, 33, WEFT_ENCODING_MXFP8, 8, WEFT_UINT8, decode, encode},
    {"nvfp4", 16, 9, WEFT_ENCODING_NVFP4, 4, WEFT_UINT8, decode, encode},
};
const int weft__float_encoding_count = sizeof weft__float_encodings / sizeof *weft__float_encodings;
