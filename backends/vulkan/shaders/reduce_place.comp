// backends/vulkan/shaders/reduce_place.comp -- argmax and argmin: the first index of the extreme
// key.
#version 460
#include "common.glsl"
#include "bits.glsl"
#include "reduce_push.glsl"

layout(constant_id = 5) const uint X_TYPE = FLOAT32;
layout(constant_id = 6) const bool SMALLEST = false;

#define ACC uvec3 // a key and its index
ACC identity()
{
    return uvec3(0, 0, ~0u);
}

ACC combine(ACC a, ACC b)
{
    bool second = greater(b.xy, a.xy) || (b.xy == a.xy && b.z < a.z);
    return second ? b : a;
}
#include "lanes.glsl"

ACC element(uint i, uint r)
{
    uvec2 key = to_key(X_TYPE, load_bits(p.x, X_TYPE, i));
    return uvec3(SMALLEST ? turn_key(X_TYPE, key) : key, r);
}

ACC load_part(Words from, uint i)
{
    return uvec3(from.at[3 * i], from.at[3 * i + 1], from.at[3 * i + 2]);
}

void store_part(Words to, uint i, ACC acc)
{
    to.at[3 * i] = acc.x;
    to.at[3 * i + 1] = acc.y;
    to.at[3 * i + 2] = acc.z;
}

void finish(ACC acc, uint o)
{
    p.result.at[o] = acc.z;
}
#include "reduce.glsl"
