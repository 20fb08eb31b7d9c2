/* backends/cpu/vocabulary.h -- the tape codes as functions of one element, <code>_<type>, for the
 * types f32, f64, i32, u32, i64, u64, b8 (bool) and c64. Generated kernels call them in loops that
 * the compiler vectorizes: float functions never call the C library, except mod, which stays
 * scalar. Truth values are 1 or 0 in the type itself. */
#ifndef BACKENDS_CPU_VOCABULARY_H
#define BACKENDS_CPU_VOCABULARY_H

#include <math.h>

#include "backends/cpu/vocabulary_complex.h"
#include "backends/cpu/vocabulary_whole.h"
#include "weft/dtype.h"

/* ---- Functions for all ordered types --------------------------------------------------------- */

#define DEFINE_COMPARISONS(t, T)                                                                   \
    static inline T lt_##t(T x, T y)                                                               \
    {                                                                                              \
        return (T)(x < y);                                                                         \
    }                                                                                              \
    static inline T le_##t(T x, T y)                                                               \
    {                                                                                              \
        return (T)(x <= y);                                                                        \
    }                                                                                              \
    static inline T eq_##t(T x, T y)                                                               \
    {                                                                                              \
        return (T)(x == y);                                                                        \
    }                                                                                              \
    static inline T ne_##t(T x, T y)                                                               \
    {                                                                                              \
        return (T)(x != y);                                                                        \
    }                                                                                              \
    static inline T not_##t(T x)                                                                   \
    {                                                                                              \
        return (T)(x == 0);                                                                        \
    }                                                                                              \
    static inline T and_##t(T x, T y)                                                              \
    {                                                                                              \
        return (T)((x != 0) & (y != 0));                                                           \
    }                                                                                              \
    static inline T or_##t(T x, T y)                                                               \
    {                                                                                              \
        return (T)((x != 0) | (y != 0));                                                           \
    }                                                                                              \
    static inline T select_##t(T c, T x, T y)                                                      \
    {                                                                                              \
        return c != 0 ? x : y;                                                                     \
    }                                                                                              \
    static inline uint8_t truth_##t(T x)                                                           \
    {                                                                                              \
        return (uint8_t)(x != 0);                                                                  \
    }

DEFINE_COMPARISONS(f32, float)
DEFINE_COMPARISONS(f64, double)
DEFINE_COMPARISONS(i32, int32_t)
DEFINE_COMPARISONS(u32, uint32_t)
DEFINE_COMPARISONS(i64, int64_t)
DEFINE_COMPARISONS(u64, uint64_t)
DEFINE_COMPARISONS(b8, uint8_t)
#undef DEFINE_COMPARISONS

/* ---- Reals ---------------------------------------------------------------------------------- */

#define DEFINE_REAL(t, T, magnitude, root, infinity)                                               \
    static inline T neg_##t(T x)                                                                   \
    {                                                                                              \
        return -x;                                                                                 \
    }                                                                                              \
    static inline T add_##t(T x, T y)                                                              \
    {                                                                                              \
        return x + y;                                                                              \
    }                                                                                              \
    static inline T sub_##t(T x, T y)                                                              \
    {                                                                                              \
        return x - y;                                                                              \
    }                                                                                              \
    static inline T mul_##t(T x, T y)                                                              \
    {                                                                                              \
        return x * y;                                                                              \
    }                                                                                              \
    static inline T div_##t(T x, T y)                                                              \
    {                                                                                              \
        return x / y;                                                                              \
    }                                                                                              \
    static inline T abs_##t(T x)                                                                   \
    {                                                                                              \
        return magnitude(x);                                                                       \
    }                                                                                              \
    static inline T sign_##t(T x)                                                                  \
    {                                                                                              \
        return x != x ? x : (T)(x > 0) - (T)(x < 0);                                               \
    }                                                                                              \
    static inline T min_##t(T x, T y)                                                              \
    {                                                                                              \
        return ((x < y) | (x != x)) ? x : y;                                                       \
    }                                                                                              \
    static inline T max_##t(T x, T y)                                                              \
    {                                                                                              \
        return ((x > y) | (x != x)) ? x : y;                                                       \
    }                                                                                              \
    static inline T sqrt_##t(T x)                                                                  \
    {                                                                                              \
        return root(x);                                                                            \
    }                                                                                              \
    static inline T rsqrt_##t(T x)                                                                 \
    {                                                                                              \
        return 1 / root(x);                                                                        \
    }                                                                                              \
    static inline T isnan_##t(T x)                                                                 \
    {                                                                                              \
        return (T)(x != x);                                                                        \
    }                                                                                              \
    static inline T isinf_##t(T x)                                                                 \
    {                                                                                              \
        return (T)(magnitude(x) == (infinity));                                                    \
    }                                                                                              \
    static inline T isfinite_##t(T x)                                                              \
    {                                                                                              \
        return (T)(magnitude(x) < (infinity));                                                     \
    }

DEFINE_REAL(f32, float, __builtin_fabsf, __builtin_sqrtf, __builtin_inff())
DEFINE_REAL(f64, double, __builtin_fabs, __builtin_sqrt, __builtin_inf())
#undef DEFINE_REAL

/* Rounding is one instruction where it exists. Baseline x86-64 has none; there the nearest integer
 * results from adding a number without fraction bits, and the other roundings follow from it. */
#if defined(__SSE4_1__) || !defined(__x86_64__)
#define DEFINE_ROUNDING(t, T, s, rounder)                                                          \
    static inline T rint_##t(T x)                                                                  \
    {                                                                                              \
        return __builtin_rint##s(x);                                                               \
    }                                                                                              \
    static inline T floor_##t(T x)                                                                 \
    {                                                                                              \
        return __builtin_floor##s(x);                                                              \
    }                                                                                              \
    static inline T ceil_##t(T x)                                                                  \
    {                                                                                              \
        return __builtin_ceil##s(x);                                                               \
    }                                                                                              \
    static inline T trunc_##t(T x)                                                                 \
    {                                                                                              \
        return __builtin_trunc##s(x);                                                              \
    }
#else
#define DEFINE_ROUNDING(t, T, s, rounder)                                                          \
    static inline T rint_##t(T x)                                                                  \
    {                                                                                              \
        T a = __builtin_fabs##s(x);                                                                \
        return a < (rounder) ? __builtin_copysign##s((a + (rounder)) - (rounder), x) : x;          \
    }                                                                                              \
    static inline T floor_##t(T x)                                                                 \
    {                                                                                              \
        T n = rint_##t(x);                                                                         \
        return __builtin_copysign##s(n - (T)(n > x), x);                                           \
    }                                                                                              \
    static inline T ceil_##t(T x)                                                                  \
    {                                                                                              \
        T n = rint_##t(x);                                                                         \
        return __builtin_copysign##s(n + (T)(n < x), x);                                           \
    }                                                                                              \
    static inline T trunc_##t(T x)                                                                 \
    {                                                                                              \
        return __builtin_copysign##s(floor_##t(__builtin_fabs##s(x)), x);                          \
    }
#endif

DEFINE_ROUNDING(f32, float, f, 0x1p23f)
DEFINE_ROUNDING(f64, double, , 0x1p52)
#undef DEFINE_ROUNDING

/* The remainder with the sign of the divisor. */
static inline double mod_f64(double x, double y)
{
    double r = fmod(x, y);
    r = r != 0 && (r < 0) != (y < 0) ? r + y : r;
    return r == 0 ? __builtin_copysign(0, y) : r;
}

/* A quotient of up to 28 bits times a float is exact in double; longer ones use the C library. */
static inline float mod_f32(float x, float y)
{
    double a = (double)x, b = (double)y, q = trunc(a / b);
    double r = a - q * b;
    if (!(fabs(q) < 0x1p28 && fabs(b) < __builtin_inf())) {
        r = (double)fmodf(x, y);
    } else if (r != 0 && (r < 0) != (a < 0)) { /* the quotient was rounded up to an integer */
        r += (a < 0) == (b < 0) ? b : -b;
    }
    r = r != 0 && (r < 0) != (b < 0) ? r + b : r;
    return r == 0 ? __builtin_copysignf(0, y) : (float)r;
}

/* ---- The other functions of double use the C library ----------------------------------------- */

#define DEFINE_DOUBLE(name)                                                                        \
    static inline double name##_f64(double x)                                                      \
    {                                                                                              \
        return name(x);                                                                            \
    }

DEFINE_DOUBLE(exp)
DEFINE_DOUBLE(expm1)
DEFINE_DOUBLE(log)
DEFINE_DOUBLE(log1p)
DEFINE_DOUBLE(log2)
DEFINE_DOUBLE(log10)
DEFINE_DOUBLE(sin)
DEFINE_DOUBLE(cos)
DEFINE_DOUBLE(tan)
DEFINE_DOUBLE(asin)
DEFINE_DOUBLE(acos)
DEFINE_DOUBLE(atan)
DEFINE_DOUBLE(sinh)
DEFINE_DOUBLE(cosh)
DEFINE_DOUBLE(asinh)
DEFINE_DOUBLE(acosh)
DEFINE_DOUBLE(atanh)
DEFINE_DOUBLE(tanh)
DEFINE_DOUBLE(erf)
#undef DEFINE_DOUBLE

static inline double pow_f64(double x, double y)
{
    return pow(x, y);
}

static inline double atan2_f64(double y, double x)
{
    return atan2(y, x);
}

/* Starts from the float result; Halley's method on erf, or on erfc where erf is too flat. */
static inline double erfinv_f64(double x)
{
    double p = fabs(x), rest = 1 - p;
    if (!(p < 1)) {
        return p == 1 ? copysign(__builtin_inf(), x) : __builtin_nan("");
    }
    if (p < 1e-8) {
        return x * 0.88622692545275801365; /* sqrt(pi) / 2 */
    }
    /* Beyond the last float below 1: the leading term of the tail. */
    double y = p < 0.9999999 ? (double)erfinv_f32((float)p) : sqrt(-log(rest * sqrt(-log(rest))));
    for (int i = 0; i < 3; i++) {
        double error = p < 0.5 ? erf(y) - p : rest - erfc(y);
        double step = error / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

/* ---- Complex functions with real results ----------------------------------------------------- */

static inline weft_complex64 rint_c64(weft_complex64 x)
{
    return complex_of(rint_f32(x.re), rint_f32(x.im));
}

#endif
