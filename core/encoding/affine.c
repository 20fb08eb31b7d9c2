/* core/encoding/affine.c -- affine encoding: groups of codes with value = scale * code + bias. */
#include "core/encoding/encoding.h"

#include <math.h>

/* Code 0 represents the end of the range that is larger in magnitude exactly; 0 is exact too where
 * the scale allows it. NaN elements do not affect the scale and become code 0. */
void weft__affine_encode(const float *in, int64_t n, int bits, float *scale, float *bias,
                         uint8_t *codes)
{
    const float most = (float)((1 << bits) - 1), least_scale = 1e-7f;
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        low = in[i] < low ? in[i] : low;
        high = in[i] > high ? in[i] : high;
    }
    if (low > high) { /* all elements are NaN */
        low = high = 0;
    }
    bool from_low = fabsf(low) > fabsf(high);
    float s = (high - low) / most, edge = from_low ? low : high;
    s = s < least_scale ? least_scale : s;
    s = from_low ? s : -s;
    float steps = rintf(edge / s);
    float b = steps != 0 ? edge : 0;
    s = steps != 0 ? edge / steps : s;
    memset(codes, 0, (size_t)(n * bits / 8));
    for (int64_t i = 0; i < n; i++) {
        float q = rintf((in[i] - b) / s);
        q = q > 0 ? (q < most ? q : most) : 0;
        weft__code_put(codes, bits, i, (uint32_t)q);
    }
    *scale = s;
    *bias = b;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static float load(weft_dtype dtype, const char *from)
{
    uint16_t half;
    float value;
    if (dtype == WEFT_FLOAT32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&half, from, sizeof half);
    return dtype == WEFT_FLOAT16 ? weft_float16_to_float(half) : weft_bfloat16_to_float(half);
}

static void store(weft_dtype dtype, char *to, float value)
{
    if (dtype == WEFT_FLOAT32) {
        memcpy(to, &value, sizeof value);
    } else {
        uint16_t half =
            dtype == WEFT_FLOAT16 ? weft_float_to_float16(value) : weft_float_to_bfloat16(value);
        memcpy(to, &half, sizeof half);
    }
}

static void decode(const weft_encoding *e, const void *blocks, int64_t count, float *out)
{
    const int64_t size = (int64_t)weft_dtype_size(e->scale);
    const char *block = blocks;
    for (; count > 0; count -= e->block, block += e->block_bytes, out += e->block) {
        float scale = load(e->scale, block), bias = load(e->scale, block + size);
        const uint8_t *codes = (const uint8_t *)block + 2 * size;
        for (int64_t i = 0; i < e->block; i++) {
            out[i] = scale * (float)weft__code_get(codes, e->bits, i) + bias;
        }
    }
}

static void encode(const weft_encoding *e, const float *in, int64_t count, void *blocks)
{
    const int64_t size = (int64_t)weft_dtype_size(e->scale);
    char *block = blocks;
    for (; count > 0; count -= e->block, block += e->block_bytes, in += e->block) {
        float scale, bias;
        weft__affine_encode(in, e->block, e->bits, &scale, &bias, (uint8_t *)block + 2 * size);
        store(e->scale, block, scale);
        store(e->scale, block + size, bias);
    }
}

#define ENCODING(BITS, GROUP, DTYPE, NAME, SIZE)                                                   \
    {                                                                                              \
        .name = "affine-" #BITS "-" #GROUP "-" NAME, .block = (GROUP),                             \
        .block_bytes = 2 * (SIZE) + (GROUP) * (BITS) / 8, .kind = WEFT_ENCODING_AFFINE,            \
        .bits = (BITS), .scale = (DTYPE), .decode = decode, .encode = encode                       \
    }
#define DTYPES(BITS, GROUP)                                                                        \
    ENCODING(BITS, GROUP, WEFT_FLOAT32, "float32", 4),                                             \
        ENCODING(BITS, GROUP, WEFT_FLOAT16, "float16", 2),                                         \
        ENCODING(BITS, GROUP, WEFT_BFLOAT16, "bfloat16", 2)
#define GROUPS(BITS) DTYPES(BITS, 32), DTYPES(BITS, 64), DTYPES(BITS, 128)

const weft_encoding weft__affine_encodings[] = {GROUPS(2), GROUPS(3), GROUPS(4),
                                                GROUPS(5), GROUPS(6), GROUPS(8)};
const int weft__affine_encoding_count =
    sizeof weft__affine_encodings / sizeof *weft__affine_encodings;
