// backends/vulkan/shaders/logsum.glsl -- sums of exponentials that do not overflow: the largest
// element so far, and the sum of exp(x - largest). A NaN element makes the sum NaN.
#include "math.glsl"

#ifdef WIDE
#define ACC dvec2
#define INFINITE INFINITY_WIDE
#define NO_NUMBER NOT_A_NUMBER_WIDE
#define exponential exp_
const uint PART_TYPE = FLOAT64;

bool is_nan(double x)
{
    uvec2 bits = unpackDouble2x32(x);
    uint high = bits.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0);
}
#else
#define ACC vec2
#define INFINITE INFINITY
#define NO_NUMBER NOT_A_NUMBER
#define exponential exp // there are many terms; the error of exp is 3 + 2 |x| ulp
const uint PART_TYPE = FLOAT32;

bool is_nan(float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}
#endif

ACC identity()
{
    return ACC(-INFINITE, 0);
}

// Equal infinities must not be subtracted.
ACC combine(ACC a, ACC b)
{
    if (a.x == b.x) {
        return ACC(a.x, a.y + b.y);
    }
    real factor = exponential(-abs(a.x - b.x));
    return a.x > b.x ? ACC(a.x, a.y + b.y * factor) : ACC(b.x, b.y + a.y * factor);
}

ACC term(real x)
{
    return is_nan(x) ? ACC(-INFINITE, x) : ACC(x, 1);
}

ACC load_part(Words from, uint i)
{
    return ACC(load_real(from, PART_TYPE, 2 * i), load_real(from, PART_TYPE, 2 * i + 1));
}

void store_part(Words to, uint i, ACC acc)
{
    store_real(to, PART_TYPE, 2 * i, acc.x);
    store_real(to, PART_TYPE, 2 * i + 1, acc.y);
}
