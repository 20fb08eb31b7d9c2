// backends/vulkan/shaders/adamw.comp -- one AdamW step; ops/nn/adamw.c has the formula.
#version 460
#include "common.glsl"
#include "batch.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint PARAMETER_TYPE = FLOAT32;
layout(constant_id = 1) const uint GRADIENT_TYPE = FLOAT32;
layout(constant_id = 2) const uint MOMENT_TYPE = FLOAT32;
layout(constant_id = 3) const uint HYPER_TYPE = FLOAT32;

struct Arguments {
    Words parameter, gradient, m, v, hyper;
    Words new_parameter, new_m, new_v; // may alias the old ones
    real beta1, rest1, beta2, rest2;   // rest: 1 - beta
    real eps, decay;
    uint count;
};
BATCH_OF(Arguments, parameter)

real hyper_at(uint i)
{
    return load_real(p.hyper, HYPER_TYPE, i);
}

void main()
{
    uint i = launch_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    real x = load_real(p.parameter, PARAMETER_TYPE, i);
    real m = load_real(p.m, MOMENT_TYPE, i), v = load_real(p.v, MOMENT_TYPE, i);
    if (hyper_at(4u) != real(0)) {
        real rate = hyper_at(0u), keep = real(1) - rate * p.decay;
        real g = load_real(p.gradient, GRADIENT_TYPE, i) * hyper_at(1u);
        m = p.beta1 * m + p.rest1 * g;
        v = p.beta2 * v + p.rest2 * g * g;
        real root = real(1) / hyper_at(3u);
        x = x * keep - rate / hyper_at(2u) * m / (sqrt(v * root) + p.eps);
    }
    store_real(p.new_parameter, PARAMETER_TYPE, i, x);
    store_real(p.new_m, MOMENT_TYPE, i, m);
    store_real(p.new_v, MOMENT_TYPE, i, v);
}
