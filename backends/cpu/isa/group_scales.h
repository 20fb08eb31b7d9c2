/* backends/cpu/isa/group_scales.h -- reads the scales and minima of several groups of quantized
 * weights.
 */
#ifndef BACKENDS_CPU_ISA_GROUP_SCALES_H
#define BACKENDS_CPU_ISA_GROUP_SCALES_H

#include "backends/cpu/isa/scales.h"
#include "backends/cpu/kernels.h"

/* CHUNK: groups whose scales are decoded together. */
enum { CHUNK = 16, RUN = 32, SUPERBLOCK = 256 };

/* Scales and minima of groups: one for each, or one for each run of a superblock. */
typedef struct group_scales {
    float s[CHUNK], b[CHUNK];
} group_scales;

/* Those of `n` groups; `from` and `bias` point to the first one's. */
typedef void read_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                         group_scales *out);

/* Scales are stored one by one: a vector load that follows would wait for the stores to retire. */

/* n numbers of a dtype at from, from + step, ... */
SIMD void read_floats(weft_dtype dtype, const uint8_t *from, int64_t step, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = load_scale(dtype, (const char *)from + i * step);
}

SIMD void affine_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                        group_scales *out)
{
    const int64_t step = c->scale_group;
    if (c->scale == WEFT_BFLOAT16) {
        read_floats(WEFT_BFLOAT16, from, step, n, out->s);
        read_floats(WEFT_BFLOAT16, bias, step, n, out->b);
    } else if (c->scale == WEFT_FLOAT16) {
        read_floats(WEFT_FLOAT16, from, step, n, out->s);
        read_floats(WEFT_FLOAT16, bias, step, n, out->b);
    } else {
        read_floats(WEFT_FLOAT32, from, step, n, out->s);
        read_floats(WEFT_FLOAT32, bias, step, n, out->b);
    }
}

/* Powers of two (E8M0), times 2^-less for less 0 or 1. */
SIMD void read_powers(const uint8_t *from, int64_t step, int less, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = from[i * step], tiny = 0x00400000u >> less << (code & 1);
        const uint32_t bits = code > (uint32_t)less ? (code - (uint32_t)less) << 23 : tiny;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

SIMD void mx_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    (void)bias;
    read_powers(from, c->scale_group, 0, n, out->s);
}

#if defined(__AVX2__)
/* The 8 scales and 8 minima of a Q4_K or Q5_K block, as bytes. Bits 0 to 5 of bytes 4 to 11 are
 * the first four of each; the nibbles of bytes 12 to 15 the lower bits of the others, and bits 6
 * and 7 of bytes 4 to 11 their upper bits. */
SIMD __m128i k_scale_bytes(__m128i block)
{
    const __m128i lower = _mm_shuffle_epi8(
        block, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i upper = _mm_shuffle_epi8(
        block, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i nibbles = _mm_blend_epi16(lower, _mm_srli_epi16(lower, 4), 0xc0);
    const __m128i masks = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    const __m128i top = _mm_and_si128(_mm_srli_epi16(upper, 2), _mm_set1_epi8(0x30));
    return _mm_or_si128(_mm_and_si128(nibbles, masks), top);
}
#endif

/* Of the 8 runs of a Q4_K or Q5_K block; minima are subtracted. */
SIMD void k_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                   group_scales *out)
{
    (void)c, (void)bias, (void)n;
#if defined(__AVX2__)
    const __m128i block = _mm_loadu_si128((const void *)from), bytes = k_scale_bytes(block);
    const __m128 halves = _mm_cvtph_ps(block); /* d, the minimum's factor */
#endif
#if defined(__AVX512F__)
    const vi sign = lane_numbers() >> 3 << 31;
    const vf factors =
        (vf)((vi)vpermute((vf)_mm512_castps128_ps512(halves), lane_numbers() >> 3) ^ sign);
    const vf all = floats((vi)_mm512_cvtepu8_epi32(bytes)) * factors;
    _mm256_storeu_ps(out->s, _mm512_castps512_ps256((__m512)all));
    _mm256_storeu_ps(out->b, _mm512_extractf32x8_ps((__m512)all, 1));
#elif defined(__AVX2__)
    const vf d = (vf)_mm256_broadcastss_ps(halves);
    const vf m = (vf)_mm256_broadcastss_ps(_mm_movehdup_ps(halves));
    vstore(out->s, floats((vi)_mm256_cvtepu8_epi32(bytes)) * d);
    vstore(out->b, floats((vi)_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))) * -m);
#else
    uint64_t first, scales, minima;
    uint32_t last;
    memcpy(&first, from + 4, sizeof first);
    memcpy(&last, from + 12, sizeof last);
    const uint64_t top = first >> 2 & 0x3030303030303030;
    scales = (first & 0x3f3f3f3f) | ((last & 0x0f0f0f0f) | (top & UINT32_MAX)) << 32;
    minima = (first >> 32 & 0x3f3f3f3f) | ((last >> 4 & 0x0f0f0f0f) | top >> 32) << 32;
    const vf d = vset(half_at(from)), m = vset(-half_at(from + 2));
    uint8_t bytes[2][8];
    memcpy(bytes[0], &scales, sizeof scales);
    memcpy(bytes[1], &minima, sizeof minima);
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += LANES) {
        vstore(out->s + i, floats(vload_bytes(bytes[0] + i)) * d);
        vstore(out->b + i, floats(vload_bytes(bytes[1] + i)) * m);
    }
#endif
}

SIMD void nv_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    (void)bias;
    uint8_t bytes[CHUNK] = {0};
    for (int64_t i = 0; i < n; i++)
        bytes[i] = from[i * c->scale_group];
#pragma GCC unroll 4
    for (int i = 0; i < CHUNK; i += LANES)
        vstore(out->s + i, float8_values(vload_bytes(bytes + i)));
}

/* For values that are twice as large. */
SIMD void gguf_mx_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                         group_scales *out)
{
    (void)bias;
    read_powers(from, c->scale_group, 1, n, out->s);
}

/* The float16 at p, of a block that is longer than 8 bytes. */
SIMD float block_half(const uint8_t *p)
{
#if defined(__F16C__)
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p)));
#else
    return half_at(p);
#endif
}

/* A float16 in front of each block; and two of them. */
SIMD void half_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                      group_scales *out)
{
    (void)bias;
    for (int64_t i = 0; i < n; i++)
        out->s[i] = block_half(from + i * c->scale_group);
}

SIMD void half_minima(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                      group_scales *out)
{
    (void)bias;
    for (int64_t i = 0; i < n; i++) {
        out->s[i] = block_half(from + i * c->scale_group);
        out->b[i] = block_half(from + i * c->scale_group + 2);
    }
}

/* Of the 8 runs of an IQ4_XS block. */
SIMD void xs_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    const float d = half_at(from);
    (void)c, (void)bias, (void)n;
    for (int s = 0; s < 8; s++) {
        const int low = from[4 + s / 2] >> s % 2 * 4 & 15;
        const int high = (from[2] | from[3] << 8) >> 2 * s & 3;
        out->s[s] = d * (float)((low | high << 4) - 32);
    }
}

#if defined(__AVX512F__)
SIMD void q6_scales(const cpu_codes *c, const uint8_t *from, const uint8_t *bias, int64_t n,
                    group_scales *out)
{
    (void)c, (void)bias, (void)n;
    vstore(out->s, floats(vload_signed(from + 192)) * vset(half_at(from + 208)));
}
#endif

#endif
