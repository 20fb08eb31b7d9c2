// backends/vulkan/shaders/rope.comp -- rotary embedding: an invocation computes one pair of
// elements of a position, in some heads; the rest of a head is copied. y may be part of a longer
// cache. NORMED: a workgroup normalizes a head (rms_norm), and rotates it.
#version 460
#include "common.glsl"
#include "math.glsl"
#ifdef NORMED
#include "pieces.glsl"
#endif

layout(constant_id = 0) const uint X_TYPE = FLOAT32;
layout(constant_id = 1) const uint POSITION_TYPE = INT32;
layout(constant_id = 2) const bool INTERLEAVED = false;
layout(constant_id = 3) const uint START_TYPE = 255; // 255: none, y has the positions of x
#include "rotation.glsl"
const uint THREADS = 128;
layout(local_size_x = THREADS) in;

layout(push_constant, scalar) uniform Push
{
    Words a, positions, frequencies, y;
    uint a_at[3];        // strides of B, L, H
    uint positions_at;   // stride of B
    uint L, H;
    uint terms;          // of a head
    uint pairs;
    uint some;           // heads per invocation
    uint parts;          // parts that the heads are divided into
    uint n;              // number of invocations
    uint capacity;       // positions of y per batch element
    Words start;         // first position in y, clipped so that all fit
    uvec2 norm_weight;   // with NORMED; 0: none
    float norm_eps, norm_offset;
    real amplitude, turn; // turn: 1, or -1 for the inverse
}
p;

#ifdef NORMED
const uint A_TYPE = X_TYPE, ROWS = 1;
#include "row_norm.glsl"

// Element i of the head in shared memory.
real element(uint i, uint from)
{
    return four_of_row(0u, i - i % 4u)[i % 4u];
}
#else
// Element i of the head that begins at `from`.
real element(uint i, uint from)
{
    return load_real(p.a, X_TYPE, from + i);
}
#endif

void rotate(uint x, uint y, uint pair, real cosine, real sine)
{
    uint first = first_of(pair), second = second_of(pair, p.pairs);
    real a = element(first, x), b = element(second, x);
    store_real(p.y, X_TYPE, y + first, rotated_first(a, b, cosine, sine));
    store_real(p.y, X_TYPE, y + second, rotated_second(a, b, cosine, sine));
}

// Item `item` of heads h0 to h1 at position l of b: a pair, or an element that is copied.
void compute(uint item, uint b, uint l, uint h0, uint h1)
{
    uint first = 0u;
    if (START_TYPE != 255u) {
        first = clipped_place(p.start, START_TYPE, 0u, p.capacity - p.L);
    }
    uint to = b * p.capacity + first + l;
    real cosine = real(0), sine = real(0);
    if (item < p.pairs) {
        float angle = angle_of(p.positions, b * p.positions_at + l, p.frequencies, item);
        cosine = cos_(real(angle)) * p.amplitude;
        sine = sin_(real(angle)) * p.amplitude * p.turn;
    }
    for (uint h = h0; h < h1; h++) {
        uint x = b * p.a_at[0] + l * p.a_at[1] + h * p.a_at[2], y = (to * p.H + h) * p.terms;
        if (item < p.pairs) {
            rotate(x, y, item, cosine, sine);
        } else {
            uint copied = item + p.pairs;
            store_real(p.y, X_TYPE, y + copied, element(copied, x));
        }
    }
}

void main()
{
    uint items = p.terms - p.pairs;
#ifdef NORMED
    uint h = group_index() % p.H, place = group_index() / p.H, b = place / p.L, l = place % p.L;
    if (group_index() >= p.n) {
        return;
    }
    normalize_row(0u, int(b * p.a_at[0] + l * p.a_at[1] + h * p.a_at[2]));
    for (uint item = gl_LocalInvocationIndex; item < items; item += THREADS) {
        compute(item, b, l, h, h + 1u);
    }
#else
    uint i = group_index() * THREADS + gl_LocalInvocationIndex;
    if (i >= p.n) {
        return;
    }
    uint item = i % items, place = i / items, part = place % p.parts;
    place /= p.parts;
    compute(item, place / p.L, place % p.L, part * p.some, min((part + 1u) * p.some, p.H));
#endif
}
