// backends/vulkan/shaders/put_one.comp -- put_along_axis with a single index along the axis, so
// that no two values share a destination: a value per invocation.
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
} p;

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    int place = checked_index(p.indices, INDEX_TYPE, along(p.at, p.n, i), int(p.extent), p.fault,
                              p.fault_code);
    if (place >= 0) {
        uint outer = i / p.inner;
        store_element(p.to, SIZE, (outer * p.extent + uint(place)) * p.inner + i - outer * p.inner,
                      load_element(p.values, SIZE, i));
    }
}
