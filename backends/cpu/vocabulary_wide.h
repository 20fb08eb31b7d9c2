/* backends/cpu/vocabulary_wide.h -- functions of double that float and complex64 use: logarithms,
 * exponentials and angles with relative error 2^-34 or better. They are branch-free, so that loops
 * vectorize. Results rounded once to float are within 0.51 ulp. Polynomials are interpolations at
 * Chebyshev points. */
#ifndef BACKENDS_CPU_VOCABULARY_WIDE_H
#define BACKENDS_CPU_VOCABULARY_WIDE_H

#include "backends/cpu/vocabulary_float.h"
#include "backends/cpu/vocabulary_trig.h"

#define WIDE_LN2 0.69314718055994530942
#define WIDE_LOG2_E 1.4426950408889634074
#define WIDE_PI 3.14159265358979323846

static inline double exp_wide(double x)
{
    return exp2_wide(x * WIDE_LOG2_E);
}

/* e^x - 1 */
static inline double expm1_wide(double x)
{
    double p = 2.4801518672268355e-05 * x + 0.00019841187466288426;
    p = p * x + 0.0013888888918918907;
    p = p * x + 0.008333333369378955;
    p = p * x + 0.04166666666662068;
    p = p * x + 0.16666666666611468;
    p = p * x + 0.5;
    p = x + x * x * p;
    return __builtin_fabs(x) < 0.25 ? p : exp_wide(x) - 1;
}

/* log t for t > 0, given together with t - 1, which is more precise near 1. */
static inline double log_both(double t, double less_one)
{
    int near = __builtin_fabs(less_one) < 0.25;
    uint64_t word = double_bits(t) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double e = bits_double((word >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    double m = bits_double((word & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double f = near ? less_one : m - 1;
    double s = f / (f + 2), z = s * s;
    double p = LOG2_WIDE_TERMS(z);
    double r = ((near ? 0 : e) + s * p) * WIDE_LN2;
    r = t < __builtin_inf() ? r : t;
    return t > 0 ? r : t == 0 ? -__builtin_inf() : __builtin_nan("");
}

static inline double log_wide(double t)
{
    return log_both(t, t - 1);
}

static inline double log1p_wide(double t)
{
    return log_both(1 + t, t);
}

/* The angle of the point (x, y), with signed zeros. */
static inline double atan2_wide(double y, double x)
{
    double ax = __builtin_fabs(x), ay = __builtin_fabs(y);
    int steep = ay > ax;
    double small = steep ? ax : ay, large = steep ? ay : ax;
    int equal = small == large;
    int far = (small > 0.41421356237309503 * large) | (equal & (large != 0)); /* tan(pi / 8) */
    double above = far ? small - large : small, below = far ? small + large : large;
    double z = equal ? 0 : above / below, t = z * z;
    double p = 0.021132810313338496 * t - 0.0434784293457331;
    p = p * t + 0.056882767804654844;
    p = p * t - 0.0664022008540203;
    p = p * t + 0.07689951902451446;
    p = p * t - 0.09090772961650327;
    p = p * t + 0.11111106175584769;
    p = p * t - 0.14285714180856576;
    p = p * t + 0.19999999998853618;
    p = p * t - 0.3333333333332843;
    double r = z + z * t * p;
    r = far ? WIDE_PI / 4 + r : r;
    r = steep ? WIDE_PI / 2 - r : r;
    r = double_bits(x) >> 63 ? WIDE_PI - r : r;
    return __builtin_copysign(r, y);
}

/* ---- Sine and cosine ------------------------------------------------------------------------ */

/* For r between -pi/4 and pi/4, plus so many quadrants. */
static inline void sine_cosine(double r, int32_t quadrant, double *sine, double *cosine)
{
    double z = r * r;
    double p = -2.4756487429387385e-08 * z + 2.7555270903015517e-06;
    p = p * z - 0.00019841263293637903;
    p = p * z + 0.008333333323868986;
    p = p * z - 0.16666666666616625;
    double s = r + r * z * p;
    double q = -2.7173337252956946e-07 * z + 2.479892747000457e-05;
    q = q * z - 0.0013888880387608342;
    q = q * z + 0.04166666654379226;
    q = q * z - 0.4999999999935033;
    double c = 1 + z * q;
    uint64_t of_sine = (uint64_t)(quadrant & 2) << 62;
    uint64_t of_cosine = (uint64_t)(((uint32_t)quadrant + 1u) & 2u) << 62;
    *sine = bits_double(double_bits(quadrant & 1 ? c : s) ^ of_sine);
    *cosine = bits_double(double_bits(quadrant & 1 ? s : c) ^ of_cosine);
}

static inline void sine_cosine_of(float x, double *sine, double *cosine)
{
    int32_t quadrant;
    double r = reduce_quadrant(x, &quadrant);
    sine_cosine(r, quadrant, sine, cosine);
    *sine = x == 0 ? (double)x : *sine;
}

/* For angles up to 2^19: pi / 2 in three parts; the products of the first two are exact. */
static inline void sine_cosine_wide(double x, double *sine, double *cosine)
{
    double shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
    double r = x - n * 0x1.921fb5p+0;
    r -= n * 0x1.110b46p-26;
    r -= n * 0x1.1a62633145c07p-54;
    sine_cosine(r, (int32_t)double_bits(shifted), sine, cosine);
    *sine = x == 0 ? x : *sine;
}

/* Hyperbolic sine and cosine; for infinities they are finite, but beyond the range of float. */
static inline void sinh_cosh_of(float x, double *sinh, double *cosh)
{
    double a = (double)__builtin_fabsf(x), z = a * a;
    double e = exp_wide(a), inverse = 1 / e;
    double p = 2.7557319223985893e-06 * z + 0.00019841269841269841;
    p = p * z + 0.0083333333333333333;
    p = p * z + 0.16666666666666667;
    double s = a < 0.5 ? a + a * z * p : 0.5 * (e - inverse);
    *sinh = __builtin_copysign(s, (double)x);
    *cosh = 0.5 * (e + inverse);
}

/* ---- Functions of float through double ------------------------------------------------------ */

static inline float tan_f32(float x)
{
    double s, c;
    sine_cosine_of(x, &s, &c);
    return (float)(s / c);
}

static inline float log10_f32(float x)
{
    return (float)(log_wide((double)x) * 0.43429448190325182765);
}

static inline float asinh_f32(float x)
{
    double a = (double)__builtin_fabsf(x), z = a * a;
    float r = (float)log1p_wide(a + z / (1 + __builtin_sqrt(z + 1)));
    return a < __builtin_inf() ? __builtin_copysignf(r, x) : x;
}

static inline float acosh_f32(float x)
{
    double t = (double)x - 1;
    float r = (float)log1p_wide(t + __builtin_sqrt(t * (t + 2)));
    return x < 1 ? F32_NAN : r;
}

static inline float atanh_f32(float x)
{
    double a = (double)__builtin_fabsf(x);
    return __builtin_copysignf((float)(0.5 * log1p_wide(2 * a / (1 - a))), x);
}

#endif
