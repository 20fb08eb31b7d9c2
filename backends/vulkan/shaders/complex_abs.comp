// backends/vulkan/shaders/complex_abs.comp -- the magnitude of complex numbers.
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Complexes { vec2 at[]; };

layout(push_constant, scalar) uniform Push {
    Words x, to;
    uint count;
} p;

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    vec2 z = abs(Complexes(p.x).at[i]);
    float large = z.x > z.y ? z.x : z.y, small = z.x > z.y ? z.y : z.x, size;
    if (isinf(z.x) || isinf(z.y)) {
        size = uintBitsToFloat(0x7f800000u); // infinity, even if the other part is NaN
    } else if (isnan(z.x) || isnan(z.y)) {
        size = uintBitsToFloat(0x7fc00000u);
    } else if (large == 0.0) {
        size = 0.0;
    } else {
        // Scale by a power of two, which is exact, so that no square overflows or underflows.
        uint exponent = floatBitsToUint(large) >> 23;
        int up = 127 - int(exponent);
        large = ldexp(large, up);
        small = ldexp(small, up);
        size = ldexp(sqrt(large * large + small * small), -up);
    }
    Floats(p.to).at[i] = size;
}
