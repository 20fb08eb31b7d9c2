// backends/vulkan/shaders/rows_push.glsl -- the arguments of ops along an axis. Mirrors walk.h.
#include "axes.glsl"

layout(push_constant, scalar) uniform Push {
    Words x, result, from, to; // from, to: in the workspace
    uint origin;               // the element of x where row 0 begins
    uint rows, count;          // number of rows, and elements per row
    uint inner;                // stride of a row in the result
    int stride;                // stride of a row in x
    uint parts, chunk;         // each row has `parts` parts of `chunk` elements
    Axes kept;                 // the axes of the rows
} p;

// The offset of element k of a row in the result.
uint result_place(uint row, uint k)
{
    return row / p.inner * p.inner * p.count + row % p.inner + k * p.inner;
}
