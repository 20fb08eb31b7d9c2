// backends/vulkan/shaders/gather.comp -- take and take_along_axis: elements at indices of an axis.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SIZE = 4;
layout(constant_id = 1) const uint INDEX_TYPE = INT32;
layout(constant_id = 2) const bool ALONG = false; // one index per element, otherwise one per slice

layout(push_constant, scalar) uniform Push {
    Words x, indices, to;
    Fault fault;
    uint fault_code;
    uint count;         // elements of the result
    uint extent, inner; // of x: length of the axis, elements per index of the axis
    uint n;             // number of indices; with ALONG, those along the axis
} p;

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    uint slice = i / p.inner, outer = slice / p.n;
    uint which = ALONG ? i : slice - outer * p.n;
    int at = checked_index(p.indices, INDEX_TYPE, which, int(p.extent), p.fault, p.fault_code);
    if (at >= 0) {
        uint from = (outer * p.extent + uint(at)) * p.inner + (i - slice * p.inner);
        store_element(p.to, SIZE, i, load_element(p.x, SIZE, from));
    }
}
