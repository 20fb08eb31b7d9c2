// backends/vulkan/shaders/sum_parts.comp -- adds the partial sums of a split-K product, always in
// the same order, and the bias or the residual (products.glsl). SCALED undoes the scales of rows
// and columns (scale_rows.comp).
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint Y_TYPE = FLOAT32;
layout(constant_id = 1) const uint BIAS_TYPE = 255; // 255: no bias
layout(constant_id = 2) const bool RESIDUAL = false;
layout(constant_id = 3) const bool SCALED = false;

layout(push_constant, scalar) uniform Push {
    Words sums, y, bias;
    Words row_shifts, column_shifts; // of all batches
    uint rows, columns, count, parts;
    uint bias_stride;
} p;

real part_at(uint i)
{
#ifdef WIDE
    return Doubles(p.sums).at[i];
#else
    return Floats(p.sums).at[i];
#endif
}

// x 2^n, by three factors because 2^n may be out of range.
real shifted(real x, int n)
{
    int third = n / 3;
    real factor = real(intBitsToFloat((third + 127) << 23));
    precise real r = x * factor * factor * real(intBitsToFloat((n - 2 * third + 127) << 23));
    return r;
}

void main()
{
    uint i = group_index() * 256u + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    real sum = real(0);
    uint part = 0u;
    for (; part + 8u <= p.parts; part += 8u) {
        real some[8];
        [[unroll]] for (uint j = 0u; j < 8u; j++) {
            some[j] = part_at(i + (part + j) * p.count);
        }
        [[unroll]] for (uint j = 0u; j < 8u; j++) {
            sum += some[j];
        }
    }
    for (; part < p.parts; part++) {
        sum += part_at(i + part * p.count);
    }
    if (SCALED) {
        uint column = i / (p.rows * p.columns) * p.columns + i % p.columns;
        sum = shifted(sum, Ints(p.row_shifts).at[i / p.columns] + Ints(p.column_shifts).at[column]);
    }
    if (RESIDUAL) {
        sum = as_stored(sum, Y_TYPE) + load_real(p.bias, BIAS_TYPE, i);
    } else if (BIAS_TYPE != 255u) {
        sum += load_real(p.bias, BIAS_TYPE, i % p.columns * p.bias_stride);
    }
    store_real(p.y, Y_TYPE, i, sum);
}
