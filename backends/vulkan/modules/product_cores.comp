// backends/vulkan/modules/product_cores.comp -- a tile of a matrix product on matrix cores: 16-bit
// inputs, float32 sums (GL_KHR_cooperative_matrix at subgroup scope).
//
// Each step copies BK terms of BM rows and BN columns to shared memory in the order of global
// memory. The loads of the next step are in flight while the current one is multiplied. Results
// pass through shared memory, where the bias is added and values are rounded to the output's dtype.
// With SPLIT, each subgroup does this by itself for a part of the terms, without waiting for the
// others; the parts are summed at the end, in order. This is for tiles with few rows or columns.
// Every size is a specialization constant. The bfloat16 module is this one with its 16-bit type
// replaced (modules.c), so no arithmetic and no constant here may have that type.
#version 460
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "products.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 32;
layout(constant_id = 1) const uint BM = 32; // the tile of a workgroup
layout(constant_id = 2) const uint BN = 32;
layout(constant_id = 3) const uint BK = 16;
// Subgroups along the rows (DOWN) and the columns (ACROSS).
layout(constant_id = 4) const uint DOWN = 1;
layout(constant_id = 5) const uint ACROSS = 1;
layout(constant_id = 6) const uint TM = 16; // matrix shape of the device
layout(constant_id = 7) const uint TN = 16;
layout(constant_id = 8) const uint TK = 16;
layout(constant_id = 9) const uint PAD = 8; // padding elements after each line in shared memory
// Whether terms are adjacent in memory; otherwise rows (columns) are.
layout(constant_id = 10) const bool A_BY_TERM = true;
layout(constant_id = 11) const bool B_BY_TERM = true;
// The number of rows, columns or terms is not a multiple of the tile size.
layout(constant_id = 12) const bool EDGES = true;
layout(constant_id = 13) const uint Y_TYPE = FLOAT32;
layout(constant_id = 14) const uint BIAS_TYPE = NO_TYPE;
layout(constant_id = 15) const bool Y_PACKED = false; // stores of 8 elements are aligned
// Rows of tiles in a panel (tile_at).
layout(constant_id = 16) const uint PANEL = 8;
layout(constant_id = 17) const bool RESIDUAL = false;     // see products.glsl
layout(constant_id = 18) const bool BIAS_PACKED = false; // loads of 8 elements of it are aligned

// Subgroups that divide the terms of the tile; 1: they divide its rows and columns.
layout(constant_id = 19) const uint SPLIT = 1;
// The product is a sum of products: p.terms of them, whose operands are in records at p.a. Without
// EDGES each has a multiple of BK terms, or fewer than BK.
layout(constant_id = 20) const bool SUM = false;
// Products of segments (products.glsl): the operands' lines that are items are read by their order.
layout(constant_id = 21) const uint BY_ITEM = NOT_BY_ITEM;
// The terms of each product of a sum are divided: among subgroups, and among p.chunk parts.
layout(constant_id = 22) const bool APART = false;

struct Factors {
    Words a, b;
    uint a_line, b_line; // elements between rows or terms
    uint terms;
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Records { Factors at[]; };

// Lines of the tiles in shared memory, and pieces (8 elements, a uvec4) per line.
const uint A_LINES = A_BY_TERM ? BM : BK, A_PIECES = (A_BY_TERM ? BK : BM) / 8;
const uint B_LINES = B_BY_TERM ? BN : BK, B_PIECES = (B_BY_TERM ? BK : BN) / 8;
const uint A_WIDTH = A_PIECES + PAD / 8, B_WIDTH = B_PIECES + PAD / 8;
const uint A_ALL = A_LINES * A_PIECES, B_ALL = B_LINES * B_PIECES;
const uint LOADERS = THREADS / SPLIT; // invocations that copy a tile
const uint A_LOADS = (A_ALL + LOADERS - 1) / LOADERS, B_LOADS = (B_ALL + LOADERS - 1) / LOADERS;
const uint B_AT = A_LINES * A_WIDTH;
// The part of the tile that a subgroup computes. Its results are stored TM rows at a time.
const uint ROWS = BM / DOWN, COLUMNS = BN / ACROSS;
const uint I = ROWS / TM, J = COLUMNS / TN;
const uint OUT_WIDTH = COLUMNS / 4 + 1;
const uint OWN = B_AT + B_LINES * B_WIDTH, INPUTS = SPLIT * OWN;
const uint OUTPUTS = SPLIT > 1 ? SPLIT * BM * OUT_WIDTH : DOWN * ACROSS * TM * OUT_WIDTH;

shared uvec4 tile[INPUTS > OUTPUTS ? INPUTS : OUTPUTS];

coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[I][J];
uvec4 a_next[A_LOADS], b_next[B_LOADS];
Segment segment;
uint a_places[A_LOADS]; // with ROWS_BY_ITEM: pieces before the line of each load
uint items_done;        // with TERMS_BY_ITEM: terms fetched before

// The line and piece of load i of this invocation.
uvec2 place_of(uint i, uint pieces)
{
    uint at = i * LOADERS + (SPLIT > 1 ? gl_SubgroupInvocationID : gl_LocalInvocationID.x);
    return uvec2(at / pieces, at % pieces);
}

// The part of shared memory for the tile of this subgroup or workgroup.
uint own_tile()
{
    return SPLIT > 1 ? gl_SubgroupID * OWN : 0u;
}

void wait_for_loaders()
{
    if (SPLIT > 1) {
        subgroupBarrier();
    } else {
        barrier();
    }
}

// The operands that are fetched next. Offsets are in pieces from the start of the array; `line` is
// the number of pieces between lines.
Words a_from, b_from;
uint a_at, b_at, a_line, b_line;

// The pieces before a line of a, of load i, and before a line of b.
uint a_place(uint i, uint at)
{
    return BY_ITEM == ROWS_BY_ITEM    ? a_places[i]
           : BY_ITEM == TERMS_BY_ITEM ? source_of(segment.first + items_done + at) * a_line
                                      : at * a_line;
}

uint b_place(uint at)
{
    return (BY_ITEM == TERMS_BY_ITEM ? item_of(segment.first + items_done + at) : at) * b_line;
}

// `edges`: lines and pieces beyond the limits are zeros.
void fetch(bool edges, uvec2 a_limit, uvec2 b_limit)
{
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        uvec2 at = place_of(i, A_PIECES);
        bool all = A_ALL % LOADERS == 0u || at.x < A_LINES;
        if (edges) {
            a_next[i] = uvec4(0u);
            all = all && at.x < a_limit.x && at.y < a_limit.y;
        }
        if (all) {
            a_next[i] = Quads(a_from).at[a_at + a_place(i, at.x) + at.y];
        }
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        uvec2 at = place_of(i, B_PIECES);
        bool all = B_ALL % LOADERS == 0u || at.x < B_LINES;
        if (edges) {
            b_next[i] = uvec4(0u);
            all = all && at.x < b_limit.x && at.y < b_limit.y;
        }
        if (all) {
            b_next[i] = Quads(b_from).at[b_at + b_place(at.x) + at.y];
        }
    }
}

void keep()
{
    [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
        uvec2 at = place_of(i, A_PIECES);
        if (A_ALL % LOADERS == 0u || at.x < A_LINES) {
            tile[own_tile() + at.x * A_WIDTH + at.y] = a_next[i];
        }
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
        uvec2 at = place_of(i, B_PIECES);
        if (B_ALL % LOADERS == 0u || at.x < B_LINES) {
            tile[own_tile() + B_AT + at.x * B_WIDTH + at.y] = b_next[i];
        }
    }
}

void multiply(uint row, uint column, const uint terms)
{
    const uint a_tile = own_tile(), b_tile = a_tile + B_AT;
    [[unroll]] for (uint k = 0u; k < terms; k += TK) {
        coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[I];
        [[unroll]] for (uint i = 0u; i < I; i++) {
            if (A_BY_TERM) {
                coopMatLoad(a[i], tile, a_tile + (row + i * TM) * A_WIDTH + k / 8u, A_WIDTH,
                            gl_CooperativeMatrixLayoutRowMajor);
            } else {
                coopMatLoad(a[i], tile, a_tile + k * A_WIDTH + (row + i * TM) / 8u, A_WIDTH,
                            gl_CooperativeMatrixLayoutColumnMajor);
            }
        }
        [[unroll]] for (uint j = 0u; j < J; j++) {
            coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> b;
            if (B_BY_TERM) {
                coopMatLoad(b, tile, b_tile + (column + j * TN) * B_WIDTH + k / 8u, B_WIDTH,
                            gl_CooperativeMatrixLayoutColumnMajor);
            } else {
                coopMatLoad(b, tile, b_tile + k * B_WIDTH + (column + j * TN) / 8u, B_WIDTH,
                            gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint i = 0u; i < I; i++) {
                sums[i][j] = coopMatMulAdd(a[i], b, sums[i][j]);
            }
        }
    }
}

uvec4 rounded(vec4 low, vec4 high)
{
    uvec4 words;
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        vec4 from = j < 2u ? low : high;
        float first = from[2u * j & 3u], second = from[(2u * j & 3u) + 1u];
        words[j] = Y_TYPE == FLOAT16 ? to_float16(first) | to_float16(second) << 16
                                     : to_bfloat16(first) | to_bfloat16(second) << 16;
    }
    return words;
}

// Adds the residual's eight elements from `at` to the rounded products.
void add_residual(uint at, uint column, inout vec4 low, inout vec4 high)
{
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        low[j] = as_stored(low[j], Y_TYPE);
        high[j] = as_stored(high[j], Y_TYPE);
    }
    if (!BIAS_PACKED) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint last = p.columns - 1u - column;
            low[j] += load_at(p.bias, BIAS_TYPE, int(at + min(j, last)));
            high[j] += load_at(p.bias, BIAS_TYPE, int(at + min(j + 4u, last)));
        }
    } else if (BIAS_TYPE == FLOAT32) {
        low += uintBitsToFloat(Quads(p.bias).at[at >> 2]);
        high += uintBitsToFloat(Quads(p.bias).at[(at >> 2) + 1u]);
    } else {
        uvec4 piece = Quads(p.bias).at[at >> 3];
        low += part_of(piece, BIAS_TYPE, 0u);
        high += part_of(piece, BIAS_TYPE, 1u);
    }
}

// Rows counted from the origin of `first`.
uint row_limit()
{
    return BY_ITEM == ROWS_BY_ITEM ? segment.count : p.rows;
}

// Stores eight results of a row.
void put(uint base, uint row, uint column, vec4 low, vec4 high)
{
    if (EDGES && (row >= row_limit() || column >= p.columns)) {
        return;
    }
    if (BIAS_TYPE != NO_TYPE && !RESIDUAL) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint at = min(column + j, p.columns - 1u), after = min(column + j + 4u, p.columns - 1u);
            low[j] += load_at(p.bias, BIAS_TYPE, int(at) * p.bias_stride);
            high[j] += load_at(p.bias, BIAS_TYPE, int(after) * p.bias_stride);
        }
    }
    if (BY_ITEM == ROWS_BY_ITEM) {
        row = item_of(segment.first + row);
    }
    uint to = base + row * p.columns + column;
    if (RESIDUAL) {
        add_residual(to, column, low, high);
    }
    if (!Y_PACKED) {
        [[unroll]] for (uint j = 0u; j < 8u; j++) {
            if (!EDGES || column + j < p.columns) {
                store_real(p.y, Y_TYPE, to + j, j < 4u ? low[j & 3u] : high[j & 3u]);
            }
        }
    } else if (Y_TYPE == FLOAT32) {
        Quads(p.y).at[to >> 2] = floatBitsToUint(low);
        Quads(p.y).at[(to >> 2) + 1u] = floatBitsToUint(high);
    } else {
        Quads(p.y).at[to >> 3] = rounded(low, high);
    }
}

// Stores the sums of this subgroup; the first one belongs at `row` and `column` of y.
void store(uint base, uint row, uint column)
{
    const uint own = gl_SubgroupID * TM * OUT_WIDTH, pieces = COLUMNS / 8;
    barrier();
    [[unroll]] for (uint i = 0u; i < I; i++) {
        [[unroll]] for (uint j = 0u; j < J; j++) {
            coopMatStore(sums[i][j], tile, own + j * (TN / 4u), OUT_WIDTH,
                         gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        for (uint n = gl_SubgroupInvocationID; n < TM * pieces; n += gl_SubgroupSize) {
            uint at = own + n / pieces * OUT_WIDTH + n % pieces * 2u;
            put(base, row + i * TM + n / pieces, column + n % pieces * 8u,
                uintBitsToFloat(tile[at]), uintBitsToFloat(tile[at + 1u]));
        }
        subgroupBarrier();
    }
}

// Stores the sums of all subgroups together.
void store_split(uint base, uint row, uint column)
{
    const uint all = BM * OUT_WIDTH, own = gl_SubgroupID * all, pieces = BN / 8;
    barrier();
    [[unroll]] for (uint i = 0u; i < I; i++) {
        [[unroll]] for (uint j = 0u; j < J; j++) {
            coopMatStore(sums[i][j], tile, own + i * TM * OUT_WIDTH + j * (TN / 4u), OUT_WIDTH,
                         gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    barrier();
    for (uint n = gl_LocalInvocationID.x; n < BM * pieces; n += THREADS) {
        uint at = n / pieces * OUT_WIDTH + n % pieces * 2u;
        vec4 low = vec4(0.0), high = vec4(0.0);
        [[unroll]] for (uint i = 0u; i < SPLIT; i++) {
            low += uintBitsToFloat(tile[at + i * all]);
            high += uintBitsToFloat(tile[at + i * all + 1u]);
        }
        put(base, row + n / pieces, column + n % pieces * 8u, low, high);
    }
}

// The first row and column of tile i: tiles are numbered by panels of rows, and top to bottom
// within a column of a panel.
uvec2 tile_at(uint i, uint down, uint across)
{
    uint panel = i / (PANEL * across), rest = i % (PANEL * across);
    uint height = min(PANEL, down - panel * PANEL);
    return uvec2(panel * PANEL + rest % height, rest / height) * uvec2(BM, BN);
}

uint less(uint a, uint b)
{
    return a > b ? a - b : 0u;
}

// Begins to fetch the tile at `first` of the operands, from term k on.
void begin(Words a, Words b, uvec2 origin, uvec2 first, uint k, uint a_row, uint b_row)
{
    a_from = a;
    b_from = b;
    a_line = a_row / 8u;
    b_line = b_row / 8u;
    a_at = origin.x / 8u + (A_BY_TERM ? first.x * a_line + k / 8u : k * a_line + first.x / 8u);
    b_at = origin.y / 8u + (B_BY_TERM ? first.y * b_line + k / 8u : k * b_line + first.y / 8u);
}

// Fetches the next BK terms, of which `rest` are left.
void fetch_terms(bool edges, uvec2 first, uint rest)
{
    uint rows = less(row_limit(), first.x), columns = less(p.columns, first.y);
    fetch(edges, A_BY_TERM ? uvec2(rows, rest / 8u) : uvec2(rest, rows / 8u),
          B_BY_TERM ? uvec2(columns, rest / 8u) : uvec2(rest, columns / 8u));
    if (BY_ITEM == TERMS_BY_ITEM) {
        items_done += BK;
        return;
    }
    a_at += A_BY_TERM ? BK / 8u : BK * a_line;
    b_at += B_BY_TERM ? BK / 8u : BK * b_line;
}

// Begins with product i of a sum, and returns the number of its terms. Each branch calls begin():
// with one call before the branch, NVIDIA's compiler makes slower code (docs/performance-log.md).
uint begin_product(uint i, uvec2 first)
{
    Factors f = Records(p.a).at[i];
    if (f.terms < BK) {
        begin(f.a, f.b, uvec2(0u), first, 0u, f.a_line, f.b_line);
        fetch_terms(true, first, f.terms);
        return f.terms;
    }
    begin(f.a, f.b, uvec2(0u), first, 0u, f.a_line, f.b_line);
    fetch_terms(EDGES, first, f.terms);
    return f.terms;
}

// Adds all products of a sum. The first terms of a product are fetched while the last ones of the
// product before it are multiplied.
void add_products(uvec2 first, uint row, uint column)
{
    uint rest = begin_product(0u, first), next = 1u;
    while (true) {
        while (rest > BK) {
            barrier();
            keep();
            barrier();
            rest -= BK;
            fetch_terms(EDGES, first, rest);
            multiply(row, column, BK);
        }
        barrier();
        keep();
        barrier();
        uint last = rest;
        bool more = next < p.terms;
        if (more) {
            rest = begin_product(next, first);
            next++;
        }
        if (last > TK) {
            multiply(row, column, BK);
        } else {
            multiply(row, column, TK);
        }
        if (!more) {
            return;
        }
    }
}

// The terms that each of `shares` takes of `all`: whole steps.
uint share_of(uint all, uint shares)
{
    return ((all + BK - 1u) / BK + shares - 1u) / shares * BK;
}

// Adds the terms k to `end`, which begin() was called for, in as many steps as `each` terms need.
// All subgroups take as many, also those without terms: in Mesa's software driver
// subgroupBarrier() waits for the whole workgroup.
void add_terms(uvec2 first, uint row, uint column, uint k, uint end, uint each)
{
    const bool edges = EDGES || APART, whole = SPLIT == 1 && !APART;
    if (whole || k < end) {
        fetch_terms(edges, first, less(end, k));
    }
    for (uint done = 0u; done < each; done += BK) {
        const bool any = whole || k < end;
        wait_for_loaders();
        if (any) {
            keep();
        }
        wait_for_loaders();
        if (k + BK < end) {
            fetch_terms(edges, first, end - k - BK);
        }
        if (any) {
            multiply(row, column, BK);
        }
        k += BK;
    }
}

// Adds this subgroup's and part's terms of all products of a sum.
void add_shares(uvec2 first, uint row, uint column, uint part)
{
    uint own = part * SPLIT + (SPLIT > 1 ? gl_SubgroupID : 0u);
    for (uint i = 0u; i < p.terms; i++) {
        Factors f = Records(p.a).at[i];
        uint each = share_of(f.terms, SPLIT * p.chunk), k = own * each;
        begin(f.a, f.b, uvec2(0u), first, k, f.a_line, f.b_line);
        add_terms(first, row, column, k, min(k + each, f.terms), each);
    }
}

ivec2 origin_of(uint batch)
{
    return BY_ITEM == ROWS_BY_ITEM ? ivec2(0, int(segment.matrix) * p.b_batch[0]) : batch_at(batch);
}

void clear_sums()
{
    [[unroll]] for (uint i = 0u; i < I; i++) {
        [[unroll]] for (uint j = 0u; j < J; j++) {
            sums[i][j] = coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
        }
    }
}

void begin_segment(uint i)
{
    segment = segment_at(i);
    items_done = 0u;
    [[unroll]] for (uint n = 0u; n < A_LOADS && BY_ITEM == ROWS_BY_ITEM; n++) {
        uint line = min(place_of(n, A_PIECES).x, max(segment.count, 1u) - 1u);
        a_places[n] = source_of(segment.first + line) * (uint(p.a_row) / 8u);
    }
}

void main()
{
    uint down = (p.rows + BM - 1u) / BM, across = (p.columns + BN - 1u) / BN, tiles = down * across;
    uint group = p.first_group + group_index(), parts = SUM ? p.chunk : part_count();
    uint part = group / tiles % parts, batch = group / tiles / parts;
    if (batch >= p.batches) {
        return;
    }
    uvec2 first = tile_at(group % tiles, down, across);
    uint k = part * p.chunk, end = min(k + p.chunk, p.terms), each = end - k;
    if (BY_ITEM == ROWS_BY_ITEM) {
        begin_segment(first.x / BM);
        first.x = 0u;
        if (segment.count == 0u) {
            return;
        }
    } else if (BY_ITEM == TERMS_BY_ITEM) {
        begin_segment(batch);
        end = each = segment.count;
    }
    if (SPLIT > 1) {
        each = share_of(each, SPLIT);
        k += gl_SubgroupID * each;
        end = min(k + each, end);
    }
    uint row = SPLIT > 1 ? 0u : gl_SubgroupID / ACROSS * ROWS;
    uint column = SPLIT > 1 ? 0u : gl_SubgroupID % ACROSS * COLUMNS;
    clear_sums();
    if (APART) {
        add_shares(first, row, column, part);
    } else if (SUM) {
        add_products(first, row, column);
    } else {
        ivec2 origin = origin_of(batch);
        begin(p.a, p.b, uvec2(origin), first, k, uint(A_BY_TERM ? p.a_row : p.a_term),
              uint(B_BY_TERM ? p.b_column : p.b_term));
        add_terms(first, row, column, k, end, each);
    }
    if (SPLIT > 1) {
        store_split(y_at(batch, part), first.x, first.y);
    } else {
        store(y_at(batch, part), first.x + row, first.y + column);
    }
}
