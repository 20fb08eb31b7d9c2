// backends/vulkan/shaders/scatter_order.comp -- orders the items with the same destination by their
// indices: each item gets the next one. Only the first item of a destination keeps the destination.
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
