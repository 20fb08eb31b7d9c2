// backends/vulkan/shaders/matvec.comp -- products of few rows with a matrix whose terms are
// adjacent in memory: several invocations per column, 16 bytes per load and several loads in
// flight. NORMED: of rows that are normalized first.
#version 460
#include "common.glsl"
#include "products.glsl"
#if defined(GATED) || defined(NORMED)
#include "math.glsl"
#endif

const uint THREADS = 128;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint A_TYPE = FLOAT32;
layout(constant_id = 1) const uint B_TYPE = FLOAT32;
layout(constant_id = 2) const uint Y_TYPE = FLOAT32;
layout(constant_id = 3) const uint BIAS_TYPE = NO_TYPE;
layout(constant_id = 4) const bool B_PACKED = false;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint LANES = 32; // invocations per column; a power of two
layout(constant_id = 7) const uint LOADS = 4;  // loads in flight for each column
layout(constant_id = 8) const uint A_UNIT = 1; // adjacent, aligned elements of a: 1, 4 or 8
layout(constant_id = 9) const bool RESIDUAL = false;
// GATED: there are two matrices, the second at p.bias; y is a gate over both products. It is a
// module of its own because the gate's precise arithmetic would prevent drivers from using fma for
// the products (spirv/).
const uint SWIGLU = 1, GEGLU = 2;
// Columns that an invocation works on, which share what is loaded of a: with GATED, a column of
// each matrix, otherwise adjacent columns.
#ifdef GATED
layout(constant_id = 10) const uint GATE = SWIGLU;
const uint EACH = 2;
#else
const uint GATE = 0;
layout(constant_id = 10) const uint EACH = 1;
#endif
#ifdef CODES // B_TYPE is the format of the quantized rows, and the matrix their address
const uint FORMAT = B_TYPE;
#include "codes.glsl"
#endif
#ifdef NORMED
#include "row_norm.glsl"
#endif

const bool A_PACKED = A_UNIT >= 4u;
const uint FOURS = B_TYPE == FLOAT32 ? 1 : 2; // vectors of four per piece
const uint PIECE = 4 * FOURS;

shared float partial[EACH * ROWS * THREADS];

vec4 sums[EACH * ROWS]; // of the columns' rows

// Four terms of a row of a; k is a multiple of 4. Every module computes sums by fma, so they are
// the same in modules whose float modes differ.
vec4 terms_of(uint row, int origin, uint k)
{
#ifdef NORMED
    return four_of_row(row, k);
#else
    int at = origin + int(row) * p.a_row + int(k);
    return convert(load_four(p.a, A_TYPE, A_PACKED, at, 1, 4u), A_TYPE);
#endif
}

float term_of(uint row, int origin, uint k)
{
#ifdef NORMED
    return four_of_row(row, k - k % 4u)[k % 4u];
#else
    return load_at(p.a, A_TYPE, origin + int(row) * p.a_row + int(k));
#endif
}

#ifdef CODES
#include "matvec_codes.glsl"
#else
void add_pieces(uvec4 pieces[EACH], int origin, uint k)
{
    [[unroll]] for (uint q = 0u; q < FOURS; q++) {
        vec4 b[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            b[e] = part_of(pieces[e], B_TYPE, q);
        }
        [[unroll]] for (uint row = 0u; row < ROWS; row++) {
            const vec4 a = terms_of(row, origin, k + 4u * q);
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                sums[e * ROWS + row] = fma(b[e], a, sums[e * ROWS + row]);
            }
        }
    }
}

void add_columns(Words matrices[EACH], uint columns[EACH], int a, int b, uint lane)
{
    const uint whole = p.terms / PIECE * PIECE, step = LANES * PIECE;
    for (uint first = lane * PIECE; first < whole; first += LOADS * step) {
        uvec4 pieces[LOADS * EACH];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint k = first + i * step;
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                pieces[i * EACH + e] = uvec4(0u);
                if (k < whole) {
                    const int at = b + int(columns[e]) * p.b_column + int(k);
                    pieces[i * EACH + e] = load_piece(matrices[e], B_TYPE, B_PACKED, at, PIECE);
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            uvec4 some[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                some[e] = pieces[i * EACH + e];
            }
            if (first + i * step < whole) {
                add_pieces(some, a, first + i * step);
            }
        }
    }
    for (uint k = whole + lane; k < p.terms; k += LANES) {
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            const float value =
                load_at(matrices[e], B_TYPE, b + int(columns[e]) * p.b_column + int(k));
            [[unroll]] for (uint row = 0u; row < ROWS; row++) {
                sums[e * ROWS + row].x = fma(value, term_of(row, a, k), sums[e * ROWS + row].x);
            }
        }
    }
}

#endif

// Adds the LANES partial sums of all columns' rows, reducing by up to 8 at a time; the first lane
// has the result.
void join(uint lane)
{
    uint self = gl_LocalInvocationID.x;
    for (uint width = LANES; width > 1u;) {
        uint each = min(width, 8u), next = width / each;
        barrier();
        if (lane < next) {
            [[unroll]] for (uint i = 0u; i < EACH * ROWS; i++) {
                float sum = partial[i * THREADS + self];
                for (uint j = 1u; j < each; j++) {
                    sum += partial[i * THREADS + self + j * next];
                }
                partial[i * THREADS + self] = sum;
            }
        }
        width = next;
    }
}

#ifdef GATED
// Evaluates the formulas of ops/elementwise/activation.c in the same order.
float gated(float gate, float up)
{
    precise float x = gate;
    if (GATE == GEGLU) {
        x = 1.59576912160573071176 * (gate + 0.044715 * gate * gate * gate);
    }
    precise float decay = exp_(-magnitude_of(x));
    precise float logistic = (x < 0.0 ? decay : 1.0) / (1.0 + decay);
    precise float y = gate * logistic * up;
    return y;
}
#endif

const uint ADJACENT = GATE != 0u ? 1 : EACH; // columns of y for each group of lanes
const uint COLUMNS = THREADS / LANES * ADJACENT;

void store(uint batch, uint column, uint e)
{
    const uint self = gl_LocalInvocationID.x;
    float bias = 0.0;
    if (BIAS_TYPE != NO_TYPE && !RESIDUAL) {
        bias = load_at(p.bias, BIAS_TYPE, int(column) * p.bias_stride);
    }
    for (uint row = 0u; row < ROWS; row++) { // not unrolled: README.md
        uint at = y_at(batch, 0u) + row * p.y_row + column * p.y_column;
        float value = partial[(e * ROWS + row) * THREADS + self] + bias;
#ifdef GATED
        value = gated(as_stored(value, Y_TYPE),
                      as_stored(partial[(ROWS + row) * THREADS + self], Y_TYPE));
#endif
        if (RESIDUAL) {
            value = as_stored(value, Y_TYPE) + load_at(p.bias, BIAS_TYPE, int(at));
        }
        store_real(p.y, Y_TYPE, at, value);
    }
}

// Columns COLUMNS group and further ones.
void multiply(uint batch, uint group)
{
    const uint self = gl_LocalInvocationID.x, lane = self % LANES;
    const uint column = group * COLUMNS + self / LANES * ADJACENT;
    [[unroll]] for (uint i = 0u; i < EACH * ROWS; i++) {
        sums[i] = vec4(0.0);
    }
    if (column < p.columns) {
#ifdef NORMED
        ivec2 origin = ivec2(0);
#else
        ivec2 origin = batch_at(batch);
#endif
        Words matrices[EACH];
        uint columns[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            matrices[e] = Words(GATE != 0u && e == 1u ? uvec2(p.bias) : uvec2(p.b));
            columns[e] = min(column + (GATE != 0u ? 0u : e), p.columns - 1u);
        }
        add_columns(matrices, columns, origin.x, origin.y, lane);
    }
    [[unroll]] for (uint i = 0u; i < EACH * ROWS; i++) {
        partial[i * THREADS + self] = (sums[i].x + sums[i].y) + (sums[i].z + sums[i].w);
    }
    join(lane);
    for (uint e = 0u; e < ADJACENT; e++) {
        if (lane == 0u && column + e < p.columns) {
            store(batch, column + e, e);
        }
    }
}

void main()
{
    uint groups = (p.columns + COLUMNS - 1u) / COLUMNS;
#ifdef NORMED
    if (group_index() >= p.groups) {
        return;
    }
    for (uint row = 0u; row < ROWS; row++) {
        normalize_row(row, int(row) * p.a_row);
    }
    for (uint group = group_index(); group < groups; group += p.groups) {
        multiply(0u, group);
        barrier(); // `partial` is used again
    }
#else
    uint batch = group_index() / groups;
    if (batch < p.batches) {
        multiply(batch, group_index() % groups);
    }
#endif
}
