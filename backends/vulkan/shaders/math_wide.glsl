// backends/vulkan/shaders/math_wide.glsl -- the functions of math.glsl for double, which includes
// this under WIDE. For double, GLSL has only arithmetic, sqrt and comparisons.
//
// Results are within a relative 1e-15, including all angles; pow is within 2e-15.

const double LN2_HIGH_WIDE = 0.6931471805598903lf, LN2_LOW_WIDE = 5.497923018708371e-14lf;
const double HALF_PI_WIDE = 1.5707963267948966lf, HALF_PI_TAIL = 6.123233995736766e-17lf;
const double POWER_52 = 4503599627370496.0lf;
#define INFINITY_WIDE packDouble2x32(uvec2(0u, 0x7ff00000u))
#define NOT_A_NUMBER_WIDE packDouble2x32(uvec2(0u, 0x7ff80000u))

uint high_bits(const double x)
{
    return unpackDouble2x32(x).y;
}

bool nan_(const double x)
{
    uvec2 bits = unpackDouble2x32(x);
    uint high = bits.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u);
}

bool finite_(const double x)
{
    return (high_bits(x) & 0x7fffffffu) < 0x7ff00000u;
}

bool negative_(const double x)
{
    return high_bits(x) >> 31 != 0u;
}

double magnitude_of(const double x)
{
    uvec2 bits = unpackDouble2x32(x);
    return packDouble2x32(uvec2(bits.x, bits.y & 0x7fffffffu));
}

double signed_(const double m, const double x)
{
    uvec2 bits = unpackDouble2x32(m);
    return packDouble2x32(uvec2(bits.x, bits.y ^ (high_bits(x) & 0x80000000u)));
}

// 2^k for -1022 <= k <= 1023.
double power_of_two_wide(const int k)
{
    return packDouble2x32(uvec2(0u, uint(k + 1023) << 20));
}

// ---- Rounding, roots, remainders ----------------------------------------------------------------

// By bits: GLSL's functions are wrong for double in Mesa 22.3's software driver on a processor
// without AVX-512, where roundEven(-3.5) is -3 and nothing above 2^24 is rounded.
double trunc_(const double x)
{
    uvec2 bits = unpackDouble2x32(x);
    int exponent = int(bits.y >> 20 & 0x7ffu) - 1023;
    uint high = exponent < 0    ? bits.y & 0x80000000u
                : exponent < 20 ? bits.y & ~(0xfffffu >> exponent)
                                : bits.y;
    uint low = exponent < 20   ? 0u
               : exponent < 52 ? bits.x & ~(0xffffffffu >> (exponent - 20))
                               : bits.x;
    return packDouble2x32(uvec2(low, high));
}

double floor_(const double x)
{
    precise double t = trunc_(x), below = t - 1.0lf;
    return t > x ? below : t;
}

double ceil_(const double x)
{
    precise double t = trunc_(x), above = t + 1.0lf;
    return t < x ? above : t;
}

double rint_(const double x)
{
    precise double t = trunc_(x), part = magnitude_of(x - t), half_of_t = 0.5lf * t;
    bool away = part > 0.5lf || (part == 0.5lf && trunc_(half_of_t) != half_of_t);
    precise double next = magnitude_of(t) + 1.0lf;
    return away ? signed_(next, x) : t;
}

double min_(const double x, const double y)
{
    return nan_(x) || x < y ? x : y;
}

double max_(const double x, const double y)
{
    return nan_(x) || x > y ? x : y;
}

double div_(const double x, const double y)
{
    precise double q = x / y;
    return q;
}

double sqrt_(const double x)
{
    return x == 0.0lf || nan_(x) || x == INFINITY_WIDE ? x
           : x < 0.0lf                                 ? NOT_A_NUMBER_WIDE
                                                       : sqrt(x);
}

double rsqrt_(const double x)
{
    precise double s = sqrt_(x), r = 1.0lf / s;
    return r;
}

// The exact remainder with the divisor's sign: subtracts the divisor times each power of 2, the
// largest first.
double mod_(const double x, const double y)
{
    precise double r = magnitude_of(x), b = magnitude_of(y), half_r = r * 0.5lf;
    if (b == 0.0lf || nan_(y) || !finite_(x)) {
        return NOT_A_NUMBER_WIDE;
    }
    precise double t = b;
    while (t <= half_r) {
        t = t * 2.0lf;
    }
    while (t >= b && r != 0.0lf) {
        r = r >= t ? r - t : r;
        if (t == b) {
            break;
        }
        t = t * 0.5lf;
    }
    precise double remainder = signed_(r, x), moved = remainder + y;
    return r == 0.0lf                       ? signed_(0.0lf, y)
           : negative_(x) != negative_(y) ? moved
                                            : remainder;
}

// ---- Exponentials -------------------------------------------------------------------------------

// Decomposes x = k ln 2 + r for |x| <= 1500: returns e^r - 1, and k.
double exp_reduced(const double x, out int k)
{
    precise double n = rint_(x * 1.4426950408889634lf);
    precise double near = x - n * LN2_HIGH_WIDE, r = near - n * LN2_LOW_WIDE;
    precise double low = (near - r) - n * LN2_LOW_WIDE;
    precise double q = 2.0914707069612355e-09lf * r + 2.510524515390137e-08lf;
    q = q * r + 2.7557273594799413e-07lf;
    q = q * r + 2.755725533255441e-06lf;
    q = q * r + 2.480158732558584e-05lf;
    q = q * r + 0.00019841269874873975lf;
    q = q * r + 0.0013888888888883737lf;
    q = q * r + 0.00833333333332612lf;
    q = q * r + 0.04166666666666667lf;
    q = q * r + 0.1666666666666667lf;
    q = q * r + 0.5lf;
    precise double p = r + (r * r * q + (low + low * r));
    k = int(n);
    return p;
}

// (1 + p) 2^k, multiplied by two factors because 2^k may be out of range.
double scale_by(const double p, const int k)
{
    int halved = k >> 1;
    precise double r = (1.0lf + p) * power_of_two_wide(halved) * power_of_two_wide(k - halved);
    return r;
}

double exp_(const double x)
{
    int k;
    double p = exp_reduced(x > 710.0lf ? 710.0lf : x > -746.0lf ? x : -746.0lf, k);
    return nan_(x) ? x : scale_by(p, k);
}

double expm1_(const double x)
{
    int k;
    precise double p = exp_reduced(x > 710.0lf ? 710.0lf : x > -40.0lf ? x : -40.0lf, k);
    int last = k > 0 ? 1 : 0;
    precise double scale = power_of_two_wide(k - last);
    precise double r = (scale * p + (scale - power_of_two_wide(-last))) * power_of_two_wide(last);
    return nan_(x) || x == 0.0lf ? x : r;
}

double tanh_(const double x)
{
    precise double a = magnitude_of(x);
    precise double e = expm1_(2.0lf * (a < 20.0lf ? a : 20.0lf));
    precise double r = e / (e + 2.0lf);
    return nan_(x) || x == 0.0lf ? x : signed_(r, x);
}

double sinh_(const double x)
{
    precise double a = magnitude_of(x);
    if (a < 1.0lf) {
        precise double e = expm1_(a), r = 0.5lf * (e + e / (e + 1.0lf));
        return x == 0.0lf ? x : signed_(r, x);
    }
    int k;
    precise double p = exp_reduced(a < 711.0lf ? a : 711.0lf, k);
    precise double e = scale_by(p, k - 2), r = (e - 0.0625lf / e) * 2.0lf;
    return nan_(x) ? x : signed_(r, x);
}

double cosh_(const double x)
{
    int k;
    precise double a = magnitude_of(x), p = exp_reduced(a < 711.0lf ? a : 711.0lf, k);
    precise double e = scale_by(p, k - 2), r = (e + 0.0625lf / e) * 2.0lf;
    return nan_(x) ? x : r;
}

// ---- Logarithms ---------------------------------------------------------------------------------

// Splits x > 0: returns the exponent, and sets f so that the mantissa 1 + f is between sqrt(1/2)
// and sqrt(2).
int split_exponent(const double x, out double f)
{
    bool tiny = (high_bits(x) & 0x7fffffffu) < 0x100000u;
    precise double scaled = tiny ? x * 18014398509481984.0lf : x; // 2^54
    uvec2 bits = unpackDouble2x32(scaled);
    uint word = bits.y - 0x3fe6a09eu;
    precise double r = packDouble2x32(uvec2(bits.x, (word & 0xfffffu) + 0x3fe6a09eu)) - 1.0lf;
    f = r;
    return (int(word) >> 20) - (tiny ? 54 : 0);
}

double log_special(const double x, const double result)
{
    return x == 0.0lf       ? -INFINITY_WIDE
           : nan_(x)        ? x
           : negative_(x)   ? NOT_A_NUMBER_WIDE
           : finite_(x)     ? result
                            : x;
}

// The low part in log(1 + f) = f - low, for 1 + f between sqrt(1/2) and sqrt(2).
double log_low(const double f)
{
    precise double s = f / (2.0lf + f), z = s * s, half_square = 0.5lf * f * f;
    precise double p = 0.1308707158006738lf * z + 0.13268730539100895lf;
    p = p * z + 0.15386241293734357lf;
    p = p * z + 0.18181795610879042lf;
    p = p * z + 0.22222222391987728lf;
    p = p * z + 0.28571428570802404lf;
    p = p * z + 0.4000000000000088lf;
    p = p * z + 0.6666666666666666lf;
    precise double low = half_square - s * (half_square + p * z);
    return low;
}

double log_sum(const double e, const double f)
{
    precise double r = e * LN2_HIGH_WIDE + (f - (log_low(f) - e * LN2_LOW_WIDE));
    return r;
}

double log_(const double x)
{
    double f;
    int e = split_exponent(x, f);
    return log_special(x, log_sum(double(e), f));
}

double log1p_(const double x)
{
    precise double u = 1.0lf + x;
    int e = int(high_bits(u) - 0x3fe6a09eu) >> 20, halved = e >> 1;
    precise double a = power_of_two_wide(-halved), b = power_of_two_wide(halved - e);
    precise double f = x * a * b + (a * b - 1.0lf); // (1 + x) 2^-e - 1, rounded once
    double r = log_special(u, log_sum(double(e), finite_(u) ? f : 0.0lf));
    return (high_bits(x) & 0x7fffffffu) < 0x3c000000u ? x : r; // below 2^-63
}

double log2_(const double x)
{
    double f;
    int e = split_exponent(x, f);
    // 1 / ln 2 is split into two parts, the first with 21 bits, and so is f: one product is exact.
    precise double low = log_low(f), high = f - low;
    uvec2 bits = unpackDouble2x32(high);
    precise double top = packDouble2x32(uvec2(0u, bits.y)), rest = (f - top) - low;
    precise double r = double(e) + (top * 1.4426946640014648lf +
                                    (rest * 1.4426950408889634lf + top * 3.768874985636099e-07lf));
    return log_special(x, r);
}

// ---- Powers -------------------------------------------------------------------------------------

double product_error(const double x, const double y, const double p)
{
    precise double a = x * 134217729.0lf, b = y * 134217729.0lf; // 2^27 + 1
    precise double xh = a - (a - x), yh = b - (b - y), xl = x - xh, yl = y - yh;
    precise double e = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl;
    return e;
}

dvec2 product_pair(const dvec2 a, const dvec2 b)
{
    precise double p = a.x * b.x;
    precise double low = product_error(a.x, b.x, p) + (a.x * b.y + a.y * b.x);
    precise double high = p + low, rest = low - (high - p);
    return dvec2(high, rest);
}

dvec2 sum_pair(const dvec2 a, const dvec2 b)
{
    precise double s = a.x + b.x;
    precise double low = (b.x - (s - a.x)) + (a.y + b.y);
    precise double high = s + low, rest = low - (high - s);
    return dvec2(high, rest);
}

// log2 of x > 0 to about 2^-66: the series of (1 + s) / (1 - s), with its first terms as pairs.
dvec2 log2_pair(const double x)
{
    double f;
    int e = split_exponent(x, f);
    precise double d = 2.0lf + f, d_low = f - (d - 2.0lf), s = f / d, p = s * d;
    precise double s_low = (((f - p) - product_error(s, d, p)) - s * d_low) / d;
    dvec2 pair = dvec2(s, s_low), z = product_pair(pair, pair);
    precise double q = 0.16913369683335194lf * z.x + 0.16888491047592058lf;
    q = q * z.x + 0.19238058024741803lf;
    q = q * z.x + 0.22195278832367185lf;
    q = q * z.x + 0.2623081914705993lf;
    q = q * z.x + 0.3205988979671439lf;
    q = q * z.x + 0.4121985831111439lf;
    q = q * z.x + 0.5770780163555853lf;
    precise double third = q * z.x;
    dvec2 terms = sum_pair(dvec2(0.9617966939259756lf, 5.0577616648125907e-17lf),
                           dvec2(third, 0.0lf));
    terms = sum_pair(dvec2(2.8853900817779268lf, 4.0710547481862066e-17lf),
                     product_pair(terms, z));
    return sum_pair(dvec2(double(e), 0.0lf), product_pair(terms, pair));
}

// |x|^y for finite x and y and x != 0.
double pow_magnitude(const double x, const double y)
{
    precise double b = magnitude_of(y) < 1e22lf ? y : signed_(1e22lf, y);
    dvec2 t = product_pair(log2_pair(magnitude_of(x)), dvec2(b, 0.0lf));
    precise double high = t.x > 1200.0lf ? 1200.0lf : t.x < -1200.0lf ? -1200.0lf : t.x;
    precise double n = rint_(high), g = (high - n) + (high == t.x ? t.y : 0.0lf);
    int k;
    precise double r = g * 0.6931471805599453lf, p = exp_reduced(r, k);
    return scale_by(p, int(n) + k);
}

double pow_(const double x, const double y)
{
    double a = magnitude_of(x), b = magnitude_of(y);
    precise double halved = b * 0.5lf;
    bool whole = rint_(b) == b, odd = whole && b < 2.0lf * POWER_52 && rint_(halved) != halved;
    if (y == 0.0lf || x == 1.0lf || (x == -1.0lf && !finite_(b) && !nan_(b))) {
        return 1.0lf;
    }
    if (nan_(x) || nan_(y)) {
        return NOT_A_NUMBER_WIDE;
    }
    double r;
    if (!finite_(b)) {
        r = (a > 1.0lf) == (y > 0.0lf) ? INFINITY_WIDE : 0.0lf;
    } else if (a == 0.0lf || !finite_(a)) {
        r = (a == 0.0lf) == (y < 0.0lf) ? INFINITY_WIDE : 0.0lf;
    } else {
        if (negative_(x) && !whole) {
            return NOT_A_NUMBER_WIDE;
        }
        r = pow_magnitude(x, y);
    }
    return odd && negative_(x) ? -r : r;
}

#include "math_angles_wide.glsl"
