// backends/vulkan/shaders/products.glsl -- common parts of the matrix products: their arguments and
// the batch of a workgroup.
#include "pieces.glsl"

const uint NO_TYPE = 255; // the bias is absent
// With RESIDUAL (a constant of each shader) the bias has the shape of y and is added to the rounded
// product, as a separate op would do.

// y = a b over terms k: a[row, k] and b[k, column] are strided; y is dense, but may be transposed.
layout(push_constant, scalar) uniform Push {
    Words a, b, y, bias;
    uint batches, rows, columns, terms;
    int a_row, a_term, b_term, b_column;
    uint y_row, y_column;
    // Split-K: parts of `chunk` terms, or of a sum the number of parts. With several parts, y holds
    // the sums of one part after another.
    uint chunk;
    int bias_stride;
    uint first_group; // of a launch that is divided
#ifdef NORMED
    uint groups;       // workgroups, which share the columns
    uvec2 norm_weight; // 0: none
    float norm_eps, norm_offset;
#else
    ivec3 sizes;            // of the batch axes except the first
    ivec4 a_batch, b_batch; // strides
#endif
} p;

#ifndef NORMED // which has no batches
// A product without terms has one part, too.
uint part_count()
{
    return max((p.terms + p.chunk - 1u) / p.chunk, 1u);
}

// The offsets of the matrices of batch element i.
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
#endif

#ifndef NORMED
// Products of selected matrices (gather_mm.c), whose items are sorted by matrix: a row of a or a
// term of both operands is an item, and each product is of a segment of the items.
const uint NOT_BY_ITEM = 0;
const uint ROWS_BY_ITEM = 1;  // the rows of each tile are a segment, b is its matrix
const uint TERMS_BY_ITEM = 2; // the terms of each batch are a segment

struct Segment {
    uint first, count, matrix;
};

// At p.bias: the matrices of a of all items in their order (bias_stride of them), the items
// themselves, and the segments.
uint source_of(uint place)
{
    return p.bias.at[place];
}

uint item_of(uint place)
{
    return p.bias.at[uint(p.bias_stride) + place];
}

Segment segment_at(uint i)
{
    uint at = 2u * uint(p.bias_stride) + 3u * i;
    return Segment(p.bias.at[at], p.bias.at[at + 1u], p.bias.at[at + 2u]);
}
#endif

// The offset of the part's results in y.
uint y_at(uint batch, uint part)
{
    return (part * p.batches + batch) * p.rows * p.columns;
}
