// backends/vulkan/shaders/add_values.comp -- the sum of a few floats, one after another.
#version 460
#include "common.glsl"

const uint GROUP = 256;

layout(local_size_x = GROUP) in;

layout(push_constant, scalar) uniform Push {
    Words values, result;
    uint count;
} p;

shared float piece[GROUP]; // loaded at once, since one invocation adds them

void main()
{
    uint t = gl_LocalInvocationID.x;
    precise float sum = 0;
    for (uint first = 0u; first < p.count; first += GROUP) {
        barrier();
        if (first + t < p.count) {
            piece[t] = Floats(p.values).at[first + t];
        }
        barrier();
        for (uint i = 0u; t == 0u && i < min(GROUP, p.count - first); i++) {
            sum = first + i == 0u ? piece[0] : sum + piece[i];
        }
    }
    if (group_index() == 0u && t == 0u) {
        Floats(p.result).at[0] = sum;
    }
}
