// backends/vulkan/shaders/reduce_bits.comp -- sum and product of integers (modulo 2^64), max and
// min of anything, and whether all or any elements are set.
#version 460
#include "common.glsl"
#include "bits.glsl"
#include "reduce_push.glsl"

layout(constant_id = 5) const uint X_TYPE = INT32;
layout(constant_id = 6) const uint OUT_TYPE = INT32;
layout(constant_id = 7) const uint OP = 0;
const uint SUM = 0, PROD = 2, MAX = 3, MIN = 4, ALL = 5, ANY = 6;

#define ACC uvec2
ACC identity()
{
    return uvec2(OP == PROD || OP == ALL ? 1u : 0u, 0u);
}

ACC combine(ACC a, ACC b)
{
    uint low, high;
    switch (OP) {
    case SUM:
        low = uaddCarry(a.x, b.x, high);
        return uvec2(low, a.y + b.y + high);
    case PROD:
        umulExtended(a.x, b.x, high, low);
        return uvec2(low, high + a.x * b.y + a.y * b.x);
    case ALL:
        return a & b;
    case ANY:
        return a | b;
    default:
        return greater(b, a) ? b : a;
    }
}
#include "lanes.glsl"

ACC element(uint i, uint r)
{
    uvec2 bits = load_bits(p.x, X_TYPE, i);
    switch (OP) {
    case SUM:
    case PROD:
        return bits;
    case ALL:
    case ANY:
        return uvec2(is_set(X_TYPE, bits), 0);
    case MIN:
        return turn_key(X_TYPE, to_key(X_TYPE, bits));
    default:
        return to_key(X_TYPE, bits);
    }
}

ACC load_part(Words from, uint i)
{
    return uvec2(from.at[2 * i], from.at[2 * i + 1]);
}

void store_part(Words to, uint i, ACC acc)
{
    to.at[2 * i] = acc.x;
    to.at[2 * i + 1] = acc.y;
}

void finish(ACC acc, uint o)
{
    if (OP == MIN) {
        acc = turn_key(X_TYPE, acc);
    }
    store_bits(p.result, OUT_TYPE, o, OP == MAX || OP == MIN ? from_key(X_TYPE, acc) : acc);
}
#include "reduce.glsl"
