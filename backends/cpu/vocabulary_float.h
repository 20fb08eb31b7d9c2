/* backends/cpu/vocabulary_float.h -- exponentials, logarithms and error functions of float. They
 * are branch-free, so that loops vectorize, and cover the whole range with subnormals, infinities
 * and NaN. Errors are within 2 ulp, including erfinv and pow; tests/ops/test_elementwise.c compares
 * them with the C library's double functions. Polynomials are minimax fits. */
#ifndef BACKENDS_CPU_VOCABULARY_FLOAT_H
#define BACKENDS_CPU_VOCABULARY_FLOAT_H

#include "backends/cpu/vocabulary_bits.h"
#include "backends/polynomials.h"

#define F32_INFINITY __builtin_inff()
#define F32_NAN __builtin_nanf("")
#define F32_ROUNDER 0x1.8p23f /* adding it leaves the nearest integer in the low bits */

/* x = k ln 2 + r: returns e^r - 1, and k. NaN returns NaN, and an unspecified k. */
CPU_INLINE float exp_reduced(float x, int32_t *k)
{
    float shifted = x * LOG2_E + F32_ROUNDER;
    float n = shifted - F32_ROUNDER;
    float r = x - n * LN2_HIGH;
    r -= n * LN2_LOW;
    float q = EXP_TERMS(r);
    *k = (int32_t)(float_bits(shifted) - float_bits(F32_ROUNDER));
    return r + r * r * q;
}

CPU_INLINE float exp_f32(float x)
{
    x = 89.0f < x ? 89.0f : x;
    x = -104.0f > x ? -104.0f : x;
    int32_t k;
    float p = exp_reduced(x, &k);
    int32_t half = k >> 1; /* in two factors, since 2^k may be out of range */
    return (1 + p) * power_of_two(half) * power_of_two(k - half);
}

CPU_INLINE float expm1_f32(float x)
{
    x = 89.0f < x ? 89.0f : x;
    x = -20.0f > x ? -20.0f : x;
    int32_t k;
    float p = exp_reduced(x, &k);
    int32_t last = k > 0;
    float scale = power_of_two(k - last);
    float r = (scale * p + (scale - power_of_two(-last))) * power_of_two(last);
    return x == 0 ? x : r;
}

/* (e^x - 1) / (e^x + 1) with x doubled. */
CPU_INLINE float tanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    a = 10.0f < a ? 10.0f : a;
    float e = expm1_f32(2 * a);
    return __builtin_copysignf(e / (e + 2), x);
}

/* Splits x > 0 into its exponent (returned) and its mantissa 1 + *f between sqrt(1/2) and sqrt(2).
 */
CPU_INLINE int32_t split_exponent(float x, float *f)
{
    int tiny = x < 0x1p-126f;
    uint32_t word = float_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
    *f = bits_float((word & 0x7fffffu) + 0x3f3504f3u) - 1;
    return ((int32_t)word >> 23) - (tiny ? 23 : 0);
}

/* The special cases of a logarithm; `x` is the argument as for log. */
CPU_INLINE float log_special(float x, float result)
{
    result = x > 0 ? result : x == 0 ? -F32_INFINITY : F32_NAN;
    return x < F32_INFINITY ? result : x;
}

/* e ln 2 + log(1 + f) */
CPU_INLINE float log_sum(float e, float f)
{
    float q = LOG_TERMS(f);
    float tail = f * f * (f * q - 0.5f) + e * LN2_LOW;
    return e * LN2_HIGH + (f + tail);
}

CPU_INLINE float log_f32(float x)
{
    float f;
    int32_t e = split_exponent(x, &f);
    return log_special(x, log_sum((float)e, f));
}

CPU_INLINE float log1p_f32(float x)
{
    float u = 1 + x;
    int32_t e = (int32_t)(float_bits(u) - 0x3f3504f3u) >> 23;
    int32_t half = e >> 1;
    float a = power_of_two(-half), b = power_of_two(half - e); /* a b = 2^-e */
    float f = x * a * b + (a * b - 1);                         /* (1 + x) 2^-e - 1, rounded once */
    float r = log_special(u, log_sum((float)e, u < F32_INFINITY ? f : 0));
    return x == 0 ? x : r;
}

CPU_INLINE float log2_f32(float x)
{
    float f;
    int32_t e = split_exponent(x, &f);
    float q = LOG2_TERMS(f);
    /* 1 / ln 2 in two parts, of which the larger is exact in the sum */
    return log_special(x, (float)e + (f * 1.44269502f + f * (f * q + 1.925963e-08f)));
}

CPU_INLINE float erf_f32(float x)
{
    float a = __builtin_fabsf(x), z = a * a;
    float p = ERF_TERMS(z);          /* erf(a) / a - 1 */
    float b = 4.05f < a ? 4.05f : a; /* beyond this the result is 1 */
    float q = ERF_TAIL_TERMS(b);     /* -log(1 - erf b) */
    int32_t k;
    float tail = exp_reduced(-q, &k);
    float large = 1 - (1 + tail) * power_of_two(k);
    return __builtin_copysignf(a < 1 ? a + a * p : large, x);
}

/* erfinv(x) / x is a smooth function of w = -log(1 - x^2), and of sqrt(w) in the tails. */
CPU_INLINE float erfinv_f32(float x)
{
    float a = __builtin_fabsf(x);
    float w = -log_f32((1 - a) * (1 + a));
    float t = w - 2.5f;
    float p = ERFINV_TERMS(t);
    float s = __builtin_sqrtf(w) - 3;
    float q = ERFINV_TAIL_TERMS(s);
    float r = x * (w < 5 ? p : q);
    return a == 1 ? __builtin_copysignf(F32_INFINITY, x) : r;
}

/* ---- Through double ------------------------------------------------------------------------- */

/* 2^t for any t, with relative error 2^-34; beyond the range of float the result is outside of it
 * too. */
CPU_INLINE double exp2_wide(double t)
{
    t = 1000.0 < t ? 1000.0 : t;
    t = -1000.0 > t ? -1000.0 : t;
    double shifted = t + 0x1.8p52;
    double g = t - (shifted - 0x1.8p52);
    double p = 1.5201928657274308e-05 * g + 0.00015469292228075806;
    p = p * g + 0.0013333922541673227;
    p = p * g + 0.0096180272504812307;
    p = p * g + 0.05550410353466001;
    p = p * g + 0.24022651198170034;
    p = p * g + 0.69314718072843373;
    p = p * g + 0.99999999996168842;
    uint64_t k = double_bits(shifted) - double_bits(0x1.8p52);
    return p * bits_double((k + 1023) << 52);
}

/* log2((1 + s) / (1 - s)) = s q, z = s^2 */
#define LOG2_WIDE_TERMS(z)                                                                         \
    HORNER_6(z, 0.24295127933748698, 0.26144130522178388, 0.32061648017953903,                     \
             0.41219840072707231, 0.57707801725486019, 0.96179669392431455, 2.8853900817779272)

/* log2 of a >= 0, with relative error 2^-50; 0 and infinity give large finite numbers. */
CPU_INLINE double log2_wide(float a)
{
    float f;
    int32_t e = split_exponent(a, &f);
    double s = (double)f / ((double)f + 2), z = s * s;
    double p = LOG2_WIDE_TERMS(z);
    double r = (double)e + s * p;
    return a == 0 ? -1e300 : a < F32_INFINITY ? r : 1e300;
}

CPU_INLINE float pow_f32(float x, float y)
{
    float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
    float r = (float)exp2_wide((double)y * log2_wide(a));
    /* From 2^23 on every float is an integer, from 2^24 on an even one. */
    float nearest = (b + 0x1p23f) - 0x1p23f, half = b * 0.5f;
    float nearest_half = (half + 0x1p23f) - 0x1p23f;
    int whole = (b >= 0x1p23f) | (nearest == b);
    int odd = whole & (b < 0x1p24f) & (nearest_half != half);
    uint32_t negative = float_bits(x) >> 31;
    r = bits_float(float_bits(r) ^ (odd ? negative << 31 : 0));
    r = ((x < 0) & !whole & (a < F32_INFINITY)) ? F32_NAN : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((y == 0) | (x == 1) | ((x == -1) & (b == F32_INFINITY))) ? 1 : r;
}

CPU_INLINE float sinh_f32(float x)
{
    float a = __builtin_fabsf(x), z = a * a;
    double e = exp2_wide((double)a * 1.4426950408889634074);
    float p = SINH_TERMS(z);
    float r = a < 1 ? a + a * z * p : (float)(0.5 * (e - 1 / e));
    return __builtin_copysignf(r, x);
}

CPU_INLINE float cosh_f32(float x)
{
    double e = exp2_wide((double)__builtin_fabsf(x) * 1.4426950408889634074);
    return (float)(0.5 * (e + 1 / e));
}

#endif
