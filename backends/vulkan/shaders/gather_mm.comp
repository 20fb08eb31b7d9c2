// backends/vulkan/shaders/gather_mm.comp -- products of matrices selected by indices: several lanes
// compute each result, and each lane adds every LANES-th term.
#version 460
#include "common.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint TYPE = FLOAT32;
layout(constant_id = 1) const uint LHS_TYPE = INT32;
layout(constant_id = 2) const uint RHS_TYPE = INT32;
layout(constant_id = 3) const uint LANES = 1; // a power of two up to 128

layout(push_constant, scalar) uniform Push {
    Words a, b, lhs, rhs, y;
    Fault fault;
    uint a_code, b_code; // fault codes
    int a_length, b_length;
    uint count, rows, columns, terms; // count: results
    int lhs_first, lhs_step, rhs_first, rhs_step; // elements
    int a_matrix, a_row, a_term, b_matrix, b_term, b_column;
    uint first_group; // of a launch that is divided
} p;

shared real parts[128];

void main()
{
    uint self = gl_LocalInvocationID.x, lane = self % LANES;
    uint i = (p.first_group + group_index()) * (128u / LANES) + self / LANES;
    bool there = i < p.count;
    uint at = there ? i : 0u;
    uint column = at % p.columns, row = at / p.columns % p.rows, item = at / p.columns / p.rows;
    uint lhs = uint(p.lhs_first + int(item) * p.lhs_step);
    uint rhs = uint(p.rhs_first + int(item) * p.rhs_step);
    int left = checked_index(p.lhs, LHS_TYPE, lhs, p.a_length, p.fault, p.a_code);
    int right = checked_index(p.rhs, RHS_TYPE, rhs, p.b_length, p.fault, p.b_code);
    int a = max(left, 0) * p.a_matrix + int(row) * p.a_row;
    int b = max(right, 0) * p.b_matrix + int(column) * p.b_column;
    real sum = real(0);
    for (uint k = lane; k < p.terms; k += LANES) {
        sum += load_real(p.a, TYPE, uint(a + int(k) * p.a_term)) *
               load_real(p.b, TYPE, uint(b + int(k) * p.b_term));
    }
    parts[self] = sum;
    barrier();
    for (uint half_ = LANES / 2u; half_ > 0u; half_ /= 2u) {
        if (lane < half_) {
            parts[self] += parts[self + half_];
        }
        barrier();
    }
    if (there && lane == 0u) {
        store_real(p.y, TYPE, i, parts[self]);
    }
}
