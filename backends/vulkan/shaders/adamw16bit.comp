// backends/vulkan/shaders/adamw16bit.comp -- one AdamW step with moments in bfloat16 and random
// rounding; ops/nn/adamw16bit.c explains it. A block of random words belongs to an element of the
// first half and to one of the second. An invocation computes 4 elements of each, all of which it
// loads first.
#version 460
#include "common.glsl"
#include "batch.glsl"
#include "threefry.glsl"

const uint GROUP = 256, HALVES = 2;

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint PARAMETER_TYPE = FLOAT32;
layout(constant_id = 1) const uint GRADIENT_TYPE = FLOAT32;
// Whether the halves are multiples of 4 elements, and addresses multiples of 16 bytes.
layout(constant_id = 2) const bool QUADS = false;

struct Arguments {
    Words parameter, gradient, m, v, hyper, key;
    Words new_parameter, new_m, new_v; // may alias the old ones
    float beta1, rest1, beta2, rest2;  // rest: 1 - beta
    float eps, decay;
    uint count, unused;
};
BATCH_OF(Arguments, parameter)

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { uvec4 at[]; };

// 4 elements from i on, those from `end` on as the last one.
vec4 load4(Words from, uint dtype, uint i, uint end)
{
    if (QUADS && dtype == FLOAT32) {
        return uintBitsToFloat(Quads(from).at[i / 4u]);
    }
    if (QUADS && dtype == BFLOAT16) {
        uvec2 two = Pairs(from).at[i / 4u];
        return uintBitsToFloat(
            uvec4(two.x << 16, two.x & 0xffff0000u, two.y << 16, two.y & 0xffff0000u));
    }
    vec4 x;
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        x[k] = load_real(from, dtype, min(i + k, end - 1u));
    }
    return x;
}

// The high halves of the words are the elements.
void store4(Words to, uint i, uint end, uvec4 words)
{
    if (QUADS) {
        Pairs(to).at[i / 4u] =
            uvec2(words.x >> 16 | words.y & 0xffff0000u, words.z >> 16 | words.w & 0xffff0000u);
        return;
    }
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        if (i + k < end) {
            Halves(to).at[i + k] = uint16_t(words[k] >> 16);
        }
    }
}

void store_parameter(uint i, uint end, vec4 x, uvec4 rounded)
{
    if (PARAMETER_TYPE == BFLOAT16) {
        store4(p.new_parameter, i, end, rounded);
        return;
    }
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        if (i + k < end) {
            Floats(p.new_parameter).at[i + k] = x[k];
        }
    }
}

// A float32 whose high half is the rounded number, by random bits below 2^16.
uint rounded(float x, uint random)
{
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    uint other = size > 0x7f800000u ? size | 0x400000u : size; // a quiet NaN
    return (size < 0x7f800000u ? min(size + random, 0x7f7fffffu) : other) ^ (bits & 0x80000000u);
}

uvec4 rounded4(vec4 x, uvec4 random)
{
    return uvec4(rounded(x.x, random.x), rounded(x.y, random.y), rounded(x.z, random.z),
                 rounded(x.w, random.w));
}

float hyper_at(uint i)
{
    return Floats(p.hyper).at[i];
}

void main()
{
    uint second = (p.count + 1u) / 2u, pairs = p.count / 2u;
    uint first = (launch_group() * GROUP + gl_LocalInvocationID.x) * 4u;
    if (first >= second) {
        return;
    }
    uint begin[HALVES] = {first, first + second}, end[HALVES] = {second, p.count};
    vec4 x[HALVES], g[HALVES], m[HALVES], v[HALVES];
    [[unroll]] for (uint h = 0u; h < HALVES; h++) {
        x[h] = load4(p.parameter, PARAMETER_TYPE, begin[h], end[h]);
        g[h] = load4(p.gradient, GRADIENT_TYPE, begin[h], end[h]);
        m[h] = load4(p.m, BFLOAT16, begin[h], end[h]);
        v[h] = load4(p.v, BFLOAT16, begin[h], end[h]);
    }
    uvec2 key = uvec2(p.key.at[0], p.key.at[1]);
    uvec4 words[HALVES];
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        uint i = first + k;
        uvec2 block = threefry(key, uvec2(i, i < pairs ? i + second : 0u));
        words[0][k] = block.x;
        words[1][k] = block.y;
    }
    bool applies = hyper_at(4u) != 0;
    float rate = hyper_at(0u), keep = 1 - rate * p.decay, scale = hyper_at(1u);
    float step_size = rate / hyper_at(2u), root = 1 / hyper_at(3u);
    [[unroll]] for (uint h = 0u; h < HALVES; h++) {
        if (applies) {
            vec4 scaled = g[h] * scale;
            m[h] = p.beta1 * m[h] + p.rest1 * scaled;
            v[h] = p.beta2 * v[h] + p.rest2 * scaled * scaled;
            x[h] = x[h] * keep - step_size * m[h] / (sqrt(v[h] * root) + p.eps);
        }
        uvec4 low = words[h] & 0xffffu, high = words[h] >> 16;
        store_parameter(begin[h], end[h], x[h], rounded4(x[h], low));
        store4(p.new_m, begin[h], end[h], rounded4(m[h], low ^ high));
        store4(p.new_v, begin[h], end[h], rounded4(v[h], high));
    }
}
