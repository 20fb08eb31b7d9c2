// backends/vulkan/shaders/scan.comp -- running extremes and their indices (EXTREME), products (with
// BITS: of integers modulo 2^64), logarithms of sums of exponentials (LOGSUM), and y_k = a_k
// y_(k-1) + b_k (LINEAR; b is at p.from, with the layout of a).
#version 460
#include "common.glsl"
#include "rows_push.glsl"
#if defined(EXTREME)
#include "bits.glsl"
#define ACC uvec3 // a key and its index in the order of the scan
layout(constant_id = 6) const bool SMALLEST = false;
layout(constant_id = 7) const bool PLACES = false;
const uint NOWHERE = ~0u;

// Of equal elements, the first is chosen.
ACC combine(ACC a, ACC b)
{
    return a.z == NOWHERE || (b.z != NOWHERE && greater(b.xy, a.xy)) ? b : a;
}
#elif defined(LOGSUM)
#include "logsum.glsl"
#elif defined(BITS)
#include "bits.glsl"
#define ACC uvec2

ACC combine(ACC a, ACC b)
{
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}
#elif defined(LINEAR)
#include "math.glsl"
#ifdef WIDE
#define ACC dvec2
#else
#define ACC vec2
#endif

// Composes the maps y -> x y + y0, a first.
ACC combine(ACC a, ACC b)
{
    return ACC(a.x * b.x, b.x * a.y + b.y);
}
#elif defined(WIDE)
#define ACC double

ACC combine(ACC a, ACC b)
{
    return a * b;
}
#else
#include "math.glsl"
#define ACC vec3 // mantissa, its rounding error, and an exponent: nothing overflows

ACC parted(const float x, const float low, const float exponent)
{
    uint bits = floatBitsToUint(x);
    int e = int(bits >> 23 & 0xffu);
    if ((bits & 0x7fffffffu) == 0u || e == 255) {
        return vec3(x, 0, 0);
    }
    if (e == 0) { // subnormal: a product might flush it to 0
        int up = 23 - findMSB(bits & 0x7fffffu);
        uint word = (bits & 0x7fffffu) << up;
        return vec3(uintBitsToFloat((bits & 0x80000000u) | (word & 0x7fffffu) | 127u << 23), 0,
                    exponent + float(-126 - up));
    }
    precise float rest = low * power_of_two(127 - e);
    return vec3(uintBitsToFloat((bits & 0x807fffffu) | 127u << 23), rest,
                exponent + float(e - 127));
}

ACC combine(ACC a, ACC b)
{
    precise float product = a.x * b.x;
    if (product == 0.0 || !finite_(product)) {
        return vec3(product, 0, 0);
    }
    vec2 pair = product_pair(a.xy, b.xy);
    return parted(pair.x, pair.y, a.z + b.z);
}

float whole_of(const vec3 a)
{
    int k = int(max(-300.0, min(a.z, 300.0))), third = k / 3;
    precise float sum = a.x + a.y;
    precise float r = sum * power_of_two(third) * power_of_two(third) * power_of_two(k - 2 * third);
    return a.x == 0.0 || !finite_(a.x) ? a.x : r;
}
#endif
#include "lanes.glsl"
#include "scan.glsl"

ACC in_front(uint row, uint part)
{
    return identity();
}

#if defined(EXTREME)
ACC identity()
{
    return uvec3(0, 0, NOWHERE);
}

ACC element(uint i, uint k)
{
    uvec2 key = to_key(X_TYPE, load_bits(p.x, X_TYPE, i));
    return uvec3(SMALLEST ? turn_key(X_TYPE, key) : key, k);
}

// Nothing precedes the first element of an exclusive scan; its result is the bits in p.to.
void put(uint o, ACC acc, uint base)
{
    if (PLACES) {
        p.result.at[o] = acc.z == NOWHERE ? 0 : REVERSE ? p.count - 1 - acc.z : acc.z;
    } else if (acc.z == NOWHERE) {
        store_bits(p.result, OUT_TYPE, o, uvec2(p.to));
    } else {
        store_bits(p.result, OUT_TYPE, o, load_bits(p.x, X_TYPE, base + acc.z * uint(p.stride)));
    }
}
#elif defined(BITS)
ACC identity()
{
    return uvec2(1, 0);
}

ACC element(uint i, uint k)
{
    return load_integer(p.x, X_TYPE, i);
}

void put(uint o, ACC acc, uint base)
{
    store_bits(p.result, OUT_TYPE, o, acc);
}
#elif defined(LOGSUM)
ACC element(uint i, uint k)
{
    return term(load_real(p.x, X_TYPE, i));
}

void put(uint o, ACC acc, uint base)
{
    real result = abs(acc.x) == INFINITE ? acc.x : acc.x + log_(acc.y);
    store_real(p.result, OUT_TYPE, o, is_nan(acc.y) ? NO_NUMBER : result);
}
#elif defined(LINEAR)
ACC identity()
{
    return ACC(1, 0);
}

ACC element(uint i, uint k)
{
    return ACC(load_real(p.x, X_TYPE, i), load_real(p.from, X_TYPE, i));
}

void put(uint o, ACC acc, uint base)
{
    store_real(p.result, OUT_TYPE, o, acc.y);
}
#elif defined(WIDE)
ACC identity()
{
    return 1;
}

ACC element(uint i, uint k)
{
    return load_real(p.x, X_TYPE, i);
}

void put(uint o, ACC acc, uint base)
{
    store_real(p.result, OUT_TYPE, o, acc);
}
#else
ACC identity()
{
    return vec3(1, 0, 0);
}

ACC element(uint i, uint k)
{
    return parted(load_real(p.x, X_TYPE, i), 0, 0);
}

void put(uint o, ACC acc, uint base)
{
    store_real(p.result, OUT_TYPE, o, whole_of(acc));
}
#endif
