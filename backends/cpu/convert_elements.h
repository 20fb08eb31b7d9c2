/* backends/cpu/convert_elements.h -- branch-free conversion of one element between any two dtypes,
 * so that loops vectorize. Float to integer saturates and NaN becomes 0; integer to integer wraps;
 * conversion to a 16-bit float rounds once, from any source. */
#ifndef BACKENDS_CPU_CONVERT_ELEMENTS_H
#define BACKENDS_CPU_CONVERT_ELEMENTS_H

#include "backends/cpu/vocabulary_bits.h"
#include "weft/dtype.h"

/* ---- 16-bit floats -------------------------------------------------------------------------- */

static inline float from_bfloat16(uint16_t x)
{
    return bits_float((uint32_t)x << 16);
}

static inline uint16_t to_bfloat16(float x)
{
    uint32_t word = float_bits(x);
    uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
    return (uint16_t)(x != x ? word >> 16 | 0x40u : rounded);
}

/* The exponent is adjusted by a multiplication, which also handles subnormals. */
static inline float from_float16(uint16_t x)
{
    uint32_t magnitude = x & 0x7fffu, sign = (uint32_t)(x & 0x8000u) << 16;
    uint32_t word = float_bits(bits_float(magnitude << 13) * 0x1p112f);
    return bits_float((magnitude >= 0x7c00u ? word | 0x7f800000u : word) | sign);
}

static inline uint16_t to_float16(float x)
{
    uint32_t word = float_bits(x), sign = word >> 16 & 0x8000u;
    uint32_t magnitude = word & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* Below 2^-14 the unit in the last place is 2^-24, which is that of 0.5 in float. */
    uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x47800000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? nan : half;
    return (uint16_t)(sign | half);
}

/* A float such that rounding it to fewer bits equals rounding x itself: truncated, with the last
 * bit set if anything was lost (Boldo and Melquiond 2005). */
static inline float round_to_odd(double x)
{
    float nearest = (float)x;
    uint32_t word = float_bits(nearest);
    int lost = ((double)nearest != x) & (x == x);
    word -= (uint32_t)(lost & (__builtin_fabs((double)nearest) > __builtin_fabs(x)));
    return bits_float(word | (uint32_t)lost);
}

/* Conversions to 16-bit floats go through float: exactly from 32-bit floats, rounded to odd from
 * wider types. */
static inline float narrow_u64(uint64_t x)
{
    uint64_t sticky = (x & 0x7ffu) != 0 ? UINT64_C(0x800) : 0;
    uint64_t kept =
        x >> 53 ? (x & ~UINT64_C(0x7ff)) | sticky : x; /* 53 bits, the lowest one sticky */
    return round_to_odd((double)kept);
}

static inline float narrow_i64(int64_t x)
{
    uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    float y = narrow_u64(magnitude);
    return x < 0 ? -y : y;
}

#define NARROW(x)                                                                                  \
    _Generic((x), float                                                                            \
             : (float)(x), double                                                                  \
             : round_to_odd((double)(x)), int32_t                                                  \
             : round_to_odd((double)(x)), uint32_t                                                 \
             : round_to_odd((double)(x)), int64_t                                                  \
             : narrow_i64((int64_t)(x)), uint64_t                                                  \
             : narrow_u64((uint64_t)(x)), default                                                  \
             : (float)(x))

/* ---- Real to integer ------------------------------------------------------------------------ */

/* `end` is the first value above T, which every real type represents exactly; `last` is the largest
 * real below it. The conversion itself is always in range. `wide` is an intermediate type. */
#define DEFINE_SATURATE(t, T, wide, r, R, low, end, last, highest)                                 \
    static inline T saturate_##t##_##r(R x)                                                        \
    {                                                                                              \
        R c = x == x ? x : 0;                                                                      \
        c = c < (low) ? (low) : c;                                                                 \
        c = c > (last) ? (last) : c;                                                               \
        return x >= (end) ? (highest) : (T)(wide)c;                                                \
    }

DEFINE_SATURATE(u8, uint8_t, int32_t, f32, float, 0, 256, 255, UINT8_MAX)
DEFINE_SATURATE(u16, uint16_t, int32_t, f32, float, 0, 65536, 65535, UINT16_MAX)
DEFINE_SATURATE(u32, uint32_t, uint32_t, f32, float, 0, 0x1p32f, 0x1.fffffep31f, UINT32_MAX)
DEFINE_SATURATE(u64, uint64_t, uint64_t, f32, float, 0, 0x1p64f, 0x1.fffffep63f, UINT64_MAX)
DEFINE_SATURATE(i8, int8_t, int32_t, f32, float, -128, 128, 127, INT8_MAX)
DEFINE_SATURATE(i16, int16_t, int32_t, f32, float, -32768, 32768, 32767, INT16_MAX)
DEFINE_SATURATE(i32, int32_t, int32_t, f32, float, -0x1p31f, 0x1p31f, 0x1.fffffep30f, INT32_MAX)
DEFINE_SATURATE(i64, int64_t, int64_t, f32, float, -0x1p63f, 0x1p63f, 0x1.fffffep62f, INT64_MAX)
DEFINE_SATURATE(u8, uint8_t, int32_t, f64, double, 0, 256, 255, UINT8_MAX)
DEFINE_SATURATE(u16, uint16_t, int32_t, f64, double, 0, 65536, 65535, UINT16_MAX)
DEFINE_SATURATE(u32, uint32_t, uint32_t, f64, double, 0, 0x1p32, 0x1.fffffffep31, UINT32_MAX)
DEFINE_SATURATE(u64, uint64_t, uint64_t, f64, double, 0, 0x1p64, 0x1.fffffffffffffp63, UINT64_MAX)
DEFINE_SATURATE(i8, int8_t, int32_t, f64, double, -128, 128, 127, INT8_MAX)
DEFINE_SATURATE(i16, int16_t, int32_t, f64, double, -32768, 32768, 32767, INT16_MAX)
DEFINE_SATURATE(i32, int32_t, int32_t, f64, double, -0x1p31, 0x1p31, 0x1.fffffffcp30, INT32_MAX)
DEFINE_SATURATE(i64, int64_t, int64_t, f64, double, -0x1p63, 0x1p63, 0x1.fffffffffffffp62,
                INT64_MAX)
#undef DEFINE_SATURATE

#define WHOLE(t, T, x)                                                                             \
    _Generic((x), float                                                                            \
             : saturate_##t##_f32((float)(x)), double                                              \
             : saturate_##t##_f64((double)(x)), default                                            \
             : (T)(x))

/* ---- Load and store, named by dtype; bool, which is a macro, is called truth ----------------- */

#define LOAD_truth(x) ((uint8_t)((x) != 0))
#define LOAD_uint8(x) (x)
#define LOAD_uint16(x) (x)
#define LOAD_uint32(x) (x)
#define LOAD_uint64(x) (x)
#define LOAD_int8(x) (x)
#define LOAD_int16(x) (x)
#define LOAD_int32(x) (x)
#define LOAD_int64(x) (x)
#define LOAD_float16(x) from_float16(x)
#define LOAD_bfloat16(x) from_bfloat16(x)
#define LOAD_float32(x) (x)
#define LOAD_float64(x) (x)
#define LOAD_complex64(x) ((x).re)

#define STORE_truth(x) ((uint8_t)((x) != 0))
#define STORE_uint8(x) WHOLE(u8, uint8_t, x)
#define STORE_uint16(x) WHOLE(u16, uint16_t, x)
#define STORE_uint32(x) WHOLE(u32, uint32_t, x)
#define STORE_uint64(x) WHOLE(u64, uint64_t, x)
#define STORE_int8(x) WHOLE(i8, int8_t, x)
#define STORE_int16(x) WHOLE(i16, int16_t, x)
#define STORE_int32(x) WHOLE(i32, int32_t, x)
#define STORE_int64(x) WHOLE(i64, int64_t, x)
#define STORE_float16(x) to_float16(NARROW(x))
#define STORE_bfloat16(x) to_bfloat16(NARROW(x))
#define STORE_float32(x) ((float)(x))
#define STORE_float64(x) ((double)(x))
#define STORE_complex64(x) ((weft_complex64){(float)(x), 0})

#endif
