// backends/vulkan/shaders/put_few.comp -- put_along_axis with few indices along the axis: a value
// per invocation, which compares its index with those after it, since the last of equal ones
// counts.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "axes.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SIZE = 4;
layout(constant_id = 1) const uint INDEX_TYPE = INT32;

layout(push_constant, scalar) uniform Push {
    Words to, values, indices;
    Fault fault;
    uint fault_code;
    uint count;
    uint extent, inner; // of the result: length of the axis, elements per index of the axis
    uint n;             // axes of the indices
    Axes at;
    uint few; // indices along the axis
} p;

int index_of(uint i)
{
    return checked_index(p.indices, INDEX_TYPE, along(p.at, p.n, i), int(p.extent), p.fault,
                         p.fault_code);
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    int place = index_of(i);
    uint row = i / p.inner, outer = row / p.few;
    bool last = place >= 0;
    for (uint later = row % p.few + 1u; later < p.few; later++) {
        last = last && index_of(i + (later - row % p.few) * p.inner) != place;
    }
    if (last) {
        store_element(p.to, SIZE, (outer * p.extent + uint(place)) * p.inner + i - row * p.inner,
                      load_element(p.values, SIZE, i));
    }
}
