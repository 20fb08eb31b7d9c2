// backends/vulkan/shaders/math.glsl -- the functions of weft/tape.h for float and, under WIDE, for
// double, for which GLSL has no exponentials or angles.
//
// Floats are within 3 ulp over their whole range, doubles within a relative 1e-15. The device must
// round additions and multiplications correctly and round to integers exactly. Nothing else is
// required: GLSL's own sine, division or fma may be inaccurate. Polynomials are minimax fits.
// Arithmetic is `precise`; NaN and signs are tested by their bits (README.md, "Floating point").
// Parameters are const so that SPIR-V passes them by value.

#include "../../polynomials.h"

#define INFINITY uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

bool nan_(const float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

bool finite_(const float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u;
}

bool negative_(const float x)
{
    return floatBitsToUint(x) >> 31 != 0u;
}

float magnitude_of(const float x)
{
    return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
}

// A magnitude (0 or more, or NaN) with the sign of x. Never write this as a select by bits, (m &
// MASK) | (x & ~MASK): LLVM 19 miscompiles that for AVX-512 when it is combined with a select
// (README.md, "Floating point").
float signed_(const float m, const float x)
{
    return uintBitsToFloat(floatBitsToUint(m) ^ (floatBitsToUint(x) & 0x80000000u));
}

// 2^k for -126 <= k <= 127.
float power_of_two(const int k)
{
    return intBitsToFloat((k + 127) << 23);
}

// ---- Rounding, roots, remainders ----------------------------------------------------------------

// r is x rounded. A zero result gets the sign of x; numbers from 2^23 on, infinities and NaN are
// returned unchanged.
float rounded_from(const float r, const float x)
{
    return magnitude_of(x) < 8388608.0 ? (r == 0.0 ? signed_(0.0, x) : r) : x;
}

float rint_(const float x)
{
    return rounded_from(roundEven(x), x);
}

float floor_(const float x)
{
    return rounded_from(floor(x), x);
}

float ceil_(const float x)
{
    return rounded_from(ceil(x), x);
}

float trunc_(const float x)
{
    return rounded_from(trunc(x), x);
}

float min_(const float x, const float y)
{
    return nan_(x) || x < y ? x : y;
}

float max_(const float x, const float y)
{
    return nan_(x) || x > y ? x : y;
}

// The rounding error x y - p of the product p = x y, by splitting into halves of 12 bits (Dekker
// 1971).
float product_error(const float x, const float y, const float p)
{
    precise float a = x * 4097.0, b = y * 4097.0;
    precise float xh = a - (a - x), yh = b - (b - y), xl = x - xh, yl = y - yh;
    precise float e = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl;
    return e;
}

float sqrt_(const float x)
{
    if (!(x > 0.0) || !finite_(x)) {
        return x == 0.0 || x > 0.0 || nan_(x) ? x : NOT_A_NUMBER;
    }
    bool tiny = x < 1e-30, large = x > 1e30;
    precise float scaled = tiny ? x * 1.329227995784916e36 : large ? x * 7.52316384526264e-37 : x;
    precise float s = sqrt(scaled), p = s * s;
    precise float better = s + ((scaled - p) - product_error(s, s, p)) / (s + s); // one Newton step
    better = s > 0.0 ? better : s;
    precise float r = better * (tiny ? 8.673617379884035e-19 : large ? 1.152921504606847e18 : 1.0);
    return r;
}

bool moderate(const float x)
{
    uint magnitude = floatBitsToUint(x) & 0x7fffffffu; // between 2^-27 and 2^101
    return magnitude > 0x32000000u && magnitude < 0x72000000u;
}

// GLSL's quotient may be off by 2.5 ulp. This one is an integer where the exact quotient is.
float div_(const float x, const float y)
{
    precise float q = x / y, p = q * y;
    precise float better = q + ((x - p) - product_error(q, y, p)) / y;
    return moderate(x) && moderate(y) && moderate(q) ? better : q;
}

float rsqrt_(const float x)
{
    precise float s = sqrt_(x), r = 1.0 / s;
    return r;
}

// The exact remainder with the divisor's sign: a long division of the mantissas, 8 bits per step.
float mod_(const float x, const float y)
{
    uint a = floatBitsToUint(x) & 0x7fffffffu, b = floatBitsToUint(y) & 0x7fffffffu;
    if (b == 0u || a >= 0x7f800000u || b > 0x7f800000u) {
        return NOT_A_NUMBER;
    }
    uint r = a;
    if (a >= b) {
        int ea = max(int(a >> 23), 1), eb = max(int(b >> 23), 1);
        uint m = (b & 0x7fffffu) | (b >> 23 == 0u ? 0u : 0x800000u);
        r = ((a & 0x7fffffu) | (a >> 23 == 0u ? 0u : 0x800000u)) % m;
        for (int left = ea - eb; left > 0 && r != 0u; left -= 8) {
            r = (r << min(left, 8)) % m;
        }
        int shift = r == 0u ? 0 : min(23 - findMSB(r), eb - 1);
        r <<= shift;
        r = r < 0x800000u ? r : (r & 0x7fffffu) | uint(eb - shift) << 23;
    }
    precise float remainder = uintBitsToFloat(r | (floatBitsToUint(x) & 0x80000000u));
    precise float moved = remainder + y;
    return r == 0u ? signed_(0.0, y) : negative_(x) != negative_(y) ? moved : remainder;
}

// ---- Exponentials -------------------------------------------------------------------------------

// Decomposes x = k ln 2 + r for |x| <= 180: returns e^r - 1, and k.
float exp_reduced(const float x, out int k)
{
    precise float n = rint_(x * LOG2_E);
    precise float near = x - n * LN2_HIGH, r = near - n * LN2_LOW;
    precise float low = (near - r) - n * LN2_LOW;
    precise float q = EXP_TERMS(r);
    precise float p = r + (r * r * q + (low + low * r));
    k = int(n);
    return p;
}

// (1 + p) 2^k, multiplied by two factors because 2^k may be out of range.
float scale_by(const float p, const int k)
{
    int halved = k >> 1;
    precise float r = (1.0 + p) * power_of_two(halved) * power_of_two(k - halved);
    return r;
}

float exp_(const float x)
{
    int k;
    float p = exp_reduced(x > 89.0 ? 89.0 : x > -104.0 ? x : -104.0, k);
    return nan_(x) ? x : scale_by(p, k);
}

float expm1_(const float x)
{
    int k;
    precise float p = exp_reduced(x > 89.0 ? 89.0 : x > -20.0 ? x : -20.0, k);
    int last = k > 0 ? 1 : 0;
    precise float scale = power_of_two(k - last);
    precise float r = (scale * p + (scale - power_of_two(-last))) * power_of_two(last);
    return nan_(x) || x == 0.0 ? x : r;
}

// (e^(2x) - 1) / (e^(2x) + 1)
float tanh_(const float x)
{
    precise float a = magnitude_of(x);
    precise float e = expm1_(2.0 * (a < 10.0 ? a : 10.0));
    precise float r = e / (e + 2.0);
    return nan_(x) || x == 0.0 ? x : signed_(r, x);
}

float sinh_(const float x)
{
    precise float a = magnitude_of(x), z = a * a;
    if (!(a >= 1.0)) {
        precise float p = SINH_TERMS(z);
        precise float r = x + x * z * p;
        return r;
    }
    int k;
    precise float p = exp_reduced(a < 90.0 ? a : 90.0, k);
    precise float e = scale_by(p, k - 2), r = (e - 0.0625 / e) * 2.0;
    return signed_(r, x);
}

float cosh_(const float x)
{
    int k;
    float a = magnitude_of(x);
    precise float p = exp_reduced(a < 90.0 ? a : 90.0, k);
    precise float e = scale_by(p, k - 2), r = (e + 0.0625 / e) * 2.0;
    return nan_(x) ? x : r;
}

// ---- Logarithms ---------------------------------------------------------------------------------

// Splits x > 0: returns the exponent, and sets f so that the mantissa 1 + f is between sqrt(1/2)
// and sqrt(2).
int split_exponent(const float x, out float f)
{
    uint bits = floatBitsToUint(x);
    int below = 0;
    if (bits < 0x800000u && bits != 0u) { // subnormal: a product might flush it to 0
        below = 23 - findMSB(bits);
        bits <<= below;
    }
    uint word = bits - 0x3f3504f3u;
    precise float r = uintBitsToFloat((word & 0x7fffffu) + 0x3f3504f3u) - 1.0;
    f = r;
    return (int(word) >> 23) - below;
}

// Special cases of logarithms: arguments for which the formula does not hold.
float log_special(const float x, const float result)
{
    uint bits = floatBitsToUint(x);
    return (bits & 0x7fffffffu) == 0u ? -INFINITY
           : nan_(x)                  ? x
           : negative_(x)             ? NOT_A_NUMBER
           : finite_(x)               ? result
                                      : x;
}

// e ln 2 + log(1 + f)
float log_sum(const float e, const float f)
{
    precise float q = LOG_TERMS(f);
    precise float tail = f * f * (f * q - 0.5) + e * LN2_LOW;
    precise float r = e * LN2_HIGH + (f + tail);
    return r;
}

float log_(const float x)
{
    float f;
    int e = split_exponent(x, f);
    return log_special(x, log_sum(float(e), f));
}

float log1p_(const float x)
{
    precise float u = 1.0 + x;
    int e = int(floatBitsToUint(u) - 0x3f3504f3u) >> 23, halved = e >> 1;
    precise float a = power_of_two(-halved), b = power_of_two(halved - e); // a b = 2^-e
    precise float f = x * a * b + (a * b - 1.0); // (1 + x) 2^-e - 1, rounded once
    float r = log_special(u, log_sum(float(e), finite_(u) ? f : 0.0));
    return x == 0.0 || (floatBitsToUint(x) & 0x7fffffffu) < 0x800000u ? x : r;
}

float log2_(const float x)
{
    float f;
    int e = split_exponent(x, f);
    precise float q = LOG2_TERMS(f);
    // 1 / ln 2 is split into two parts: the large one is exact in the sum.
    precise float r = float(e) + (f * 1.44269502 + f * (f * q + 1.925963e-08));
    return log_special(x, r);
}

// ---- Powers -------------------------------------------------------------------------------------

// (a.x + a.y) (b.x + b.y) in double-float precision.
vec2 product_pair(const vec2 a, const vec2 b)
{
    precise float p = a.x * b.x;
    precise float low = product_error(a.x, b.x, p) + (a.x * b.y + a.y * b.x);
    precise float high = p + low, rest = low - (high - p);
    return vec2(high, rest);
}

// a + b in double-float precision, for |a.x| >= |b.x|.
vec2 sum_pair(const vec2 a, const vec2 b)
{
    precise float s = a.x + b.x;
    precise float low = (b.x - (s - a.x)) + (a.y + b.y);
    precise float high = s + low, rest = low - (high - s);
    return vec2(high, rest);
}

// log2 of x > 0, to about 2^-40: the series of (1 + s) / (1 - s), with its first terms as pairs.
vec2 log2_pair(const float x)
{
    float f;
    int e = split_exponent(x, f);
    precise float d = 2.0 + f, d_low = f - (d - 2.0), s = f / d, p = s * d;
    precise float s_low = (((f - p) - product_error(s, d, p)) - s * d_low) / d;
    vec2 pair = vec2(s, s_low), z = product_pair(pair, pair);
    precise float q = 0.275852886 * z.x + 0.32034689;
    q = q * z.x + 0.412200074;
    q = q * z.x + 0.577078015;
    precise float third = q * z.x;
    vec2 terms = sum_pair(vec2(0.961796701, -7.02846181e-09), vec2(third, 0.0));
    terms = sum_pair(vec2(2.88539004, 3.85192607e-08), product_pair(terms, z));
    return sum_pair(vec2(float(e), 0.0), product_pair(terms, pair));
}

// x^y for finite x and y and x > 0.
float pow_magnitude(const float x, const float y)
{
    precise float bounded = abs(y) < 1e12 ? y : signed_(1e12, y); // 1e12 log2(1 + 2^-24) > 2^15
    vec2 t = product_pair(log2_pair(x), vec2(bounded, 0.0));
    precise float high = t.x > 200.0 ? 200.0 : t.x < -200.0 ? -200.0 : t.x;
    precise float n = rint_(high), g = (high - n) + (high == t.x ? t.y : 0.0);
    int k;
    precise float r = g * 0.693147182, p = exp_reduced(r, k);
    return scale_by(p, int(n) + k);
}

float pow_(const float x, const float y)
{
    float a = magnitude_of(x), b = magnitude_of(y);
    precise float halved = b * 0.5;
    bool whole = rint_(b) == b, odd = whole && b < 16777216.0 && rint_(halved) != halved;
    if (y == 0.0 || x == 1.0 || (x == -1.0 && !finite_(b) && !nan_(b))) {
        return 1.0;
    }
    if (nan_(x) || nan_(y)) {
        return NOT_A_NUMBER;
    }
    float r;
    if (!finite_(b)) {
        r = (a > 1.0) == (y > 0.0) ? INFINITY : 0.0;
    } else if ((floatBitsToUint(a) == 0u) || !finite_(a)) {
        r = (floatBitsToUint(a) == 0u) == (y < 0.0) ? INFINITY : 0.0;
    } else {
        if (negative_(x) && !whole) {
            return NOT_A_NUMBER;
        }
        r = pow_magnitude(a, y);
    }
    return odd && negative_(x) ? -r : r;
}

#include "math_angles.glsl"
#ifdef WIDE
#include "math_wide.glsl"
#endif
