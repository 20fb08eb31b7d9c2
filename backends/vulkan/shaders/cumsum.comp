// backends/vulkan/shaders/cumsum.comp -- running sums, one invocation a row or a workgroup for a
// part of a row, to which a reduction gave the sums of all parts. With BITS, of integers modulo
// 2^64. The input comes in the order of the sums; REVERSE writes them from the end.
#version 460
#include "common.glsl"
#include "rows_push.glsl"
#ifdef BITS
#include "bits.glsl"
#define ACC uvec2

ACC combine(ACC a, ACC b)
{
    uint carry, low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}
#else
#include "total.glsl"
#define ACC Total

ACC combine(ACC a, ACC b)
{
    return plus(a, b);
}
#endif
#include "lanes.glsl"

layout(constant_id = 1) const uint KEPT = 1;
layout(constant_id = 2) const uint X_TYPE = FLOAT32;
layout(constant_id = 3) const uint OUT_TYPE = FLOAT32;
layout(constant_id = 4) const bool REVERSE = false;
layout(constant_id = 5) const bool INCLUSIVE = true;
const uint EACH = 4; // neighbours that an invocation of a workgroup sums

ACC load(uint i)
{
#ifdef BITS
    return load_bits(p.x, X_TYPE, i);
#else
    return total_of(load_real(p.x, X_TYPE, i));
#endif
}

void store(uint i, ACC sum)
{
#ifdef BITS
    store_bits(p.result, OUT_TYPE, i, sum);
#else
    store_real(p.result, OUT_TYPE, i, rounded(sum));
#endif
}

ACC load_part(uint i)
{
#ifdef BITS
    return uvec2(p.from.at[2 * i], p.from.at[2 * i + 1]);
#else
    return load_total(p.from, i);
#endif
}

uint place(uint row, uint k)
{
    return result_place(row, REVERSE ? p.count - 1 - k : k);
}

void scan_alone(uint row, uint base)
{
    ACC total = ACC(0);
    for (uint k = 0; k < p.count; k++) {
        ACC before = total;
        total = combine(total, load(base + k * uint(p.stride)));
        store(place(row, k), INCLUSIVE ? total : before);
    }
}

// The sum of what the invocations before this one have; `whole` becomes the sum of all.
ACC scan_joined(ACC mine, out ACC whole)
{
    uint t = gl_LocalInvocationID.x;
    ACC acc = mine;
    barrier();
    joining[t] = acc;
    for (uint step = 1; step < 256; step *= 2) {
        barrier();
        if (t >= step) {
            acc = combine(joining[t - step], acc);
        }
        barrier();
        joining[t] = acc;
    }
    barrier();
    whole = joining[255];
    return t == 0 ? ACC(0) : joining[t - 1];
}

void scan_together(uint row, uint part, uint base)
{
    ACC total = ACC(0);
    for (uint i = 0; i < part; i++) {
        total = combine(total, load_part(i * p.rows + row));
    }
    uint end = min(p.count, (part + 1) * p.chunk);
    for (uint tile = part * p.chunk; tile < end; tile += 256 * EACH) {
        uint first = tile + gl_LocalInvocationID.x * EACH;
        ACC terms[EACH], mine = ACC(0), whole;
        for (uint i = 0; i < EACH; i++) {
            terms[i] = first + i < end ? load(base + (first + i) * uint(p.stride)) : ACC(0);
            mine = combine(mine, terms[i]);
        }
        ACC sum = scan_joined(mine, whole);
        for (uint i = 0; i < EACH; i++) {
            ACC before = sum;
            sum = combine(sum, terms[i]);
            if (first + i < end) {
                store(place(row, first + i), combine(total, INCLUSIVE ? sum : before));
            }
        }
        total = combine(total, whole);
    }
}

void main()
{
    uint item = lane_item();
    if (LANES == 1) {
        if (item < p.rows) {
            scan_alone(item, p.origin + along(p.kept, KEPT, item));
        }
        return;
    }
    uint row = item % p.rows;
    if (item < p.rows * p.parts) { // the same for all of a workgroup
        scan_together(row, item / p.rows, p.origin + along(p.kept, KEPT, row));
    }
}
