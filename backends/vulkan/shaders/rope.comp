// backends/vulkan/shaders/rope.comp -- rotary embedding: an invocation computes one pair of
// elements of a position, in some heads; the rest of a head is copied. y may be part of a longer
// cache.
#version 460
#include "common.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint X_TYPE = FLOAT32;
layout(constant_id = 1) const uint POSITION_TYPE = INT32;
layout(constant_id = 2) const bool INTERLEAVED = false;
layout(constant_id = 3) const uint START_TYPE = 255; // 255: none, y has the positions of x
layout(local_size_x = 128) in;

layout(push_constant, scalar) uniform Push
{
    Words x, positions, frequencies, y;
    uint x_at[3];        // strides of B, L, H
    uint positions_at;   // stride of B
    uint L, H, D, pairs;
    uint some;           // heads per invocation
    uint parts;          // parts that the heads are divided into
    uint n;              // number of invocations
    uint capacity;       // positions of y per batch element
    Words start;         // first position in y, clipped so that all fit
    real amplitude, turn; // turn: 1, or -1 for the inverse
}
p;

// The float nearest to a 64-bit integer.
float nearest(uvec2 value)
{
    bool negative = POSITION_TYPE != UINT64 && int(value.y) < 0;
    if (negative) {
        value = uvec2(0u - value.x, ~value.y + uint(value.x == 0u));
    }
    float magnitude = float(value.x);
    if (value.y != 0u) { // leading 32 bits; the last is a sticky bit
        int dropped = findMSB(value.y) + 1;
        uint lost = dropped == 32 ? value.x : value.x & (1u << dropped) - 1u;
        uint top = dropped == 32 ? value.y : value.y << (32 - dropped) | value.x >> dropped;
        magnitude = float(top | uint(lost != 0u)) * power_of_two(dropped);
    }
    return negative ? -magnitude : magnitude;
}

void rotate(uint x, uint y, uint pair, real cosine, real sine)
{
    uint first = INTERLEAVED ? 2u * pair : pair, second = first + (INTERLEAVED ? 1u : p.pairs);
    real a = load_real(p.x, X_TYPE, x + first), b = load_real(p.x, X_TYPE, x + second);
    store_real(p.y, X_TYPE, y + first, a * cosine - b * sine);
    store_real(p.y, X_TYPE, y + second, b * cosine + a * sine);
}

void main()
{
    uint i = group_index() * 128u + gl_LocalInvocationIndex;
    if (i >= p.n) {
        return;
    }
    uint items = p.D - p.pairs, item = i % items, place = i / items;
    uint part = place % p.parts;
    place /= p.parts;
    uint b = place / p.L, l = place % p.L, first = 0u;
    if (START_TYPE != 255u) {
        first = clipped_place(p.start, START_TYPE, 0u, p.capacity - p.L);
    }
    uint to = b * p.capacity + first + l;
    real cosine = real(0), sine = real(0);
    if (item < p.pairs) {
        float position = nearest(load_integer(p.positions, POSITION_TYPE, b * p.positions_at + l));
        precise float angle = position * Floats(p.frequencies).at[item];
        cosine = cos_(real(angle)) * p.amplitude;
        sine = sin_(real(angle)) * p.amplitude * p.turn;
    }
    for (uint h = part * p.some; h < min((part + 1u) * p.some, p.H); h++) {
        uint x = b * p.x_at[0] + l * p.x_at[1] + h * p.x_at[2], y = (to * p.H + h) * p.D;
        if (item < p.pairs) {
            rotate(x, y, item, cosine, sine);
        } else {
            uint copied = item + p.pairs;
            store_real(p.y, X_TYPE, y + copied, load_real(p.x, X_TYPE, x + copied));
        }
    }
}
