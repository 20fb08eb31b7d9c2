// backends/vulkan/shaders/bounded_index.comp -- indices along an axis: checked, clipped or wrapped.
#version 460
#include "common.glsl"

// Values of weft_bounds.
const uint CHECK = 0, CLIP = 1;

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = CHECK;
layout(constant_id = 1) const uint INDEX_TYPE = INT32;

layout(push_constant, scalar) uniform Push {
    Words indices, to;
    Fault fault;
    uint fault_code;
    uint count;
    uint extent; // length of the axis, below 2^31
    uint unused;
} p;

// The remainder of a 64-bit value divided by the length of the axis, one bit at a time.
uint rest(uvec2 value)
{
    uint r = 0;
    for (int bit = 63; bit >= 0; bit--) {
        uint word = bit > 31 ? value.y : value.x;
        r = r << 1 | (word >> (bit & 31) & 1u);
        r -= r >= p.extent ? p.extent : 0u;
    }
    return r;
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    if (MODE == CHECK) {
        int at = checked_index(p.indices, INDEX_TYPE, i, int(p.extent), p.fault, p.fault_code);
        p.to.at[i] = uint(max(at, 0));
        return;
    }
    uvec2 value = load_integer(p.indices, INDEX_TYPE, i);
    bool negative = INDEX_TYPE != UINT64 && int(value.y) < 0;
    if (MODE == CLIP) {
        bool past = value.y != 0u || value.x >= p.extent;
        p.to.at[i] = negative ? 0u : past ? p.extent - 1u : value.x;
        return;
    }
    uvec2 size = negative ? uvec2(~value.x + 1u, ~value.y + uint(value.x == 0u)) : value;
    uint r = rest(size);
    p.to.at[i] = negative && r != 0u ? p.extent - r : r;
}
