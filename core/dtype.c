/* core/dtype.c -- dtypes: sizes, names, promotion, conversions of 16-bit floats. */
#include "weft/dtype.h"

#include <string.h>

typedef struct dtype_info {
    const char *name;
    unsigned char size;
    unsigned char klass;
} dtype_info;

/* Functions of a dtype that does not exist use the last row: harmless values. What makes arrays
 * refuses such a dtype. */
static const dtype_info infos[WEFT_DTYPE_COUNT + 1] = {
    [WEFT_BOOL] = {"bool", 1, WEFT_CLASS_BOOL},
    [WEFT_UINT8] = {"uint8", 1, WEFT_CLASS_INTEGER},
    [WEFT_UINT16] = {"uint16", 2, WEFT_CLASS_INTEGER},
    [WEFT_UINT32] = {"uint32", 4, WEFT_CLASS_INTEGER},
    [WEFT_UINT64] = {"uint64", 8, WEFT_CLASS_INTEGER},
    [WEFT_INT8] = {"int8", 1, WEFT_CLASS_INTEGER},
    [WEFT_INT16] = {"int16", 2, WEFT_CLASS_INTEGER},
    [WEFT_INT32] = {"int32", 4, WEFT_CLASS_INTEGER},
    [WEFT_INT64] = {"int64", 8, WEFT_CLASS_INTEGER},
    [WEFT_FLOAT16] = {"float16", 2, WEFT_CLASS_REAL},
    [WEFT_BFLOAT16] = {"bfloat16", 2, WEFT_CLASS_REAL},
    [WEFT_FLOAT32] = {"float32", 4, WEFT_CLASS_REAL},
    [WEFT_FLOAT64] = {"float64", 8, WEFT_CLASS_REAL},
    [WEFT_COMPLEX64] = {"complex64", 8, WEFT_CLASS_COMPLEX},
    [WEFT_DTYPE_COUNT] = {"no dtype", 1, WEFT_CLASS_BOOL},
};

static const dtype_info *info(weft_dtype dtype)
{
    const unsigned row = (unsigned)dtype;
    return &infos[row < WEFT_DTYPE_COUNT ? row : WEFT_DTYPE_COUNT];
}

size_t weft_dtype_size(weft_dtype dtype)
{
    return info(dtype)->size;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return info(dtype)->name;
}

weft_class weft_dtype_class(weft_dtype dtype)
{
    return (weft_class)info(dtype)->klass;
}

bool weft_dtype_is_float(weft_dtype dtype)
{
    return info(dtype)->klass == WEFT_CLASS_REAL;
}

bool weft_dtype_is_integer(weft_dtype dtype)
{
    return info(dtype)->klass == WEFT_CLASS_INTEGER;
}

bool weft_dtype_is_signed(weft_dtype dtype)
{
    return dtype >= WEFT_INT8 && dtype <= WEFT_INT64;
}

bool weft_dtype_parse(const char *name, weft_dtype *out)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        if (strcmp(name, infos[i].name) == 0) {
            *out = (weft_dtype)i;
            return true;
        }
    }
    return false;
}

/* A signed type wide enough for both an unsigned and a signed one; float32 when there is none. */
static weft_dtype promote_mixed_sign(weft_dtype u, weft_dtype s)
{
    if (u == WEFT_UINT64) {
        return WEFT_FLOAT32;
    }
    size_t need = 2 * info(u)->size > info(s)->size ? 2 * (size_t)info(u)->size : info(s)->size;
    return need == 2 ? WEFT_INT16 : need == 4 ? WEFT_INT32 : WEFT_INT64;
}

static weft_dtype promote_floats(weft_dtype a, weft_dtype b)
{
    if (a == WEFT_FLOAT16 && b == WEFT_BFLOAT16) {
        return WEFT_FLOAT32;
    }
    return b; /* otherwise the enum is ordered by rank */
}

weft_dtype weft_promote(weft_dtype a, weft_dtype b)
{
    if (a == b) {
        return a;
    }
    if (a > b) {
        weft_dtype t = a;
        a = b;
        b = t;
    }
    /* From here on a comes before b in the enum: bool, unsigned, signed, floats, complex. */
    if (a == WEFT_BOOL || b == WEFT_COMPLEX64) {
        return b;
    }
    if (weft_dtype_is_float(a)) {
        return promote_floats(a, b);
    }
    if (weft_dtype_is_float(b) || weft_dtype_is_signed(a) == weft_dtype_is_signed(b)) {
        return b;
    }
    return promote_mixed_sign(a, b);
}

float weft_bfloat16_to_float(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t weft_float_to_bfloat16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((word >> 16) | 0x0040u); /* makes the NaN quiet, so that it remains a NaN
                                                    * when truncated */
    }
    return (uint16_t)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

float weft_float16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    uint32_t word;
    if (exponent == 0x1f) {
        word = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent != 0) {
        word = sign | (exponent + 112u) << 23 | mantissa << 13;
    } else {
        float magnitude = (float)mantissa * 0x1p-24f; /* subnormal: exact in float32 */
        memcpy(&word, &magnitude, sizeof word);
        word |= sign;
    }
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t weft_float_to_float16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    uint16_t sign = (uint16_t)(word >> 16 & 0x8000u);
    uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x47800000u) { /* 65536 and above */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below the smallest normal: rounded to a multiple of 2^-24 */
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        scaled += 0.5f; /* 0.5 has an ulp of 2^-24, so this addition rounds */
        memcpy(&magnitude, &scaled, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000u));
    }
    uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}
