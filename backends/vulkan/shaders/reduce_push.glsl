// backends/vulkan/shaders/reduce_push.glsl -- the arguments of a reduction. Mirrors reduce.c.
#include "axes.glsl"

layout(push_constant, scalar) uniform Push {
    Words x, result;
    uint origin; // the element of x where output 0 begins
    uint outputs, count, parts, chunk;
    uint total; // elements of a run, even if the inputs are parts
    Axes kept, reduced;
} p;
