/* backends/cpu/vocabulary_trig.h -- sine, cosine and tangent of float, and their inverses. They are
 * branch-free, so that loops vectorize.
 *
 * Arguments are reduced in double. Up to 2^23 the argument itself is reduced. Beyond, with the
 * argument = m 2^e and m of 24 bits, it is m times (2^e modulo 2 pi), from a table in two parts, of
 * which the first has 29 bits so that the product is exact. So the result is accurate for every
 * float. Polynomials are minimax fits.
 */
#ifndef BACKENDS_CPU_VOCABULARY_TRIG_H
#define BACKENDS_CPU_VOCABULARY_TRIG_H

#include "backends/cpu/vocabulary_bits.h"
#include "backends/polynomials.h"

enum { TRIG_POWERS = 105 };

/* 2^e modulo 2 pi, between -pi and pi, for e = 0, 1, ... */
static const double trig_high[TRIG_POWERS] = {
    0x1.0000000000000p+0,  0x1.0000000000000p+1,  -0x1.243f6a8000000p+1, 0x1.b7812ae000000p+0,
    -0x1.6cbe3f9000000p+1, 0x1.2b0bad5000000p-1,  0x1.2b0bad5000000p+0,  0x1.2b0bad5000000p+1,
    -0x1.9c501fb000000p+0, 0x1.87ef4ac000000p+1,  -0x1.460d4ed000000p-3, -0x1.460d4ed000000p-2,
    -0x1.460d4ed000000p-1, -0x1.460d4ed000000p+0, -0x1.460d4ed000000p+1, 0x1.304999c000000p+0,
    0x1.304999c000000p+1,  -0x1.87586de000000p+0, -0x1.87586de000000p+1, 0x1.58e8ec1000000p-3,
    0x1.58e8ec1000000p-2,  0x1.58e8ec1000000p-1,  0x1.58e8ec1000000p+0,  0x1.58e8ec1000000p+1,
    -0x1.c9b6498000000p-1, -0x1.c9b6498000000p+0, 0x1.5a8920f000000p+1,  -0x1.bcb4a23000000p-1,
    -0x1.bcb4a23000000p+0, 0x1.678ac84000000p+1,  -0x1.54a767d000000p-1, -0x1.54a767d000000p+0,
    -0x1.54a767d000000p+1, 0x1.ebc26b9000000p-1,  0x1.ebc26b9000000p+0,  -0x1.387cfef000000p+1,
    0x1.668ad94000000p+0,  0x1.668ad94000000p+1,  -0x1.5ca6dfe000000p-1, -0x1.5ca6dfe000000p+0,
    -0x1.5ca6dfe000000p+1, 0x1.abc6aac000000p-1,  0x1.abc6aac000000p+0,  -0x1.7878bfb000000p+1,
    0x1.9a6f588000000p-2,  0x1.9a6f588000000p-1,  0x1.9a6f588000000p+0,  -0x1.89d0120000000p+1,
    0x1.09f4683000000p-3,  0x1.09f4683000000p-2,  0x1.09f4683000000p-1,  0x1.09f4683000000p+0,
    0x1.09f4683000000p+1,  -0x1.10569a0000000p+1, 0x1.0392366000000p+1,  -0x1.1d1afdb000000p+1,
    0x1.d412de4000000p+0,  -0x1.502c8c3000000p+1, 0x1.07cca42000000p+0,  0x1.07cca42000000p+1,
    -0x1.14a6222000000p+1, 0x1.f5e64c5000000p+0,  -0x1.2e591e3000000p+1, 0x1.8f1a5c3000000p+0,
    0x1.8f1a5c3000000p+1,  -0x1.82ac837000000p-5, -0x1.82ac837000000p-4, -0x1.82ac837000000p-3,
    -0x1.82ac837000000p-2, -0x1.82ac837000000p-1, -0x1.82ac837000000p+0, -0x1.82ac837000000p+1,
    0x1.ee66398000000p-3,  0x1.ee66398000000p-2,  0x1.ee66398000000p-1,  0x1.ee66398000000p+0,
    -0x1.35d9310000000p+1, 0x1.711a111000000p+0,  0x1.711a111000000p+1,  -0x1.082d219000000p-1,
    -0x1.082d219000000p+0, -0x1.082d219000000p+1, 0x1.13e5275000000p+1,  -0x1.f8ea37c000000p+0,
    0x1.2b5532b000000p+1,  -0x1.9b2a0a2000000p+0, 0x1.8915606000000p+1,  -0x1.214a9b9000000p-3,
    -0x1.214a9b9000000p-2, -0x1.214a9b9000000p-1, -0x1.214a9b9000000p+0, -0x1.214a9b9000000p+1,
    0x1.c35466c000000p+0,  -0x1.60eb03b000000p+1, 0x1.89a58c4000000p-1,  0x1.89a58c4000000p+0,
    0x1.89a58c4000000p+1,  -0x1.0f45204000000p-3, -0x1.0f45204000000p-2, -0x1.0f45204000000p-1,
    -0x1.0f45204000000p+0, -0x1.0f45204000000p+1, 0x1.05b529e000000p+1,  -0x1.18d516a000000p+1,
    0x1.e52a7a6000000p+0,
};
static const double trig_low[TRIG_POWERS] = {
    0x0.0p+0,
    0x0.0p+0,
    -0x1.10b4611a62633p-28,
    0x1.de973dcb3b39ap-29,
    -0x1.321d234f27299p-28,
    0x1.63d0d3e0a0805p-31,
    0x1.63d0d3e0a0805p-30,
    0x1.63d0d3e0a0805p-29,
    -0x1.59c71a7383c5dp-29,
    0x1.b6ed46a6de9d7p-28,
    -0x1.6ce9e652942fbp-35,
    -0x1.6ce9e652942fbp-34,
    -0x1.6ce9e652942fbp-33,
    -0x1.6ce9e652942fbp-32,
    -0x1.6ce9e652942fbp-31,
    0x1.6af3cf0b7aae9p-29,
    0x1.6af3cf0b7aae9p-28,
    -0x1.d666181b68310p-31,
    -0x1.d666181b68310p-30,
    0x1.6055432b92ab6p-34,
    0x1.6055432b92ab6p-33,
    0x1.6055432b92ab6p-32,
    0x1.6055432b92ab6p-31,
    0x1.6055432b92ab6p-30,
    -0x1.8226fe1264360p-30,
    -0x1.8226fe1264360p-29,
    0x1.8e8d6307fe2d3p-28,
    -0x1.ce666c2998237p-30,
    -0x1.ce666c2998237p-29,
    0x1.424df4f0ca3fdp-28,
    -0x1.830ee719bc742p-33,
    -0x1.830ee719bc742p-32,
    -0x1.830ee719bc742p-31,
    0x1.7f853a9f9a315p-31,
    0x1.7f853a9f9a315p-30,
    -0x1.43c70f2a552a3p-30,
    0x1.bb436614df386p-30,
    0x1.bb436614df386p-29,
    -0x1.55c3ec160cab4p-30,
    -0x1.55c3ec160cab4p-29,
    -0x1.55c3ec160cab4p-28,
    0x1.94b223b92432cp-30,
    0x1.94b223b92432cp-29,
    -0x1.7c023d613e307p-28,
    0x1.8afe657e60255p-32,
    0x1.8afe657e60255p-31,
    0x1.8afe657e60255p-30,
    -0x1.2cd4b96cc9422p-30,
    0x1.a4a0463fdc21ep-32,
    0x1.a4a0463fdc21ep-31,
    0x1.a4a0463fdc21ep-30,
    0x1.a4a0463fdc21ep-29,
    0x1.a4a0463fdc21ep-28,
    -0x1.c773d49aaa1f8p-28,
    0x1.81ccb7e50e243p-28,
    -0x1.a35e2a08c3589p-33,
    0x1.ecfcfcf3ac5b5p-29,
    -0x1.23b76426b607ep-28,
    0x1.928b3199eca6ep-29,
    0x1.928b3199eca6ep-28,
    -0x1.eb9dfde689157p-28,
    0x1.cbc32a6a81c2ap-31,
    -0x1.3b872cff83e51p-29,
    0x1.aa5a6835bcfc4p-29,
    0x1.aa5a6835bcfc4p-28,
    -0x1.ffc8577435554p-35,
    -0x1.ffc8577435554p-34,
    -0x1.ffc8577435554p-33,
    -0x1.ffc8577435554p-32,
    -0x1.ffc8577435554p-31,
    -0x1.ffc8577435554p-30,
    -0x1.ffc8577435554p-29,
    0x1.0ec09a62d0debp-32,
    0x1.0ec09a62d0debp-31,
    0x1.0ec09a62d0debp-30,
    0x1.0ec09a62d0debp-29,
    -0x1.f3c6b791847c5p-36,
    0x1.999a7567eb471p-33,
    0x1.999a7567eb471p-32,
    -0x1.760449b593e94p-30,
    -0x1.760449b593e94p-29,
    -0x1.760449b593e94p-28,
    0x1.255e6d79d485fp-31,
    -0x1.8eb98b77da837p-29,
    0x1.81fad5a287dfcp-28,
    -0x1.97d6baaa5474cp-33,
    0x1.ee6deadf7a37dp-29,
    -0x1.233b1d7415b3ap-35,
    -0x1.233b1d7415b3ap-34,
    -0x1.233b1d7415b3ap-33,
    -0x1.233b1d7415b3ap-32,
    -0x1.233b1d7415b3ap-31,
    0x1.8fcb337ab9ec9p-29,
    -0x1.80e92d9fa876ap-28,
    0x1.dc40bb622ebdap-33,
    0x1.dc40bb622ebdap-32,
    0x1.dc40bb622ebdap-31,
    -0x1.9a43241d6b3c8p-32,
    -0x1.9a43241d6b3c8p-31,
    -0x1.9a43241d6b3c8p-30,
    -0x1.9a43241d6b3c8p-29,
    -0x1.9a43241d6b3c8p-28,
    0x1.dc2e18df8bea3p-28,
    -0x1.58582f5b4a8edp-28,
    0x1.8010098f35163p-30,
};

/* x - quadrant pi/2, between -pi/4 and pi/4; NaN for infinities. */
CPU_INLINE double reduce_quadrant(float x, int32_t *quadrant)
{
    uint32_t word = float_bits(x);
    int64_t e = (int64_t)(word >> 23 & 255) - 150; /* 64 bits, like the table entries that it
                                                    * selects */
    int big = e >= 0;
    int64_t at = e < 0 ? 0 : e > TRIG_POWERS - 1 ? TRIG_POWERS - 1 : e;
    float m = bits_float((word & 0x807fffffu) | 150u << 23);
    double power_high = trig_high[at], power_low = trig_low[at];
    double high = big ? power_high * (double)m : (double)x;
    double low = big ? power_low * (double)m : 0;
    double shifted =
        (high + low) * 0x1.45f306dc9c883p-1 + 0x1.8p52; /* the low bits are the quadrant */
    double n = shifted - 0x1.8p52;
    double r = high - n * 0x1.921fb5p+0; /* pi / 2 in three parts; this product is exact, */
    r -= n * 0x1.110b46p-26;             /* and this one */
    r = r - n * 0x1.1a62633145c07p-54 + low;
    *quadrant = (int32_t)double_bits(shifted);
    return x - x == 0 ? r : __builtin_nan("");
}

CPU_INLINE float sine_polynomial(float r)
{
    float z = r * r;
    float p = SINE_TERMS(z);
    return r + r * z * p;
}

CPU_INLINE float cosine_polynomial(float r)
{
    float z = r * r;
    float p = COSINE_TERMS(z);
    return 1 + z * (z * p - 0.5f);
}

CPU_INLINE float flip_sign(float x, int32_t flip)
{
    return bits_float(float_bits(x) ^ (flip ? 0x80000000u : 0u));
}

CPU_INLINE float sin_f32(float x)
{
    int32_t q;
    float r = (float)reduce_quadrant(x, &q);
    float s = sine_polynomial(r), c = cosine_polynomial(r);
    return x == 0 ? x : flip_sign(q & 1 ? c : s, q & 2);
}

CPU_INLINE float cos_f32(float x)
{
    int32_t q;
    float r = (float)reduce_quadrant(x, &q);
    float s = sine_polynomial(r), c = cosine_polynomial(r);
    return flip_sign(q & 1 ? s : c, (int32_t)((uint32_t)q + 1u) & 2);
}

/* The arctangent of 0 <= z <= 1. */
CPU_INLINE float atan_polynomial(float z)
{
    float t = z * z;
    float p = ATAN_TERMS(t);
    return z + z * t * p;
}

CPU_INLINE float atan_f32(float x)
{
    float a = __builtin_fabsf(x);
    int steep = a > 1;
    float r = atan_polynomial(steep ? 1 / a : a);
    r = steep ? HALF_PI_HIGH - (r - HALF_PI_LOW) : r;
    return __builtin_copysignf(r, x);
}

/* The angle of the point (x, y), computed in its octant and mapped back. */
CPU_INLINE float atan2_f32(float y, float x)
{
    float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y);
    int steep = ay > ax;
    float small = steep ? ax : ay, large = steep ? ay : ax;
    int equal = small == large; /* also for two zeros or two infinities */
    float z = equal ? (large == 0 ? 0.0f : 1.0f) : small / large;
    float r = atan_polynomial(z);
    r = steep ? HALF_PI_HIGH - (r - HALF_PI_LOW) : r;
    r = float_bits(x) >> 31 ? 2 * HALF_PI_HIGH - (r - 2 * HALF_PI_LOW) : r;
    return __builtin_copysignf(r, y);
}

/* For 0 <= a <= 1/2 the arcsine of a; for larger a that of sqrt((1 - a) / 2), which is half of the
 * complement. */
CPU_INLINE float asin_core(float a)
{
    int large = a > 0.5f;
    float z = large ? (1 - a) * 0.5f : a * a;
    float s = large ? __builtin_sqrtf(z) : a;
    float p = ASIN_TERMS(z);
    return s + s * z * p;
}

CPU_INLINE float asin_f32(float x)
{
    float a = __builtin_fabsf(x);
    float r = asin_core(a);
    r = a > 0.5f ? HALF_PI_HIGH - (2 * r - HALF_PI_LOW) : r;
    return __builtin_copysignf(r, x);
}

CPU_INLINE float acos_f32(float x)
{
    float a = __builtin_fabsf(x);
    float r = asin_core(a);
    float near_zero = HALF_PI_HIGH - (__builtin_copysignf(r, x) - HALF_PI_LOW);
    float near_minus_one = 2 * HALF_PI_HIGH - (2 * r - 2 * HALF_PI_LOW);
    return a > 0.5f ? (x < 0 ? near_minus_one : 2 * r) : near_zero;
}

#endif
