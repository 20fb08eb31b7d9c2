// backends/vulkan/shaders/matmul.comp -- a tile of a matrix product: 16 terms at a time pass
// through shared memory, and each invocation computes a block of quads (4 by 4 elements).
#version 460
#include "common.glsl"
#include "products.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256;
layout(constant_id = 1) const uint A_TYPE = FLOAT32;
layout(constant_id = 2) const uint B_TYPE = FLOAT32;
layout(constant_id = 3) const uint Y_TYPE = FLOAT32;
layout(constant_id = 4) const uint BIAS_TYPE = NO_TYPE;
// Whether adjacent invocations load adjacent terms; otherwise they load adjacent rows (columns).
layout(constant_id = 5) const bool A_BY_TERM = true;
layout(constant_id = 6) const bool B_BY_TERM = true;
// Every load is an aligned vector of four adjacent elements.
layout(constant_id = 7) const bool A_PACKED = false;
layout(constant_id = 8) const bool B_PACKED = false;
layout(constant_id = 9) const bool Y_PACKED = false;
// Invocations along the columns and the rows of a tile, and quads per invocation in each direction.
layout(constant_id = 10) const uint ACROSS = 16;
layout(constant_id = 11) const uint DOWN = 16;
layout(constant_id = 12) const uint A_QUADS = 1;
layout(constant_id = 13) const uint B_QUADS = 1;
layout(constant_id = 14) const bool RESIDUAL = false;
layout(constant_id = 15) const uint BY_ITEM = NOT_BY_ITEM; // products.glsl

#ifdef CODES // B_TYPE is the format of the quantized rows, and p.b their address
const uint FORMAT = B_TYPE, B_LOADED = FLOAT32;
#include "codes.glsl"
#else
const uint B_LOADED = B_TYPE;
#endif

const uint TERMS = 16;
// Vectors of four in a tile, per term.
const uint A_FOURS = A_QUADS * DOWN, B_FOURS = B_QUADS * ACROSS;
const uint A_WIDTH = A_FOURS + 1, B_WIDTH = B_FOURS + 1; // odd, to avoid bank conflicts
const uint B_AT = TERMS * A_WIDTH;
const uint A_LOADS = (A_FOURS * TERMS + THREADS - 1) / THREADS;
const uint B_LOADS = (B_FOURS * TERMS + THREADS - 1) / THREADS;
// Rows of tiles in a panel, whose tiles share cached data (tile_at).
const uint PANEL = 8;

shared real4 tile[TERMS * (A_WIDTH + B_WIDTH)];

Segment segment;

// Rows counted from the origin of `first`.
uint row_limit()
{
    return BY_ITEM == ROWS_BY_ITEM ? segment.count : p.rows;
}

struct Place {
    uint four, term; // within the tile: group of four rows; first term
};

Place place_of(uint i, bool by_term, uint fours)
{
    if (by_term) { // four terms of one row: `four` is the row itself
        return Place(i / (TERMS / 4u), 4u * (i % (TERMS / 4u)));
    }
    return Place(i % fours, i / fours);
}

// Load i of a tile of a (or b) whose rows start at `first` and end before `limit`, for terms
// [k, end).
raw4 fetch(bool of_a, Words from, uint dtype, bool packed, bool by_term, uint fours, int origin,
           int row_stride, int term_stride, uint i, uint first, uint limit, uint k, uint end)
{
    Place at = place_of(i, by_term, fours);
    uint row = first + (by_term ? at.four : 4u * at.four), term = k + at.term;
    if (i >= fours * TERMS || row >= limit || term >= end) {
        return raw4(0);
    }
    uint count = packed ? 4u : by_term ? end - term : limit - row;
    if (BY_ITEM == ROWS_BY_ITEM && of_a) {
        row = source_of(segment.first + row);
    } else if (BY_ITEM == TERMS_BY_ITEM) {
        term = of_a ? source_of(segment.first + term) : item_of(segment.first + term);
    }
    return load_four(from, dtype, packed, origin + int(row) * row_stride + int(term) * term_stride,
                     by_term ? term_stride : row_stride, count);
}

void keep(raw4 loaded, uint dtype, bool by_term, uint fours, uint i, uint base)
{
    if (i >= fours * TERMS) {
        return;
    }
    Place at = place_of(i, by_term, fours);
    real4 four = convert(loaded, dtype);
    if (!by_term) {
        tile[base + at.term * (fours + 1u) + at.four] = four;
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        tile[base + (at.term + j) * (fours + 1u) + at.four / 4u][at.four % 4u] = four[j];
    }
}

#ifdef CODES
// The same for quantized b: the rows of codes are the columns of b (B_BY_TERM) or its rows.
raw4 fetch_codes(uint i, uint first, uint limit, uint k, uint end)
{
    Place at = place_of(i, B_BY_TERM, B_FOURS);
    uint row = first + (B_BY_TERM ? at.four : 4u * at.four), term = k + at.term;
    if (i >= B_FOURS * TERMS || row >= limit || term >= end) {
        return raw4(0);
    }
    Codes w = Codes(uvec2(p.b));
    return floatBitsToUint(B_BY_TERM ? decode_four(w, row, term) : decode_four(w, term, row));
}
#endif

raw4 a_next[A_LOADS], b_next[B_LOADS];

void fetch_both(ivec2 origin, uvec2 first, uint k, uint end)
{
    uint self = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        a_next[i] = fetch(true, p.a, A_TYPE, A_PACKED, A_BY_TERM, A_FOURS, origin.x, p.a_row,
                          p.a_term, self + i * THREADS, first.x, row_limit(), k, end);
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
#ifdef CODES
        b_next[i] = fetch_codes(self + i * THREADS, first.y, p.columns, k, end);
#else
        b_next[i] = fetch(false, p.b, B_TYPE, B_PACKED, B_BY_TERM, B_FOURS, origin.y, p.b_column,
                          p.b_term, self + i * THREADS, first.y, p.columns, k, end);
#endif
    }
}

void keep_both()
{
    uint self = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        keep(a_next[i], A_TYPE, A_BY_TERM, A_FOURS, self + i * THREADS, 0u);
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        keep(b_next[i], B_LOADED, B_BY_TERM, B_FOURS, self + i * THREADS, B_AT);
    }
}

real4 sums[A_QUADS * 4 * B_QUADS]; // [4 g + row of quad g][quad of columns]

void add_tile()
{
    uint x = gl_LocalInvocationID.x % ACROSS, y = gl_LocalInvocationID.x / ACROSS;
    for (uint k = 0u; k < TERMS; k++) {
        real4 a[A_QUADS], b[B_QUADS];
        [[unroll]] for (uint g = 0u; g < A_QUADS; g++) {
            a[g] = tile[k * A_WIDTH + g * DOWN + y];
        }
        [[unroll]] for (uint h = 0u; h < B_QUADS; h++) {
            b[h] = tile[B_AT + k * B_WIDTH + h * ACROSS + x];
        }
        [[unroll]] for (uint g = 0u; g < A_QUADS; g++) {
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                [[unroll]] for (uint h = 0u; h < B_QUADS; h++) {
                    sums[(4u * g + j) * B_QUADS + h] += a[g][j] * b[h];
                }
            }
        }
    }
}

void store(uint base, uint row, uint column, real4 value)
{
    if (row >= row_limit() || column >= p.columns) {
        return;
    }
    if (BY_ITEM == ROWS_BY_ITEM) {
        row = item_of(segment.first + row);
    }
    uint to = base + row * p.columns + column;
    if (BIAS_TYPE != NO_TYPE) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint at = min(column + j, p.columns - 1u);
            if (RESIDUAL) {
                value[j] = as_stored(value[j], Y_TYPE) +
                           load_at(p.bias, BIAS_TYPE, int(to - column + at));
            } else {
                value[j] += load_at(p.bias, BIAS_TYPE, int(at) * p.bias_stride);
            }
        }
    }
#ifndef WIDE
    if (Y_PACKED) {
        store_four(p.y, Y_TYPE, to, value);
        return;
    }
#endif
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        if (column + j < p.columns) {
            store_real(p.y, Y_TYPE, to + j, value[j]);
        }
    }
}

// The first row and column of tile i: tiles are numbered by panels of rows, and top to bottom
// within a column of a panel.
uvec2 tile_at(uint i)
{
    uint down = (p.rows + 4u * A_FOURS - 1u) / (4u * A_FOURS);
    uint across = (p.columns + 4u * B_FOURS - 1u) / (4u * B_FOURS);
    uint panel = i / (PANEL * across), rest = i % (PANEL * across);
    uint height = min(PANEL, down - panel * PANEL);
    return uvec2(panel * PANEL + rest % height, rest / height) * 4u * uvec2(A_FOURS, B_FOURS);
}

void main()
{
    uint across = (p.columns + 4u * B_FOURS - 1u) / (4u * B_FOURS);
    uint tiles = (p.rows + 4u * A_FOURS - 1u) / (4u * A_FOURS) * across;
    uint group = p.first_group + group_index(), parts = part_count();
    uint part = group / tiles % parts, batch = group / tiles / parts;
    if (batch >= p.batches) {
        return;
    }
    uvec2 first = tile_at(group % tiles);
    uint k = part * p.chunk, end = min(k + p.chunk, p.terms);
    ivec2 origin = batch_at(batch);
    if (BY_ITEM == ROWS_BY_ITEM) {
        segment = segment_at(first.x / (4u * A_FOURS));
        if (segment.count == 0u) {
            return;
        }
        first.x = 0u;
        origin.y = int(segment.matrix) * p.b_batch[0];
    } else if (BY_ITEM == TERMS_BY_ITEM) {
        segment = segment_at(batch);
        end = segment.count;
    }
    [[unroll]] for (uint i = 0u; i < A_QUADS * 4u * B_QUADS; i++) {
        sums[i] = real4(0);
    }
    fetch_both(origin, first, k, end);
    for (; k < end; k += TERMS) {
        keep_both();
        barrier();
        fetch_both(origin, first, k + TERMS, end);
        add_tile();
        barrier();
    }
    uint x = gl_LocalInvocationID.x % ACROSS, y = gl_LocalInvocationID.x / ACROSS;
    [[unroll]] for (uint i = 0u; i < A_QUADS * 4u * B_QUADS; i++) {
        uint g = i / (4u * B_QUADS), j = i / B_QUADS % 4u, h = i % B_QUADS;
        store(y_at(batch, part), first.x + 4u * (g * DOWN + y) + j,
              first.y + 4u * (h * ACROSS + x), sums[i]);
    }
}
