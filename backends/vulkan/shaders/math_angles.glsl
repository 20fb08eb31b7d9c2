// backends/vulkan/shaders/math_angles.glsl -- angles and error functions of float, for math.glsl.
//
// Sines are accurate for every float: arguments are reduced with as many bits of 2 / pi as needed.

// ---- Angles -------------------------------------------------------------------------------------

// 2 / pi as a binary fraction.
const uint TWO_OVER_PI[40] = uint[](
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
    0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
    0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu,
    0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u,
    0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
    0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du);

// 32 bits of 2 / pi, starting at bit `first`.
uint two_over_pi(const int first)
{
    int word = first >> 5, shift = first & 31;
    uint high = TWO_OVER_PI[word], low = TWO_OVER_PI[word + 1];
    return shift == 0 ? high : high << shift | low >> (32 - shift);
}

// Multiplies x = m 2^e by 2 / pi without the bits that only add multiples of 4 (Payne and Hanek
// 1983). Returns the signed distance to the nearest integer in two parts, and that integer modulo
// 4.
vec2 reduce_large(const float x, out int quadrant)
{
    uint bits = floatBitsToUint(x), m = (bits & 0x7fffffu) | 0x800000u;
    int first = int(bits >> 23 & 255u) - 152; // first bit: e - 2; |x| is at least 8
    uint w0 = first < 0 ? two_over_pi(0) >> -first : two_over_pi(first);
    uint w1 = two_over_pi(first + 32), w2 = two_over_pi(first + 64);
    uint carry, low, high1, mid, high0;
    umulExtended(m, w2, high1, low);
    umulExtended(m, w1, high0, mid);
    mid = uaddCarry(mid, high1, carry);
    uint top = m * w0 + high0 + carry;
    uint f = top << 2 | mid >> 30, rest = mid << 2 | low >> 30;
    bool up = f >= 0x80000000u;
    quadrant = int(top >> 30) + (up ? 1 : 0);
    if (up) {
        f = ~f;
        rest = ~rest;
    }
    int zeros = f == 0u ? 31 : 31 - findMSB(f);
    f = zeros == 0 ? f : f << zeros | rest >> (32 - zeros);
    if (negative_(x)) {
        quadrant = -quadrant;
    }
    precise float scale = power_of_two(-32 - zeros);
    scale = up != negative_(x) ? -scale : scale;
    precise float high = float(f & ~0xffu) * scale, tail = float(f & 0xffu) * scale;
    return vec2(high, tail);
}

// Returns x - quadrant pi / 2, between -pi / 4 and pi / 4, in two parts; NaN for infinities.
vec2 reduce_quadrant(const float x, out int quadrant)
{
    precise float high, low;
    if (magnitude_of(x) < 3000.0) {
        // n has 11 bits. pi / 2 is split into parts of 13, 12 and 13 bits and a remainder.
        precise float n = rint_(x * 0.636619772);
        precise float near = (x - n * 1.570556640625) - n * 0.0002396702766418457;
        high = near - n * 1.5890691429376602e-08;
        low = ((near - high) - n * 1.5890691429376602e-08) - n * 2.56334415e-12;
        quadrant = int(n);
    } else {
        vec2 part = reduce_large(x, quadrant);
        high = part.x * HALF_PI_HIGH;
        low = product_error(part.x, HALF_PI_HIGH, high);
        low = low + (part.x * HALF_PI_LOW + part.y * HALF_PI_HIGH);
    }
    return finite_(x) ? vec2(high, low) : vec2(NOT_A_NUMBER);
}

float sine_polynomial(const vec2 parts)
{
    precise float r = parts.x, z = r * r;
    precise float p = SINE_TERMS(z);
    precise float s = r + (r * z * p + parts.y);
    return s;
}

float cosine_polynomial(const vec2 parts)
{
    precise float r = parts.x, z = r * r;
    precise float p = COSINE_TERMS(z);
    precise float c = 1.0 + (z * (z * p - 0.5) - r * parts.y);
    return c;
}

float sin_(const float x)
{
    int q;
    vec2 r = reduce_quadrant(x, q);
    float s = (q & 1) != 0 ? cosine_polynomial(r) : sine_polynomial(r);
    return x == 0.0 ? x : (q & 2) != 0 ? -s : s;
}

float cos_(const float x)
{
    int q;
    vec2 r = reduce_quadrant(x, q);
    float c = (q & 1) != 0 ? sine_polynomial(r) : cosine_polynomial(r);
    return (q + 1 & 2) != 0 ? -c : c;
}

float tan_(const float x)
{
    int q;
    vec2 r = reduce_quadrant(x, q);
    precise float s = sine_polynomial(r), c = cosine_polynomial(r);
    precise float t = (q & 1) != 0 ? -c / s : s / c;
    return x == 0.0 ? x : t;
}

// The arctangent of 0 <= z <= 1.
float atan_polynomial(const float z)
{
    precise float t = z * z;
    precise float p = ATAN_TERMS(t);
    precise float r = z + z * t * p;
    return r;
}

float atan_(const float x)
{
    precise float a = magnitude_of(x);
    bool steep = a > 1.0;
    precise float inverse = finite_(a) ? 1.0 / a : 0.0;
    precise float r = atan_polynomial(steep ? inverse : a);
    precise float complement = HALF_PI_HIGH - (r - HALF_PI_LOW);
    return nan_(x) || x == 0.0 ? x : signed_(steep ? complement : r, x);
}

// x / y for 0 < x < y. Both are scaled to avoid overflow and underflow.
float ratio(const float x, const float y)
{
    precise float scale = y > 1e30 ? 9.094947017729282e-13 : y < 1e-30 ? 1.099511627776e12 : 1.0;
    precise float r = finite_(y) ? (x * scale) / (y * scale) : 0.0;
    return r;
}

// The angle of the point (x, y): computed within one octant, then mapped to the full circle.
float atan2_(const float y, const float x)
{
    float ax = magnitude_of(x), ay = magnitude_of(y);
    bool steep = ay > ax;
    float small = steep ? ax : ay, large = steep ? ay : ax;
    // If both are equal, including two zeros and two infinities, the ratio is 0 or 1.
    float z = small == large ? (large == 0.0 ? 0.0 : 1.0) : ratio(small, large);
    precise float r = atan_polynomial(z);
    precise float complement = HALF_PI_HIGH - (r - HALF_PI_LOW);
    r = steep ? complement : r;
    precise float supplement = 2.0 * HALF_PI_HIGH - (r - 2.0 * HALF_PI_LOW);
    r = negative_(x) ? supplement : r;
    return nan_(x) || nan_(y) ? NOT_A_NUMBER : signed_(r, y);
}

// The arcsine of a for 0 <= a <= 1/2; for larger a the arcsine of sqrt((1 - a) / 2), which is half
// the complement. The result has two parts: a value, and a smaller correction to it.
vec2 asin_core(const float a)
{
    bool large = a > 0.5;
    precise float z = large ? (1.0 - a) * 0.5 : a * a;
    precise float s = large ? sqrt_(z) : a, square = s * s;
    precise float rest = large && s > 0.0 ? ((z - square) - product_error(s, s, square)) / (s + s)
                                          : 0.0;
    precise float p = ASIN_TERMS(z);
    precise float tail = s * z * p + rest;
    return vec2(s, tail);
}

float asin_(const float x)
{
    precise float a = magnitude_of(x);
    vec2 core = asin_core(a);
    precise float r = core.x + core.y;
    precise float complement = (HALF_PI_HIGH - 2.0 * core.x) - (2.0 * core.y - HALF_PI_LOW);
    return nan_(x) || x == 0.0 ? x
           : a > 1.0           ? NOT_A_NUMBER
                               : signed_(a > 0.5 ? complement : r, x);
}

float acos_(const float x)
{
    precise float a = magnitude_of(x);
    vec2 core = asin_core(a);
    precise float r = core.x + core.y, near_one = 2.0 * r;
    precise float near_zero = HALF_PI_HIGH - (signed_(r, x) - HALF_PI_LOW);
    precise float near_minus_one = 2.0 * HALF_PI_HIGH - (near_one - 2.0 * HALF_PI_LOW);
    return nan_(x) || a > 1.0 ? NOT_A_NUMBER
           : a <= 0.5         ? near_zero
           : x < 0.0          ? near_minus_one
                              : near_one;
}

// ---- Error functions ----------------------------------------------------------------------------

float erf_(const float x)
{
    precise float a = magnitude_of(x), z = a * a;
    if (!(a >= 1.0)) {
        precise float p = ERF_TERMS(z); // erf(a) / a - 1
        precise float r = x + x * p;
        return x == 0.0 ? x : r;
    }
    precise float b = a < 4.05 ? a : 4.05; // where the result rounds to 1
    precise float q = ERF_TAIL_TERMS(b); // -log(1 - erf b)
    int k;
    precise float p = exp_reduced(-q, k), r = 1.0 - (1.0 + p) * power_of_two(k);
    return signed_(r, x);
}

// erfinv(x) / x is a smooth function of w = -log(1 - x^2), and of sqrt(w) in the tails.
float erfinv_(const float x)
{
    precise float a = magnitude_of(x), w = -log_((1.0 - a) * (1.0 + a));
    precise float p, t;
    if (w < 5.0) {
        t = w - 2.5;
        p = ERFINV_TERMS(t);
    } else {
        t = sqrt_(w) - 3.0;
        p = ERFINV_TAIL_TERMS(t);
    }
    precise float r = x * p;
    return nan_(x) || x == 0.0 ? x
           : a == 1.0          ? signed_(INFINITY, x)
           : a > 1.0           ? NOT_A_NUMBER
                               : r;
}
