// backends/vulkan/shaders/rows_push.glsl -- the arguments of ops along an axis. Mirrors walk.h.
#include "axes.glsl"

layout(push_constant, scalar) uniform Push {
    Words x, result, from, to; // from, to: in the workspace
    uint origin;               // the element of x where row 0 begins
    uint rows, count;          // how many rows, of how many elements
    uint inner;                // how far neighbours of a row are from each other in the result
    int stride;                // the same in x
    uint parts, chunk;         // rows in parts of `chunk` elements
    Axes kept;                 // the axes of rows
} p;

// Where element k of a row stands in the result.
uint result_place(uint row, uint k)
{
    return row / p.inner * p.inner * p.count + row % p.inner + k * p.inner;
}
