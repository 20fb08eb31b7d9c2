// backends/vulkan/shaders/glu_vjp.comp -- the gradients of gate and up of activation(gate) * up: an
// invocation computes the elements of one piece of 16 bytes.
#version 460
#include "common.glsl"
#include "math.glsl"
#include "pieces.glsl"

layout(constant_id = 0) const uint X_TYPE = FLOAT32;
layout(constant_id = 1) const uint ACTIVATION = 0; // weft_glu_activation
layout(constant_id = 2) const bool PACKED = false; // all operands are aligned for pieces
layout(local_size_x = 256) in;

const uint SILU = 0;

layout(push_constant, scalar) uniform Push {
    Words gate, up, ct, to_gate, to_up;
    uint n; // elements
} p;

// exp(x) for x <= 0. Results of 16 bits need no more than the device's own.
float decay(float x)
{
    return X_TYPE == FLOAT32 ? exp_(x) : exp(x);
}

// The logistic function and 1 - it, without cancellation.
vec2 logistic(float v)
{
    const float e = decay(-abs(v)), r = 1.0 / (1.0 + e);
    return v < 0.0 ? vec2(e * r, r) : vec2(r, e * r);
}

// activation(x) and its slope. ops/elementwise/activation.c has the formulas.
vec2 activate(float x)
{
    if (ACTIVATION == SILU) {
        const vec2 s = logistic(x);
        return vec2(x * s.x, s.x * (1.0 + x * s.y));
    }
    const float b = x < -64.0 ? -64.0 : x > 64.0 ? 64.0 : x;
    const vec2 s = logistic(1.59576912 * (b + 0.044715 * b * b * b));
    return vec2(x * s.x, s.x * (1.0 + b * s.y * (1.59576912 * (1.0 + 0.134145 * b * b))));
}

void store(Words to, uint from, uint count, vec4 values[2])
{
    if (PACKED && count == piece_of(X_TYPE)) {
        store_piece(to, X_TYPE, from / count, values[0], values[1]);
        return;
    }
    for (uint k = 0u; k < count; k++) {
        store_real(to, X_TYPE, from + k, k < 4u ? values[0][k] : values[1][k - 4u]);
    }
}

void main()
{
    const uint piece = piece_of(X_TYPE);
    const uint from = (group_index() * 256u + gl_LocalInvocationIndex) * piece;
    if (from >= p.n) {
        return;
    }
    const uint count = min(p.n - from, piece);
    const uvec4 gate = load_piece(p.gate, X_TYPE, PACKED, int(from), count);
    const uvec4 up = load_piece(p.up, X_TYPE, PACKED, int(from), count);
    const uvec4 ct = load_piece(p.ct, X_TYPE, PACKED, int(from), count);
    vec4 to_gate[2], to_up[2];
    [[unroll]] for (uint part = 0u; part < piece / 4u; part++) {
        const vec4 x = part_of(gate, X_TYPE, part), u = part_of(up, X_TYPE, part);
        const vec4 c = part_of(ct, X_TYPE, part);
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            const vec2 y = activate(x[k]);
            to_gate[part][k] = c[k] * (u[k] * y.y);
            to_up[part][k] = c[k] * y.x;
        }
    }
    store(p.to_gate, from, count, to_gate);
    store(p.to_up, from, count, to_up);
}
