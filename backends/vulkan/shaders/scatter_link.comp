// backends/vulkan/shaders/scatter_link.comp -- the destinations of a scatter's items, and for each
// destination an unordered list of its items.
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint INDEX_TYPE = INT32;
layout(constant_id = 1) const bool ALONG = false;  // one item per element, otherwise one per slice
layout(constant_id = 2) const bool UNIQUE = false; // no two items share a destination: no lists

layout(push_constant, scalar) uniform Push {
    Words indices, heads, next, places, following;
    Fault fault;
    uint fault_code;
    uint items;
    uint extent, inner; // of x: length of the axis, elements per index of the axis
    uint n;             // with ALONG: indices along the axis
} p;

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.items) {
        return;
    }
    int at = checked_index(p.indices, INDEX_TYPE, i, int(p.extent), p.fault, p.fault_code);
    uint place = uint(at);
    if (ALONG && at >= 0) {
        uint slice = i / p.inner;
        place += slice / p.n * p.extent;
        place = place * p.inner + (i - slice * p.inner);
    }
    p.places.at[i] = place;
    if (UNIQUE) {
        p.following.at[i] = ~0u;
    } else if (at >= 0) {
        p.next.at[i] = atomicExchange(p.heads.at[place], i + 1u);
    }
}
