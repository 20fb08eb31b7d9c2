/* backends/cpu/vocabulary_complex.h -- the tape codes for complex64. Computed in double, whose
 * range includes the squares of floats, and rounded once: each part is nearly always the nearest
 * float. Branch cuts and signed zeros follow C99, annex G; so do infinities and NaN where a limit
 * exists. Formulas for the inverse functions: Hull, Fairgrieve and Tang, "Implementing the complex
 * arcsine and arccosine functions using exception handling", 1997; Kahan, "Branch cuts for complex
 * elementary functions", 1987. Included by vocabulary.h. */
#ifndef BACKENDS_CPU_VOCABULARY_COMPLEX_H
#define BACKENDS_CPU_VOCABULARY_COMPLEX_H

#include "backends/cpu/vocabulary_wide.h"
#include "weft/dtype.h"

static inline weft_complex64 complex_of(float re, float im)
{
    return (weft_complex64){re, im};
}

static inline weft_complex64 complex_rounded(double re, double im)
{
    return (weft_complex64){(float)re, (float)im};
}

/* i conj(z): the parts exchanged. It relates the functions of i z to those of z. */
static inline weft_complex64 complex_swapped(weft_complex64 z)
{
    return (weft_complex64){z.im, z.re};
}

static inline int is_infinite(float x)
{
    return __builtin_fabsf(x) == F32_INFINITY;
}

/* ---- Arithmetic ----------------------------------------------------------------------------- */

static inline weft_complex64 neg_c64(weft_complex64 x)
{
    return complex_of(-x.re, -x.im);
}

static inline weft_complex64 conj_c64(weft_complex64 x)
{
    return complex_of(x.re, -x.im);
}

static inline weft_complex64 imag_c64(weft_complex64 x)
{
    return complex_of(x.im, 0);
}

/* A complex number of the real parts of two. */
static inline weft_complex64 join_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of(x.re, y.re);
}

static inline weft_complex64 add_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of(x.re + y.re, x.im + y.im);
}

static inline weft_complex64 sub_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of(x.re - y.re, x.im - y.im);
}

static inline weft_complex64 mul_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

/* Division by 0 divides each part by itself; division by infinity gives 0 if the dividend is
 * finite. */
static inline weft_complex64 quotient(double a, double b, double c, double d)
{
    double norm = c * c + d * d;
    double re = (a * c + b * d) / norm, im = (b * c - a * d) / norm;
    int infinite = (__builtin_fabs(c) == __builtin_inf()) | (__builtin_fabs(d) == __builtin_inf());
    re = infinite ? 0 * (a + b) : re;
    im = infinite ? 0 * (b - a) : im;
    double zero = __builtin_fabs(c);
    return norm == 0 ? complex_rounded(a / zero, b / zero) : complex_rounded(re, im);
}

static inline weft_complex64 div_c64(weft_complex64 x, weft_complex64 y)
{
    return quotient((double)x.re, (double)x.im, (double)y.re, (double)y.im);
}

/* ---- Modulus -------------------------------------------------------------------------------- */

static inline double modulus(weft_complex64 x)
{
    double re = (double)x.re, im = (double)x.im;
    double r = __builtin_sqrt(re * re + im * im);
    return is_infinite(x.re) | is_infinite(x.im) ? __builtin_inf() : r;
}

static inline weft_complex64 abs_c64(weft_complex64 x)
{
    return complex_rounded(modulus(x), 0);
}

static inline weft_complex64 sign_c64(weft_complex64 x)
{
    double r = modulus(x);
    r = r == 0 ? 1 : r;
    return complex_rounded((double)x.re / r, (double)x.im / r);
}

static inline void root(weft_complex64 x, double *re, double *im)
{
    double a = __builtin_fabs((double)x.re), b = (double)x.im;
    double t = __builtin_sqrt(0.5 * (a + modulus(x)));
    double other = t == 0 ? b : b / (2 * t);
    int left = x.re < 0;
    *re = left ? __builtin_fabs(other) : t;
    *im = left ? __builtin_copysign(t, b) : other;
    *re = is_infinite(x.im) ? __builtin_inf() : *re;
    *im = is_infinite(x.im) ? b : *im;
}

static inline weft_complex64 sqrt_c64(weft_complex64 x)
{
    double re, im;
    root(x, &re, &im);
    return complex_rounded(re, im);
}

static inline weft_complex64 rsqrt_c64(weft_complex64 x)
{
    double re, im;
    root(x, &re, &im);
    return quotient(1, 0, re, im);
}

/* ---- Exponentials --------------------------------------------------------------------------- */

static inline weft_complex64 exp_c64(weft_complex64 x)
{
    double s, c, e = exp_wide((double)x.re);
    sine_cosine_of(x.im, &s, &c);
    int lost =
        (x.im - x.im != 0) & is_infinite(x.re); /* the direction is undefined: 0 or infinite */
    double re = lost ? (x.re < 0 ? 0 : e) : e * c;
    double im = (lost & (x.re < 0)) ? 0 : e * s;
    return complex_rounded(re, x.im == 0 ? (double)x.im : im);
}

/* (e^x - 1) cos y + (cos y - 1), and e^x sin y */
static inline weft_complex64 expm1_c64(weft_complex64 x)
{
    double s, c, less = expm1_wide((double)x.re);
    sine_cosine_of(x.im, &s, &c);
    double fall = c > 0 ? s * s / (1 + c) : 1 - c; /* 1 - cos y */
    double re = less * c - fall, im = (less + 1) * s;
    int zero = (x.re == 0) & (x.im == 0);
    return complex_rounded(zero ? (double)x.re : re, x.im == 0 ? (double)x.im : im);
}

static inline weft_complex64 sinh_c64(weft_complex64 x)
{
    double s, c, sh, ch;
    sine_cosine_of(x.im, &s, &c);
    sinh_cosh_of(x.re, &sh, &ch);
    double re = sh * c;
    int kept = (x.re == 0) | is_infinite(x.re); /* where the direction is undefined */
    re = (kept & (re != re)) ? (double)x.re : re;
    return complex_rounded(re, x.im == 0 ? (double)x.im : ch * s);
}

static inline weft_complex64 cosh_c64(weft_complex64 x)
{
    double s, c, sh, ch;
    sine_cosine_of(x.im, &s, &c);
    sinh_cosh_of(x.re, &sh, &ch);
    double re = ch * c, im = sh * s;
    int flat = (x.re == 0) | (x.im == 0);
    re = (is_infinite(x.re) & (re != re)) ? ch : re;
    return complex_rounded(re, (flat & (im != im)) ? 0 : im);
}

/* sinh x cosh x and sin y cos y over cos^2 y + sinh^2 x. From |x| = 100 on they are 1 and 0. */
static inline weft_complex64 tanh_c64(weft_complex64 x)
{
    double s, c, sh, ch;
    float a = x.re > 100 ? 100 : x.re < -100 ? -100 : x.re;
    sine_cosine_of(x.im, &s, &c);
    sinh_cosh_of(a, &sh, &ch);
    double below = c * c + sh * sh;
    double re = sh * ch / below, im = s * c / below;
    re = is_infinite(x.re) ? __builtin_copysign(1, (double)x.re) : re;
    im = (is_infinite(x.re) & (im != im)) ? 0 : im;
    return complex_rounded(x.re == 0 ? (double)x.re : re, x.im == 0 ? (double)x.im : im);
}

static inline weft_complex64 sin_c64(weft_complex64 x)
{
    return complex_swapped(sinh_c64(complex_swapped(x)));
}

static inline weft_complex64 cos_c64(weft_complex64 x)
{
    return cosh_c64(complex_of(-x.im, x.re));
}

static inline weft_complex64 tan_c64(weft_complex64 x)
{
    return complex_swapped(tanh_c64(complex_swapped(x)));
}

/* ---- Logarithms ----------------------------------------------------------------------------- */

/* log |z| */
static inline double log_modulus(weft_complex64 x)
{
    double a = (double)__builtin_fabsf(x.re), b = (double)__builtin_fabsf(x.im);
    double large = a > b ? a : b, small = a > b ? b : a;
    double r = log_both(large * large + small * small, (large - 1) * (large + 1) + small * small);
    return is_infinite(x.re) | is_infinite(x.im) ? __builtin_inf() : 0.5 * r;
}

static inline weft_complex64 log_c64(weft_complex64 x)
{
    return complex_rounded(log_modulus(x), atan2_wide((double)x.im, (double)x.re));
}

static inline weft_complex64 log2_c64(weft_complex64 x)
{
    return complex_rounded(log_modulus(x) * WIDE_LOG2_E,
                           atan2_wide((double)x.im, (double)x.re) * WIDE_LOG2_E);
}

static inline weft_complex64 log10_c64(weft_complex64 x)
{
    const double factor = 0.43429448190325182765;
    return complex_rounded(log_modulus(x) * factor,
                           atan2_wide((double)x.im, (double)x.re) * factor);
}

static inline weft_complex64 log1p_c64(weft_complex64 x)
{
    double a = (double)x.re, b = (double)x.im;
    double re = 0.5 * log_both((1 + a) * (1 + a) + b * b, a * (a + 2) + b * b);
    return complex_rounded(is_infinite(x.re) | is_infinite(x.im) ? __builtin_inf() : re,
                           atan2_wide(b, 1 + a));
}

/* x y, and 0 if x is 0 and y infinite */
static inline double product(double x, double y)
{
    return x == 0 ? 0 : x * y;
}

/* e^(y log x); exact for the exponents 0, 1, 2 and -1. */
static inline weft_complex64 pow_c64(weft_complex64 x, weft_complex64 y)
{
    double c = (double)y.re, d = (double)y.im;
    double length = log_modulus(x), angle = atan2_wide((double)x.im, (double)x.re), s, o;
    double growth = product(c, length) - product(d, angle), e = exp_wide(growth);
    double turn = product(c, angle) + product(d, length);
    sine_cosine_wide(turn, &s, &o);
    int lost = (turn - turn != 0) & (__builtin_fabs(growth) == __builtin_inf());
    double re = lost ? (growth < 0 ? 0 : e) : e * o;
    double im = (lost & (growth < 0)) ? 0 : product(s, e);
    int zero = (x.re == 0) & (x.im == 0), one = (y.re == 0) & (y.im == 0);
    double at_zero = y.re > 0 ? 0 : __builtin_nan("");
    re = zero ? at_zero : re;
    im = zero ? at_zero : im;
    weft_complex64 power = complex_rounded(one ? 1 : re, one ? 0 : im);
    weft_complex64 square = mul_c64(x, x), inverse = quotient(1, 0, (double)x.re, (double)x.im);
    power = ((y.im == 0) & (y.re == 1)) ? x : power;
    power = ((y.im == 0) & (y.re == 2)) ? square : power;
    return ((y.im == 0) & (y.re == -1) & !zero) ? inverse : power;
}

/* ---- Inverse functions ---------------------------------------------------------------------- */

/* For x, y >= 0: the arcsine has real part atan2(x, *beside) and the returned imaginary part; the
 * arccosine has real part atan2(*beside, x). */
static inline double arc_parts(double x, double y, double *beside)
{
    double r = __builtin_sqrt((x + 1) * (x + 1) + y * y);
    double s = __builtin_sqrt((x - 1) * (x - 1) + y * y), z = y * y;
    double a = 0.5 * (r + s), sum = a + x;
    double right = s + __builtin_fabs(x - 1); /* from the difference s - |x - 1| = y^2 / right */
    double gap = right == 0 ? 0 : z / right, edge = z / (r + x + 1);
    double less = 0.5 * (edge + (x <= 1 ? gap : right)); /* a - 1 */
    double inside = 0.5 * sum * (edge + right);          /* a^2 - x^2 for x <= 1 */
    double outside = 0.5 * sum * (edge + gap);
    *beside = __builtin_sqrt(x <= 1 ? inside : outside);
    double im = log1p_wide(less + __builtin_sqrt(less * (a + 1)));
    int infinite = (x == __builtin_inf()) | (y == __builtin_inf());
    *beside = infinite ? (y == __builtin_inf() ? y : y - y) : *beside;
    return infinite ? __builtin_inf() : im;
}

static inline weft_complex64 asin_c64(weft_complex64 x)
{
    double beside, a = (double)__builtin_fabsf(x.re);
    double im = arc_parts(a, (double)__builtin_fabsf(x.im), &beside);
    double re = x.re == 0 ? 0 : atan2_wide(a, beside);
    return complex_rounded(__builtin_copysign(re, (double)x.re),
                           __builtin_copysign(im, (double)x.im));
}

static inline weft_complex64 acos_c64(weft_complex64 x)
{
    double beside;
    double im = arc_parts((double)__builtin_fabsf(x.re), (double)__builtin_fabsf(x.im), &beside);
    double re = x.re == 0 ? WIDE_PI / 2 : atan2_wide(beside, (double)x.re);
    return complex_rounded(re, -__builtin_copysign(im, (double)x.im));
}

static inline weft_complex64 asinh_c64(weft_complex64 x)
{
    return complex_swapped(asin_c64(complex_swapped(x)));
}

static inline weft_complex64 acosh_c64(weft_complex64 x)
{
    weft_complex64 c = acos_c64(x);
    return complex_of(__builtin_fabsf(c.im), __builtin_copysignf(c.re, x.im));
}

static inline weft_complex64 atanh_c64(weft_complex64 x)
{
    double a = (double)__builtin_fabsf(x.re), b = (double)__builtin_fabsf(x.im), z = b * b;
    double re = 0.25 * log1p_wide(4 * a / ((1 - a) * (1 - a) + z));
    double im = 0.5 * atan2_wide(2 * b, (1 - a) * (1 + a) - z);
    int infinite = is_infinite(x.re) | is_infinite(x.im);
    re = (infinite | (x.re == 0)) ? 0 : re;
    im = infinite ? (x.im != x.im ? im : WIDE_PI / 2) : im;
    return complex_rounded(__builtin_copysign(re, (double)x.re),
                           __builtin_copysign(im, (double)x.im));
}

static inline weft_complex64 atan_c64(weft_complex64 x)
{
    return complex_swapped(atanh_c64(complex_swapped(x)));
}

/* ---- Rounding, truth, order ----------------------------------------------------------------- */

static inline uint8_t truth_c64(weft_complex64 x)
{
    return (uint8_t)((x.re != 0) | (x.im != 0));
}

static inline weft_complex64 isnan_c64(weft_complex64 x)
{
    return complex_of((float)((x.re != x.re) | (x.im != x.im)), 0);
}

static inline weft_complex64 isinf_c64(weft_complex64 x)
{
    return complex_of((float)(is_infinite(x.re) | is_infinite(x.im)), 0);
}

static inline weft_complex64 isfinite_c64(weft_complex64 x)
{
    return complex_of((float)((x.re - x.re == 0) & (x.im - x.im == 0)), 0);
}

static inline weft_complex64 not_c64(weft_complex64 x)
{
    return complex_of((float)((x.re == 0) & (x.im == 0)), 0);
}

static inline weft_complex64 and_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)(truth_c64(x) & truth_c64(y)), 0);
}

static inline weft_complex64 or_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)(truth_c64(x) | truth_c64(y)), 0);
}

static inline weft_complex64 eq_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)((x.re == y.re) & (x.im == y.im)), 0);
}

static inline weft_complex64 ne_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)((x.re != y.re) | (x.im != y.im)), 0);
}

/* Compares the real parts, then the imaginary ones. */
static inline int complex_less(weft_complex64 x, weft_complex64 y)
{
    return (x.re < y.re) | ((x.re == y.re) & (x.im < y.im));
}

static inline weft_complex64 lt_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)complex_less(x, y), 0);
}

static inline weft_complex64 le_c64(weft_complex64 x, weft_complex64 y)
{
    return complex_of((float)((x.re < y.re) | ((x.re == y.re) & (x.im <= y.im))), 0);
}

static inline weft_complex64 complex_choice(int first, weft_complex64 x, weft_complex64 y)
{
    return complex_of(first ? x.re : y.re, first ? x.im : y.im);
}

static inline weft_complex64 min_c64(weft_complex64 x, weft_complex64 y)
{
    int undefined = (x.re != x.re) | (x.im != x.im);
    int other = (y.re != y.re) | (y.im != y.im);
    return complex_choice(undefined | (complex_less(x, y) & !other), x, y);
}

static inline weft_complex64 max_c64(weft_complex64 x, weft_complex64 y)
{
    int undefined = (x.re != x.re) | (x.im != x.im);
    int other = (y.re != y.re) | (y.im != y.im);
    return complex_choice(undefined | (complex_less(y, x) & !other), x, y);
}

static inline weft_complex64 select_c64(weft_complex64 c, weft_complex64 x, weft_complex64 y)
{
    return complex_choice(truth_c64(c), x, y);
}

#endif
