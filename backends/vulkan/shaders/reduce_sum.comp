// backends/vulkan/shaders/reduce_sum.comp -- sum, mean and product of floats.
#version 460
#include "common.glsl"
#include "reduce_push.glsl"

layout(constant_id = 5) const uint X_TYPE = FLOAT32;
layout(constant_id = 6) const uint OUT_TYPE = FLOAT32;
layout(constant_id = 7) const uint OP = 0;
const uint SUM = 0, MEAN = 1, PROD = 2;

#define ACC real
ACC identity()
{
    return OP == PROD ? ACC(1) : ACC(0);
}

ACC combine(ACC a, ACC b)
{
    return OP == PROD ? a * b : a + b;
}
#include "lanes.glsl"

ACC element(uint i, uint r)
{
    return load_real(p.x, X_TYPE, i);
}

#ifdef WIDE
const uint PART_TYPE = FLOAT64;
#else
const uint PART_TYPE = FLOAT32;
#endif

ACC load_part(Words from, uint i)
{
    return load_real(from, PART_TYPE, i);
}

void store_part(Words to, uint i, ACC acc)
{
    store_real(to, PART_TYPE, i, acc);
}

void finish(ACC acc, uint o)
{
    store_real(p.result, OUT_TYPE, o, OP == MEAN ? acc / ACC(p.total) : acc);
}
#include "reduce.glsl"
