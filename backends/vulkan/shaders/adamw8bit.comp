// backends/vulkan/shaders/adamw8bit.comp -- one AdamW step with 8-bit moments: one workgroup per
// block. ops/nn/adamw8bit.c has the formulas and explains the constants.
#version 460
#extension GL_EXT_shader_8bit_storage : require
#include "common.glsl"
#include "batch.glsl"
#include "elements.glsl"

const uint GROUP = 256;

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint PARAMETER_TYPE = FLOAT32;
layout(constant_id = 1) const uint GRADIENT_TYPE = FLOAT32;

struct Arguments {
    Words parameter, gradient, m, v, m_scale, v_scale, hyper;
    Words new_parameter, new_m, new_v, new_m_scale, new_v_scale; // may alias the old ones
    float beta1, rest1, beta2, rest2; // rest: 1 - beta
    float eps, decay;
    uint count, blocks;
};
BATCH_OF(Arguments, parameter)

shared float maxima[2][GROUP];

// The code of 0, and the number of values in the lowest decade.
const vec2 FIRST = vec2(127, 1), SECOND = vec2(0, 2);
const uint DECADES = 7;

float middle(float i, float n)
{
    return 0.1 + 0.9 * (i + 0.5) / n;
}

float value_of(uint code, vec2 coding)
{
    float rank = float(code) - coding.x, index = abs(rank) - 1, n = coding.y, end = 1e-6;
    for (uint d = 1u; d < DECADES; d++) {
        if (index >= coding.y * float((1u << d) - 1u)) {
            n *= 2;
            end *= 10;
        }
    }
    return rank == 0 ? 0 : sign(rank) * min(end * middle(index - n + coding.y, n), 1);
}

uint code_of(float share, vec2 coding)
{
    float size = abs(share), n = coding.y, end = 1e-6, below = n;
    for (uint d = 1u; d < DECADES; d++, below *= 2) {
        float limit = (end * middle(below - 1, below) + 10 * end * middle(0, 2 * below)) / 2;
        if (n == below && size > limit) {
            n *= 2;
            end *= 10;
        }
    }
    float k = clamp(floor((size / end - 0.1) / 0.9 * n), 0, n - 1);
    float rank = size <= 0.5e-6 * middle(0, coding.y) ? 0 : k + n + 1 - coding.y;
    float last = coding.y * float(1u << (DECADES - 1u));
    float up = share > (1 + middle(last - 1, last)) / 2 ? 255 : coding.x + rank;
    float code = share < 0 ? coding.x - rank : up;
    return uint(code);
}

// The largest magnitudes of both moments over all invocations.
vec2 largest(float m, float v)
{
    uint t = gl_LocalInvocationID.x;
    maxima[0][t] = abs(m);
    maxima[1][t] = abs(v);
    for (uint half_ = GROUP / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (t < half_) {
            maxima[0][t] = max(maxima[0][t], maxima[0][t + half_]);
            maxima[1][t] = max(maxima[1][t], maxima[1][t + half_]);
        }
    }
    barrier();
    return vec2(maxima[0][0], maxima[1][0]);
}

float hyper_at(uint i)
{
    return Floats(p.hyper).at[i];
}

void main()
{
    uint block = launch_group(), t = gl_LocalInvocationID.x, i = block * GROUP + t;
    if (block >= p.blocks) {
        return;
    }
    bool inside = i < p.count, apply = hyper_at(4u) != 0;
    vec2 scale = vec2(Floats(p.m_scale).at[block], Floats(p.v_scale).at[block]);
    uvec2 codes = uvec2(0);
    float x = 0, m = 0, v = 0;
    if (inside) {
        x = load_real(p.parameter, PARAMETER_TYPE, i);
        codes = uvec2(load_element(p.m, 1u, i).x, load_element(p.v, 1u, i).x);
    }
    if (inside && apply) {
        float rate = hyper_at(0u), keep = 1 - rate * p.decay;
        float g = load_real(p.gradient, GRADIENT_TYPE, i) * hyper_at(1u);
        m = p.beta1 * (value_of(codes.x, FIRST) * scale.x) + p.rest1 * g;
        v = p.beta2 * (value_of(codes.y, SECOND) * scale.y) + p.rest2 * g * g;
        x = x * keep - rate / hyper_at(2u) * m / (sqrt(v * (1 / hyper_at(3u))) + p.eps);
    }
    vec2 most = largest(m, v);
    if (apply) {
        scale = most;
        codes.x = code_of(m / (most.x > 0 ? most.x : 1), FIRST);
        float share = v / (most.y > 0 ? most.y : 1);
        codes.y = code_of(share, SECOND);
        codes.y = share > 0 ? max(codes.y, 1u) : codes.y;
    }
    if (t == 0u) {
        Floats(p.new_m_scale).at[block] = scale.x;
        Floats(p.new_v_scale).at[block] = scale.y;
    }
    if (inside) {
        store_real(p.new_parameter, PARAMETER_TYPE, i, x);
        store_element(p.new_m, 1u, i, uvec2(codes.x, 0u));
        store_element(p.new_v, 1u, i, uvec2(codes.y, 0u));
    }
}
