// backends/vulkan/shaders/cumsum.comp -- running sums: one invocation per row, or one workgroup per
// part of a row, given the sums of all parts by a reduction. With BITS, of integers modulo 2^64.
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
#include "scan.glsl"

ACC identity()
{
    return ACC(0);
}

ACC element(uint i, uint k)
{
#ifdef BITS
    return load_bits(p.x, X_TYPE, i);
#else
    return total_of(load_real(p.x, X_TYPE, i));
#endif
}

void put(uint o, ACC sum, uint base)
{
#ifdef BITS
    store_bits(p.result, OUT_TYPE, o, sum);
#else
    store_real(p.result, OUT_TYPE, o, rounded(sum));
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

ACC in_front(uint row, uint part)
{
    ACC total = ACC(0);
    for (uint i = 0; i < part; i++) {
        total = combine(total, load_part(i * p.rows + row));
    }
    return total;
}
