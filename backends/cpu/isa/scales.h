/* backends/cpu/isa/scales.h -- reads the scales of quantized groups and blocks as float32. */
#ifndef BACKENDS_CPU_ISA_SCALES_H
#define BACKENDS_CPU_ISA_SCALES_H

#include "backends/cpu/isa/simd.h"

static inline float half_to_float(uint16_t bits)
{
#if defined(__F16C__)
    return _cvtsh_ss(bits);
#elif defined(__aarch64__)
    __fp16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
#else
    return weft_float16_to_float(bits);
#endif
}

/* A float16 at an unaligned address. */
static inline float half_at(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return half_to_float(bits);
}

/* The scale or bias of an affine group: float32, float16 or bfloat16. */
static inline float load_scale(weft_dtype dtype, const char *from)
{
    uint16_t half;
    uint32_t bits;
    float value;
    if (dtype == WEFT_FLOAT32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&half, from, sizeof half);
    if (dtype == WEFT_FLOAT16)
        return half_to_float(half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The scale and minimum of run g of a Q4_K or Q5_K block, whose packed scales are at p; as
 * weft__ggml_scale_min. */
static inline void scale_and_minimum(const uint8_t *p, int g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = p[g] & 63;
        *minimum = p[g + 4] & 63;
    } else {
        *scale = (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
        *minimum = p[g + 4] >> 4 | p[g] >> 6 << 4;
    }
}

/* Prevents contracting a product with the next operation, since the definition rounds both. */
SIMD vf apart(vf x)
{
#if defined(__AVX512F__)
    __asm__("" : "+v"(x));
#elif defined(__x86_64__)
    __asm__("" : "+x"(x));
#elif defined(__aarch64__)
    __asm__("" : "+w"(x));
#endif
    return x;
}

SIMD vf floats(vi x)
{
    return __builtin_convertvector(x, vf);
}

/* The values of E4M3 codes. */
SIMD vf float8_values(vi codes)
{
    vi rest = codes & 0x7f, sign = codes << 24 & INT32_MIN;
    vi tiny = rest < 8, nan = rest == 0x7f;
    vi normal = (rest << 20) + (120 << 23);
    vi subnormal = (vi)(floats(rest) * 0x1p-9f);
    vi value = (tiny & subnormal) | (~tiny & normal) | (nan & 0x7fc00000);
    return (vf)(value | sign);
}

#endif
