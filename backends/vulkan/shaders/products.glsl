// backends/vulkan/shaders/products.glsl -- what the matrix products share: their arguments and the
// batch of a workgroup.
#include "pieces.glsl"

const uint NO_TYPE = 255; // of a bias that is not there
// With RESIDUAL (a constant of each shader) the bias is as large as y, and is added to the rounded
// product, as an op of its own would.

// y = a b, with terms k: a[row, k] and b[k, column] by strides; y is dense, but may be transposed.
layout(push_constant, scalar) uniform Push {
    Words a, b, y, bias;
    uint batches, rows, columns, terms;
    int a_row, a_term, b_term, b_column;
    uint y_row, y_column;
    // The terms come in parts of `chunk`; with several, y has the sums of each one after another.
    uint parts, chunk;
    int bias_stride;
    ivec3 sizes;            // of the batch axes but the first
    ivec4 a_batch, b_batch; // strides
} p;

// Where the matrices of an element of the batch begin.
ivec2 batch_at(uint i)
{
    ivec2 at = ivec2(0);
    if (p.batches == 1u) {
        return at;
    }
    int rest = int(i);
    [[unroll]] for (int axis = 3; axis > 0; axis--) {
        int size = p.sizes[axis - 1];
        at += rest % size * ivec2(p.a_batch[axis], p.b_batch[axis]);
        rest /= size;
    }
    return at + rest * ivec2(p.a_batch[0], p.b_batch[0]);
}

// Where its part of y begins.
uint y_at(uint batch, uint part)
{
    return (part * p.batches + batch) * p.rows * p.columns;
}
