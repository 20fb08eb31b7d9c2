// backends/vulkan/shaders/reduce_sum.comp -- sum, mean, product and sum of squares of floats.
#version 460
#include "common.glsl"
#include "reduce_push.glsl"

layout(constant_id = 5) const uint X_TYPE = FLOAT32;
layout(constant_id = 6) const uint OUT_TYPE = FLOAT32;
layout(constant_id = 7) const uint OP = 0;
const uint SUM = 0, MEAN = 1, PROD = 2, SQUARES = 7; // reduce_op

#include "total.glsl"
#define ACC Total
ACC identity()
{
    return total_of(OP == PROD ? 1 : 0);
}

ACC combine(ACC a, ACC b)
{
    return OP == PROD ? a * b : plus(a, b);
}
#include "lanes.glsl"

ACC element(uint i, uint r)
{
    real x = load_real(p.x, X_TYPE, i);
    precise real square = x * x; // rounded like an op of its own
    return total_of(OP == SQUARES ? square : x);
}

ACC load_part(Words from, uint i)
{
    return load_total(from, i);
}

void store_part(Words to, uint i, ACC acc)
{
    store_total(to, i, acc);
}

void finish(ACC acc, uint o)
{
    real result = rounded(acc);
    store_real(p.result, OUT_TYPE, o, OP == MEAN ? result / real(p.total) : result);
}
#include "reduce.glsl"
