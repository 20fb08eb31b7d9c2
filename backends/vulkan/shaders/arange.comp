// backends/vulkan/shaders/arange.comp -- start + i step, in float64 (WIDE) or in 32-bit integers.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TYPE = FLOAT32;
layout(constant_id = 1) const uint SIZE = 4;

#ifdef WIDE
#define number double
#else
#define number int
#endif

layout(push_constant, scalar) uniform Push {
    Words to;
    number start, step;
    uint count;
} p;

// Rounds towards zero to a 64-bit integer; values out of range saturate.
uvec2 whole(number value)
{
#ifdef WIDE
    double size = abs(value);
    if (!(size < 9223372036854775808.0lf)) {
        return isnan(value) ? uvec2(0u) : value < 0.0lf ? uvec2(0u, 0x80000000u)
                                                        : uvec2(0xffffffffu, 0x7fffffffu);
    }
    uint high = uint(size / 4294967296.0lf);
    uint low = uint(size - double(high) * 4294967296.0lf);
    return value < 0.0lf ? uvec2(0u - low, ~high + uint(low == 0u)) : uvec2(low, high);
#else
    return uvec2(uint(value), uint(value >> 31));
#endif
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
#ifdef WIDE
    precise number product = number(i) * p.step, value = p.start + product;
#else
    number value = p.start + int(i) * p.step;
#endif
    if (TYPE < FLOAT16) {
        store_element(p.to, SIZE, i, whole(value));
    } else {
        store_real(p.to, TYPE, i, real(value));
    }
}
