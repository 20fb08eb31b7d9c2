// backends/vulkan/shaders/vecmat.comp -- products of few rows with a matrix whose columns are
// adjacent in memory: an invocation computes the columns of one 16-byte load, and several
// invocations share the terms.
#version 460
#include "common.glsl"
#include "products.glsl"

const uint THREADS = 128;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint A_TYPE = FLOAT32;
layout(constant_id = 1) const uint B_TYPE = FLOAT32;
layout(constant_id = 2) const uint Y_TYPE = FLOAT32;
layout(constant_id = 3) const uint BIAS_TYPE = NO_TYPE;
layout(constant_id = 4) const bool B_PACKED = false;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint ACROSS = 32; // invocations along the columns
layout(constant_id = 7) const uint LOADS = 4;   // loads in flight
layout(constant_id = 8) const bool RESIDUAL = false;

const uint DOWN = THREADS / ACROSS;
const uint FOURS = B_TYPE == FLOAT32 ? 1 : 2; // vectors of four per piece
const uint PIECE = 4 * FOURS;

shared vec4 partial[THREADS];

vec4 sums[ROWS * FOURS];

void add_terms(ivec2 origin, uint column, uint first, uint end)
{
    uint count = B_PACKED ? PIECE : p.columns - column;
    for (uint k = first; k < end; k += LOADS * DOWN) {
        uvec4 pieces[LOADS];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            uint term = k + i * DOWN;
            pieces[i] = uvec4(0u);
            if (term < end) {
                pieces[i] = load_piece(p.b, B_TYPE, B_PACKED,
                                       origin.y + int(term) * p.b_term + int(column), count);
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            uint term = k + i * DOWN;
            if (term < end) {
                [[unroll]] for (uint row = 0u; row < ROWS; row++) {
                    float a = load_at(p.a, A_TYPE,
                                      origin.x + int(row) * p.a_row + int(term) * p.a_term);
                    [[unroll]] for (uint q = 0u; q < FOURS; q++) {
                        sums[row * FOURS + q] += a * part_of(pieces[i], B_TYPE, q);
                    }
                }
            }
        }
    }
}

void store(uint base, uint row, uint column, vec4 value)
{
    for (uint j = 0u; j < 4u && column + j < p.columns; j++) {
        uint at = base + row * p.y_row + (column + j) * p.y_column;
        if (RESIDUAL) {
            value[j] = as_stored(value[j], Y_TYPE) + load_at(p.bias, BIAS_TYPE, int(at));
        } else if (BIAS_TYPE != NO_TYPE) {
            value[j] += load_at(p.bias, BIAS_TYPE, int(column + j) * p.bias_stride);
        }
        store_real(p.y, Y_TYPE, at, value[j]);
    }
}

void main()
{
    uint self = gl_LocalInvocationID.x, across = ACROSS * PIECE;
    uint groups = (p.columns + across - 1u) / across;
    uint rest = group_index() / groups, parts = part_count();
    uint part = rest % parts, batch = rest / parts;
    uint column = group_index() % groups * across + self % ACROSS * PIECE;
    if (batch >= p.batches) {
        return;
    }
    [[unroll]] for (uint i = 0u; i < ROWS * FOURS; i++) {
        sums[i] = vec4(0.0);
    }
    if (column < p.columns) {
        uint first = part * p.chunk;
        add_terms(batch_at(batch), column, first + self / ACROSS, min(first + p.chunk, p.terms));
    }
    [[unroll]] for (uint i = 0u; i < ROWS * FOURS; i++) {
        barrier();
        partial[self] = sums[i];
        barrier();
        if (self < ACROSS) {
            vec4 sum = partial[self];
            for (uint y = 1u; y < DOWN; y++) {
                sum += partial[self + y * ACROSS];
            }
            store(y_at(batch, part), i / FOURS, column + i % FOURS * 4u, sum);
        }
    }
}
