// backends/vulkan/shaders/scatter_order.comp -- which item follows which at the same place: the
// next in the order of the indices. Only a place's first item keeps the place.
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    Words heads, next, places, following;
    uint items;
} p;

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.items || p.places.at[i] == ~0u) {
        return;
    }
    uint following = ~0u;
    bool first = true;
    for (uint k = p.heads.at[p.places.at[i]]; k != 0u; k = p.next.at[k - 1u]) {
        first = first && k - 1u >= i;
        if (k - 1u > i) {
            following = min(following, k - 1u);
        }
    }
    p.following.at[i] = following;
    if (!first) {
        p.places.at[i] = ~0u;
    }
}
