/* backends/cpu/isa/simd.h -- float vectors of the instruction set's width. */
#ifndef BACKENDS_CPU_ISA_SIMD_H
#define BACKENDS_CPU_ISA_SIMD_H

#include <stdint.h>
#include <string.h>

#include "weft/dtype.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef float vf_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
typedef uint16_t vh_any __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));

#define SIMD static inline __attribute__((always_inline))

SIMD vf vload(const float *p)
{
    return *(const vf_any *)p;
}

SIMD void vstore(float *p, vf x)
{
    *(vf_any *)p = x;
}

SIMD vf vset(float x)
{
    return x - (vf){0};
}

/* Loads the first n < LANES lanes; the others are 0. */
SIMD vf vload_part(const float *p, int64_t n)
{
    vf x = {0};
    memcpy(&x, p, (size_t)n * sizeof(float));
    return x;
}

SIMD void vstore_part(float *p, vf x, int64_t n)
{
    memcpy(p, &x, (size_t)n * sizeof(float));
}

/* The index of each lane. Masks are computed from it, because writing their lanes one by one makes
 * a sanitized build take minutes. */
SIMD vi lane_numbers(void)
{
#if defined(__AVX512F__)
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
    return (vi){0, 1, 2, 3, 4, 5, 6, 7};
#else
    return (vi){0, 1, 2, 3};
#endif
}

/* Lane i of the result is lane from[i] of x; with two vectors, the lanes of b are numbered after
 * those of a. clang has no builtin for indices that are not literal constants. */
#if defined(__clang__)
SIMD vf vpermute(vf x, vi from)
{
    vf y = x;
    for (int i = 0; i < LANES; i++)
        y[i] = x[from[i]];
    return y;
}

SIMD vf vpermute2(vf a, vf b, vi from)
{
    vf y = a;
    for (int i = 0; i < LANES; i++)
        y[i] = from[i] < LANES ? a[from[i]] : b[from[i] - LANES];
    return y;
}
#else
SIMD vf vpermute(vf x, vi from)
{
    return __builtin_shuffle(x, from);
}

SIMD vf vpermute2(vf a, vf b, vi from)
{
    return __builtin_shuffle(a, b, from);
}
#endif

/* Exchanges the lanes whose indices differ in the bit `half`. */
SIMD vf vswap(vf x, int half)
{
    return vpermute(x, lane_numbers() ^ half);
}

/* The sum of the lanes, adding halves. */
SIMD float vsum(vf x)
{
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        x += vswap(x, half);
    return x[0];
}

/* Lanes of a, and where the index has the bit `half` of b, plus those that vswap exchanges. */
SIMD vf vsum_halves(vf a, vf b, int half)
{
    const vi lane = lane_numbers(), from = lane + (((lane & half) != 0) & LANES);
    return vpermute2(a, b, from) + vpermute2(a, b, from ^ half);
}

/* The sums of the lanes of four vectors, each with the bits of vsum. */
SIMD void vsum4(const vf *x, float *sum)
{
    const vf a = vsum_halves(x[0], x[1], LANES / 2), b = vsum_halves(x[2], x[3], LANES / 2);
    vf all = vsum_halves(a, b, LANES / 4);
#pragma GCC unroll 4
    for (int half = LANES / 8; half > 0; half /= 2)
        all += vswap(all, half);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sum[i] = all[i % 2 * (LANES / 2) + i / 2 * (LANES / 4)];
}

SIMD vf vmax(vf a, vf b)
{
    vi greater = a > b;
    return (vf)(((vi)a & greater) | ((vi)b & ~greater));
}

SIMD float vmax_lane(vf x)
{
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        x = vmax(x, vswap(x, half));
    return x[0];
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

typedef uint8_t vb_any __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int8_t vc_any __attribute__((vector_size(LANES), aligned(1), may_alias));

#if defined(__aarch64__)
/* Four bytes from any address; gcc handles vectors of so few one element at a time. */
SIMD uint8x8_t four_bytes(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcreate_u8(four);
}
#endif

/* LANES bytes as integers. */
SIMD vi vload_bytes(const uint8_t *p)
{
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__aarch64__)
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(p))));
#else
    return __builtin_convertvector(*(const vb_any *)p, vi);
#endif
}

/* The same with signs. */
SIMD vi vload_signed(const uint8_t *p)
{
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__aarch64__)
    return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(p)))));
#else
    return __builtin_convertvector(*(const vc_any *)p, vi);
#endif
}

/* The lowest byte of each integer. */
SIMD void vstore_bytes(int8_t *p, vi x)
{
#if defined(__aarch64__)
    const int16x4_t half = vmovn_s32((int32x4_t)x);
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(half, half))), 0);
    memcpy(p, &four, sizeof four);
#else
    *(vc_any *)(void *)p = __builtin_convertvector(x, vc_any);
#endif
}

/* ---- 16-bit floats on load and store -------------------------------------------------------- */

SIMD vf vload_bfloat16(const uint16_t *p)
{
    vh bits = *(const vh_any *)p;
    return (vf)(__builtin_convertvector(bits, vu) << 16);
}

SIMD vf vload_float16(const uint16_t *p)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(__aarch64__)
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    /* Exponent and fraction as a float, scaled by 2^112, which handles subnormals; infinity and NaN
     * (then 2^16 and larger) get the largest exponent. */
    vh half = *(const vh_any *)p;
    vu bits = __builtin_convertvector(half, vu);
    vf magnitude = (vf)((bits & 0x7fff) << 13) * 0x1p112f;
    vi special = magnitude >= vset(65536.0f);
    vu result = (vu)magnitude | ((vu)special & 0x7f800000) | ((bits & 0x8000) << 16);
    return (vf)result;
#endif
}

SIMD void vstore_bfloat16(uint16_t *p, vf x)
{
    vu bits = (vu)x;
    vu rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    vu quiet = (bits >> 16) | 0x40; /* keeps NaN a NaN */
    vi nan = x != x;
    vu chosen = (quiet & (vu)nan) | (rounded & ~(vu)nan);
    *(vh_any *)p = __builtin_convertvector(chosen, vh);
}

SIMD void vstore_float16(uint16_t *p, vf x)
{
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
#else
    for (int i = 0; i < LANES; i++)
        p[i] = weft_float_to_float16(x[i]);
#endif
}

/* Loads elements i .. i + LANES of a row of float32, float16 or bfloat16. */
SIMD vf vload_as(weft_dtype dtype, const void *row, int64_t i)
{
    if (dtype == WEFT_BFLOAT16)
        return vload_bfloat16((const uint16_t *)row + i);
    if (dtype == WEFT_FLOAT16)
        return vload_float16((const uint16_t *)row + i);
    return vload((const float *)row + i);
}

/* Loads one element of such a row. */
SIMD float get_as(weft_dtype dtype, const void *row, int64_t i)
{
    if (dtype == WEFT_BFLOAT16)
        return weft_bfloat16_to_float(((const uint16_t *)row)[i]);
    if (dtype == WEFT_FLOAT16)
        return weft_float16_to_float(((const uint16_t *)row)[i]);
    return ((const float *)row)[i];
}

#endif
