// backends/vulkan/shaders/scatter_sum.comp -- adds its items to each destination of a scatter, in
// the order of the indices. Floats are rounded once, at the end: in float32, the sum is compensated
// (it carries its rounding error).
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;
// Integers of SIZE bytes, otherwise floats of TYPE.
layout(constant_id = 0) const bool WHOLE = false;
layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint TYPE = FLOAT32;

layout(push_constant, scalar) uniform Push {
    Words to, values, places, following;
    uint count;         // elements of the values
    uint items;         // slices of the values per outer index of x
    uint extent, inner; // of x: length of the axis, elements per index of the axis
} p;

// The list starts with `item` and continues through p.following. `from` is the offset of item 0.
void add_integers(uint to, uint from, uint item)
{
    uvec2 sum = load_element(p.to, SIZE, to);
    for (uint k = item; k != ~0u; k = p.following.at[k]) {
        uvec2 value = load_element(p.values, SIZE, from + k * p.inner);
        sum.x += value.x;
        sum.y += value.y + uint(sum.x < value.x);
    }
    store_element(p.to, SIZE, to, sum);
}

void add_floats(uint to, uint from, uint item)
{
    precise real sum = load_real(p.to, TYPE, to), error = real(0);
    for (uint k = item; k != ~0u; k = p.following.at[k]) {
        precise real value = load_real(p.values, TYPE, from + k * p.inner), next = sum + value;
#ifndef WIDE
        precise real added = next - sum;
        error += (sum - (next - added)) + (value - added);
#endif
        sum = next;
    }
    // The error of a sum that is not finite is meaningless.
    store_real(p.to, TYPE, to, isnan(error) || isinf(error) ? sum : sum + error);
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    uint slice = i / p.inner, outer = slice / p.items, item = slice - outer * p.items;
    uint place = p.places.at[item];
    if (place == ~0u) {
        return;
    }
    uint to = (outer * p.extent + place) * p.inner + (i - slice * p.inner);
    uint from = i - item * p.inner;
    if (WHOLE) {
        add_integers(to, from, item);
    } else {
        add_floats(to, from, item);
    }
}
