// backends/vulkan/shaders/scale_rows.comp -- an operand of a product, from bfloat16 to float16:
// each row is divided by the power of two, 2^shift, for which its largest magnitude is in [2^15,
// 2^16). A workgroup scales a row whose terms are adjacent in memory (BY_TERM), or 16 adjacent
// rows.
//
// The result is exact except for elements that are smaller than the largest one by a factor of more
// than 2^32: float16's subnormals are multiples of 2^-24, so errors are below 2^-39 of the largest
// element. A nonzero element stays nonzero, so that its product with an infinity is one. Infinities
// and NaN are kept and have no part in the scale. Everything is computed in integers, since devices
// may flush subnormals.
#version 460
#include "common.glsl"
#include "pieces.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const bool BY_TERM = true;

layout(push_constant, scalar) uniform Push {
    Words x, y, shifts; // y: dense; shifts: an int for each row
    uint batches, rows, terms;
    uint line; // elements of x between rows, or between terms
    uint sizes[3]; // of the batch axes except the first
    uint strides[4];
} p;

const uint ACROSS = BY_TERM ? 1u : 2u, STEPS = 256u / ACROSS; // pieces of 8 elements; invocations
const uint SMALLEST_INFINITY = 0x7f80u;

shared uvec4 low[256], high[256]; // the magnitudes' bits

uint batch_at(uint i)
{
    uint at = 0u;
    for (int axis = 3; axis > 0; axis--) {
        at += i % p.sizes[axis - 1] * p.strides[axis];
        i /= p.sizes[axis - 1];
    }
    return at + i * p.strides[0];
}

uvec4 finite_magnitudes(uvec4 bits)
{
    uvec4 m = bits & 0x7fffu;
    return mix(m, uvec4(0u), greaterThanEqual(m, uvec4(SMALLEST_INFINITY)));
}

uvec4 first_four(uvec4 piece)
{
    return uvec4(piece.x & 0xffffu, piece.x >> 16, piece.y & 0xffffu, piece.y >> 16);
}

uint largest_of(uvec4 a)
{
    return max(max(a.x, a.y), max(a.z, a.w));
}

// The finite number of these bits is mantissa 2^exponent, with a mantissa of at most 8 bits.
uint mantissa_of(uint bits)
{
    return (bits & 0x7fffu) >= 0x80u ? (bits & 0x7fu) | 0x80u : bits & 0x7fu;
}

int exponent_of(uint bits)
{
    return max(int(bits >> 7 & 0xffu), 1) - 134;
}

// Zeros only (or no finite number): any shift in the range of the others.
int shift_of(uint largest)
{
    return findMSB(mantissa_of(largest)) + exponent_of(largest) - 15;
}

uint scaled(uint bits, int shift)
{
    uint sign = bits & 0x8000u, rest = bits & 0x7fffu;
    // Both normal: float16's exponent, with a bias of 15, and the mantissa, 3 bits further left.
    int normal = int(rest) - ((112 + shift) << 7);
    if (rest - 0x80u < SMALLEST_INFINITY - 0x80u && normal >= 0x80) {
        return sign | uint(normal) << 3;
    }
    if (rest >= SMALLEST_INFINITY) {
        return sign | (rest > SMALLEST_INFINITY ? 0x7e00u : 0x7c00u);
    }
    if (rest == 0u) {
        return sign;
    }
    uint mantissa = mantissa_of(bits);
    int top = findMSB(mantissa), exponent = top + exponent_of(bits) - shift;
    if (exponent < -24) {
        return sign | 1u;
    }
    return sign | to_float16(uintBitsToFloat(uint(exponent + 127) << 23 |
                                             (mantissa << uint(23 - top) & 0x7fffffu)));
}

uvec2 scaled_four(uvec4 bits, ivec4 shift)
{
    return uvec2(scaled(bits.x, shift.x) | scaled(bits.y, shift.y) << 16,
                 scaled(bits.z, shift.z) | scaled(bits.w, shift.w) << 16);
}

void main()
{
    uint pieces = BY_TERM ? p.terms / 8u : p.rows / 8u; // in a line of y
    uint strips = BY_TERM ? p.rows : (pieces + ACROSS - 1u) / ACROSS;
    uint batch = group_index() / strips, strip = group_index() % strips;
    if (batch >= p.batches) {
        return;
    }
    uint me = gl_LocalInvocationID.x, first = me / ACROSS, count = BY_TERM ? pieces : p.terms;
    uint column = BY_TERM ? 0u : strip * ACROSS + me % ACROSS;
    bool live = BY_TERM || column < pieces;
    // Piece k of a row, or the pieces of term k: steps in x and y, in pieces.
    uint x_step = BY_TERM ? 1u : p.line / 8u, y_step = BY_TERM ? 1u : pieces;
    uint x_at = batch_at(batch) / 8u + (BY_TERM ? strip * (p.line / 8u) : column);
    uint y_at = batch * (p.rows * p.terms / 8u) + (BY_TERM ? strip * pieces : column);
    uvec4 a = uvec4(0u), b = uvec4(0u);
    for (uint k = first; live && k < count; k += STEPS) {
        uvec4 piece = Quads(p.x).at[x_at + k * x_step];
        a = max(a, finite_magnitudes(first_four(piece)));
        b = max(b, finite_magnitudes(first_four(piece.zwxy)));
    }
    low[me] = a;
    high[me] = b;
    for (uint n = 128u; n >= ACROSS; n /= 2u) {
        barrier();
        if (me < n) {
            low[me] = max(low[me], low[me + n]);
            high[me] = max(high[me], high[me + n]);
        }
    }
    barrier();
    a = low[me % ACROSS];
    b = high[me % ACROSS];
    if (BY_TERM) {
        a = b = uvec4(max(largest_of(a), largest_of(b)));
    }
    ivec4 shift_a = ivec4(shift_of(a.x), shift_of(a.y), shift_of(a.z), shift_of(a.w));
    ivec4 shift_b = ivec4(shift_of(b.x), shift_of(b.y), shift_of(b.z), shift_of(b.w));
    for (uint k = first; live && k < count; k += STEPS) {
        uvec4 piece = Quads(p.x).at[x_at + k * x_step];
        Quads(p.y).at[y_at + k * y_step] = uvec4(scaled_four(first_four(piece), shift_a),
                                                 scaled_four(first_four(piece.zwxy), shift_b));
    }
    uint at = batch * p.rows + (BY_TERM ? strip : column * 8u);
    if (BY_TERM && me == 0u) {
        Ints(p.shifts).at[at] = shift_a.x;
    } else if (!BY_TERM && live && first == 0u) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            Ints(p.shifts).at[at + j] = shift_a[j];
            Ints(p.shifts).at[at + 4u + j] = shift_b[j];
        }
    }
}
