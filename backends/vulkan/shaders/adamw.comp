// backends/vulkan/shaders/adamw.comp -- one AdamW step; ops/nn/adamw.c has the formula. An
// invocation computes COUNT elements, all of which it loads first.
#version 460
#include "common.glsl"
#include "batch.glsl"

const uint GROUP = 256, COUNT = 4;

layout(local_size_x = GROUP) in;
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
    uint first = launch_group() * GROUP * COUNT + gl_LocalInvocationID.x;
    if (first >= p.count) {
        return;
    }
    real x[COUNT], g[COUNT], m[COUNT], v[COUNT];
    [[unroll]] for (uint k = 0u; k < COUNT; k++) {
        uint i = min(first + k * GROUP, p.count - 1u);
        x[k] = load_real(p.parameter, PARAMETER_TYPE, i);
        g[k] = load_real(p.gradient, GRADIENT_TYPE, i);
        m[k] = load_real(p.m, MOMENT_TYPE, i);
        v[k] = load_real(p.v, MOMENT_TYPE, i);
    }
    bool applies = hyper_at(4u) != real(0);
    real rate = hyper_at(0u), keep = real(1) - rate * p.decay, scale = hyper_at(1u);
    real step_size = rate / hyper_at(2u), root = real(1) / hyper_at(3u);
    [[unroll]] for (uint k = 0u; k < COUNT; k++) {
        uint i = first + k * GROUP;
        if (applies) {
            real scaled = g[k] * scale;
            m[k] = p.beta1 * m[k] + p.rest1 * scaled;
            v[k] = p.beta2 * v[k] + p.rest2 * scaled * scaled;
            x[k] = x[k] * keep - step_size * m[k] / (sqrt(v[k] * root) + p.eps);
        }
        if (i < p.count) {
            store_real(p.new_parameter, PARAMETER_TYPE, i, x[k]);
            store_real(p.new_m, MOMENT_TYPE, i, m[k]);
            store_real(p.new_v, MOMENT_TYPE, i, v[k]);
        }
    }
}
