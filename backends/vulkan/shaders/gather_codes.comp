// backends/vulkan/shaders/gather_codes.comp -- products of rows with quantized matrices selected by
// indices: several lanes compute each result, and each lane adds every LANES-th group of eight
// terms.
#version 460
#include "common.glsl"

const uint THREADS = 128;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint TYPE = FLOAT32;
layout(constant_id = 2) const uint LHS_TYPE = INT32;
layout(constant_id = 3) const uint RHS_TYPE = INT32;
layout(constant_id = 4) const uint LANES = 1; // a power of two up to THREADS

#include "codes.glsl"

layout(push_constant, scalar) uniform Push {
    Words a, lhs, rhs, y;
    Codes b;
    Fault fault;
    uint a_code, b_code; // fault codes
    int a_length, b_length;
    uint count, rows, columns, terms; // count: results
    uint first_group;                 // of a launch that is divided
} p;

shared float parts[THREADS];

void main()
{
    uint self = gl_LocalInvocationID.x, lane = self % LANES;
    uint i = (p.first_group + group_index()) * (THREADS / LANES) + self / LANES;
    bool there = i < p.count;
    uint at = there ? i : 0u;
    uint column = at % p.columns, row = at / p.columns % p.rows, item = at / p.columns / p.rows;
    int left = checked_index(p.lhs, LHS_TYPE, item, p.a_length, p.fault, p.a_code);
    int right = checked_index(p.rhs, RHS_TYPE, item, p.b_length, p.fault, p.b_code);
    uint a = (uint(max(left, 0)) * p.rows + row) * p.terms;
    uint b = uint(max(right, 0)) * p.columns + column;
    vec4 sum = vec4(0.0);
    for (uint k = lane * 8u; k < p.terms; k += LANES * 8u) {
        vec2 scale = scale_and_bias(p.b, b, k);
        [[unroll]] for (uint q = k; q < k + 8u; q += 4u) {
            vec4 x;
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                x[j] = load_real(p.a, TYPE, a + q + j);
            }
            vec4 w = codes_four(p.b, b, q) * scale.x;
            sum += x * (BIASED ? w + scale.y : w);
        }
    }
    parts[self] = (sum.x + sum.y) + (sum.z + sum.w);
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
