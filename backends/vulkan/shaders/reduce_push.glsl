// backends/vulkan/shaders/reduce_push.glsl -- the arguments of a reduction. Mirrors reduce.c.
#include "axes.glsl"
#include "batch.glsl"

struct Arguments {
    Words x, result;
    uint origin; // the element of x where output 0 begins
    uint outputs, count, parts, chunk;
    uint total; // elements of a run, even if the inputs are parts
    Axes kept, reduced;
};
BATCH_OF(Arguments, x)
