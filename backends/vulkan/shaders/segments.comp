// backends/vulkan/shaders/segments.comp -- sorts the items that select one of `matrices` adjacent
// matrices by matrix, in their order, and divides the items of each into segments (products.glsl).
// One workgroup per matrix.
#version 460
#include "common.glsl"

const uint THREADS = 256, MOST = 1024; // MOST: matrices

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint LHS_TYPE = INT32;
layout(constant_id = 1) const uint RHS_TYPE = INT32;

layout(push_constant, scalar) uniform Push {
    Words lhs, rhs;
    Words sources, order, segments; // results
    Fault fault;
    uint a_code, b_code; // fault codes
    int a_length, b_length;
    int lhs_first, lhs_step, rhs_first, rhs_step; // elements
    uint items;
    uint most;  // items of a segment; 0: all items of a matrix
    uint count; // segments; those at the end may be empty
    uint first_matrix, matrices;
} p;

shared uint counts[MOST];
shared uvec3 sums[THREADS];

// The matrix of item i; p.matrices or more if it is none of these, or its index is out of range.
uint matrix_of(uint i)
{
    uint at = uint(p.rhs_first + int(i) * p.rhs_step);
    int index = checked_index(p.rhs, RHS_TYPE, at, p.b_length, p.fault, p.b_code);
    return index < 0 ? ~0u : uint(index) - p.first_matrix;
}

int source_of(uint i)
{
    uint at = uint(p.lhs_first + int(i) * p.lhs_step);
    return max(checked_index(p.lhs, LHS_TYPE, at, p.a_length, p.fault, p.a_code), 0);
}

uint segments_of(uint items)
{
    return p.most == 0u ? 1u : (items + p.most - 1u) / p.most;
}

void put_segment(uint i, uint first, uint items, uint matrix)
{
    p.segments.at[3u * i] = first;
    p.segments.at[3u * i + 1u] = items;
    p.segments.at[3u * i + 2u] = matrix;
}

void main()
{
    uint self = gl_LocalInvocationID.x, matrix = group_index();
    if (matrix >= p.matrices) { // uniform over the workgroup
        return;
    }
    for (uint i = self; i < p.matrices; i += THREADS) {
        counts[i] = 0u;
    }
    barrier();
    uint each = (p.items + THREADS - 1u) / THREADS, begin = min(self * each, p.items);
    uint end = min(begin + each, p.items);
    uvec3 mine = uvec3(0u); // items of this matrix; items and segments of the matrices before it
    for (uint i = begin; i < end; i++) {
        uint of = matrix_of(i);
        if (of < p.matrices) {
            atomicAdd(counts[of], 1u);
        }
        mine.x += uint(of == matrix);
    }
    barrier();
    for (uint i = self; i < matrix; i += THREADS) {
        mine.y += counts[i];
        mine.z += segments_of(counts[i]);
    }
    sums[self] = mine;
    uvec3 sum = mine; // of the invocations up to this one
    for (uint step = 1u; step < THREADS; step *= 2u) {
        barrier();
        if (self >= step) {
            sum += sums[self - step];
        }
        barrier();
        sums[self] = sum;
    }
    barrier();
    uint first = sums[THREADS - 1u].y, segment = sums[THREADS - 1u].z;
    uint items = sums[THREADS - 1u].x, to = first + sum.x - mine.x;
    for (uint i = begin; i < end; i++) {
        if (matrix_of(i) == matrix) {
            p.order.at[to] = i;
            p.sources.at[to] = uint(source_of(i));
            to++;
        }
    }
    uint n = segments_of(items);
    for (uint i = self; i < n; i += THREADS) {
        uint skipped = i * p.most;
        put_segment(segment + i, first + skipped,
                    p.most == 0u ? items : min(p.most, items - skipped), matrix);
    }
    if (matrix + 1u == p.matrices) {
        for (uint i = segment + n + self; i < p.count; i += THREADS) {
            put_segment(i, 0u, 0u, 0u);
        }
    }
}
