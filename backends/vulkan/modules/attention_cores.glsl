// backends/vulkan/modules/attention_cores.glsl -- common parts of attention and its gradients on
// matrix cores: tiles in shared memory, products of tiles, and scores.
//
// A workgroup owns OWN items (rows of queries, or keys), TM per subgroup, and loops over the others
// in tiles of BLOCK in shared memory. The layout of matrices in registers depends on the device, so
// operations on single elements use a scratch space of each subgroup in shared memory: TM lines of
// SPACE.
#pragma use_vulkan_memory_model
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define CORES
#define INFINITY uintBitsToFloat(0x7f800000u)
#include "common.glsl"
#include "attention_arguments.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { uvec4 at[]; };

layout(local_size_x_id = 5) in;
layout(constant_id = 5) const uint THREADS = 256;
layout(constant_id = 6) const uint SUBGROUP = 32;
layout(constant_id = 7) const uint D = 128; // also of the values
layout(constant_id = 8) const uint TM = 16;
layout(constant_id = 9) const uint TN = 16;
layout(constant_id = 10) const uint TK = 16;
layout(constant_id = 11) const uint BLOCK = 32;

const uint SUBGROUPS = THREADS / SUBGROUP, OWN = SUBGROUPS * TM;
const uint PIECES = D / 8, LINE = PIECES + 1; // uvec4 per item; one more avoids bank conflicts
const uint LOADS = (BLOCK * PIECES + THREADS - 1) / THREADS;
const uint SPACE = BLOCK / 4 + 1;
const uint FIRST_AT = 0, SECOND_AT = BLOCK * LINE, SPACE_AT = 2 * BLOCK * LINE;
const uint LANES = SUBGROUP / TM, PART = BLOCK / LANES; // lanes per line, elements per lane

shared uvec4 tile[SPACE_AT + SUBGROUPS * TM * SPACE];

#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>

uint space()
{
    return SPACE_AT + gl_SubgroupID * TM * SPACE;
}

// The line of this lane within the subgroup, and its first element.
uint lane_line()
{
    return gl_SubgroupInvocationID % TM;
}

uint lane_first()
{
    return gl_SubgroupInvocationID / TM * PART;
}

uvec4 next_first[LOADS], next_second[LOADS];

// Loads items [first, end) of a head as a tile, padded with zeros. `rows`: the items are rows of
// queries.
#define FETCH(next, view, rows, first, end)                                                        \
    [[unroll]] for (uint n = 0u; n < LOADS; n++)                                                   \
    {                                                                                              \
        uint at = n * THREADS + gl_LocalInvocationID.x;                                            \
        int item = int(first) + int(at / PIECES);                                                  \
        next[n] = uvec4(0u);                                                                       \
        if (item < int(end) && (BLOCK * PIECES % THREADS == 0u || at < BLOCK * PIECES)) {          \
            next[n] = Quads(view.at).at[place_of(view, rows, uint(item)) / 8u + at % PIECES];      \
        }                                                                                          \
    }

#define KEEP(next, base)                                                                           \
    [[unroll]] for (uint n = 0u; n < LOADS; n++)                                                   \
    {                                                                                              \
        uint at = n * THREADS + gl_LocalInvocationID.x;                                            \
        if (BLOCK * PIECES % THREADS == 0u || at < BLOCK * PIECES) {                               \
            tile[base + at / PIECES * LINE + at % PIECES] = next[n];                               \
        }                                                                                          \
    }

// Loads the items of this subgroup as matrices, one tile at a time through shared memory.
#define LOAD_OWN(own, view, rows, first, end)                                                      \
    for (uint n_tile = 0u; n_tile < OWN; n_tile += BLOCK) {                                        \
        FETCH(next_first, view, rows, first + int(n_tile), end)                                    \
        barrier();                                                                                 \
        KEEP(next_first, FIRST_AT)                                                                 \
        barrier();                                                                                 \
        if (gl_SubgroupID * TM / BLOCK * BLOCK == n_tile) {                                        \
            [[unroll]] for (uint d = 0u; d < D / TK; d++)                                          \
            {                                                                                      \
                coopMatLoad(own[d], tile,                                                          \
                            FIRST_AT + gl_SubgroupID * TM % BLOCK * LINE + d * (TK / 8u), LINE,    \
                            gl_CooperativeMatrixLayoutRowMajor);                                   \
            }                                                                                      \
        }                                                                                          \
    }

// Multiplies own items by the items of a tile, over D, and stores the products in the scratch
// space.
#define PRODUCT_TO_SPACE(own, base)                                                                \
    [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++)                                              \
    {                                                                                              \
        MATRIX_C sum = MATRIX_C(0.0);                                                              \
        [[unroll]] for (uint d = 0u; d < D / TK; d++)                                              \
        {                                                                                          \
            MATRIX_B other;                                                                        \
            coopMatLoad(other, tile, base + j * TN * LINE + d * (TK / 8u), LINE,                   \
                        gl_CooperativeMatrixLayoutColumnMajor);                                    \
            sum = coopMatMulAdd(own[d], other, sum);                                               \
        }                                                                                          \
        coopMatStore(sum, tile, space() + j * (TN / 4u), SPACE,                                    \
                     gl_CooperativeMatrixLayoutRowMajor);                                          \
    }

// Multiplies the 16-bit values in the scratch space by the items of a tile and accumulates over D.
#define ADD_PRODUCT(results, base)                                                                 \
    [[unroll]] for (uint k = 0u; k < BLOCK; k += TK)                                               \
    {                                                                                              \
        MATRIX_A own;                                                                              \
        coopMatLoad(own, tile, space() + k / 8u, SPACE, gl_CooperativeMatrixLayoutRowMajor);       \
        [[unroll]] for (uint j = 0u; j < D / TN; j++)                                              \
        {                                                                                          \
            MATRIX_B other;                                                                        \
            coopMatLoad(other, tile, base + k * LINE + j * (TN / 8u), LINE,                        \
                        gl_CooperativeMatrixLayoutRowMajor);                                       \
            results[j] = coopMatMulAdd(own, other, results[j]);                                    \
        }                                                                                          \
    }

uint pair_of(uint dtype, float first, float second)
{
    return dtype == FLOAT16 ? to_float16(first) | to_float16(second) << 16
                            : to_bfloat16(first) | to_bfloat16(second) << 16;
}

// Reads and writes this lane's part of a line in the subgroup's scratch space.
void read_part(out float values[PART])
{
    uint at = space() + lane_line() * SPACE + lane_first() / 4u;
    [[unroll]] for (uint n = 0u; n < PART; n += 4u) {
        vec4 four = uintBitsToFloat(tile[at + n / 4u]);
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            values[n + c] = four[c];
        }
    }
}

// Writes products as float16 with the device's conversion, which takes a tenth of the instructions
// of to_float16.
void write_part(const float values[PART])
{
    uint at = space() + lane_line() * SPACE + lane_first() / 8u;
    [[unroll]] for (uint n = 0u; n < PART; n += 8u) {
        uvec4 words;
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            float first = values[n + 2u * c], second = values[n + 2u * c + 1u];
            words[c] = Q_TYPE == FLOAT16 ? packHalf2x16(vec2(first, second))
                                         : pair_of(BFLOAT16, first, second);
        }
        tile[at + n / 8u] = words;
    }
}

// The same for values from 0 to 1. NaN need not be converted correctly: the row's sum is NaN as
// well.
uint shares_of(float first, float second)
{
    if (Q_TYPE == FLOAT16) {
        return packHalf2x16(vec2(first, second));
    }
    uint low = floatBitsToUint(first), high = floatBitsToUint(second);
    low += 0x7fffu + (low >> 16 & 1u);
    high += 0x7fffu + (high >> 16 & 1u);
    return low >> 16 | (high & 0xffff0000u);
}

void write_shares(const float values[PART])
{
    uint at = space() + lane_line() * SPACE + lane_first() / 8u;
    [[unroll]] for (uint n = 0u; n < PART; n += 8u) {
        uvec4 words;
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            words[c] = shares_of(values[n + 2u * c], values[n + 2u * c + 1u]);
        }
        tile[at + n / 8u] = words;
    }
}

// Stores TM lines of results over D: element (line, c) is multiplied by the `factor` of this lane's
// line. `to` is the start of that line, which is stored only if `there` is true. The index of the
// results must be the counter of an unrolled loop: with any other expression, drivers keep the
// whole array in memory, and every access in the main loop goes to memory (a third of the speed).
#define STORE_RESULTS(results, pointer, dtype, to, there, factor)                                  \
    [[unroll]] for (uint j = 0u; j < D / TN; j++)                                                  \
    {                                                                                              \
        const uint of_block = j % (BLOCK / TN), first = j / (BLOCK / TN) * BLOCK;                  \
        if (of_block == 0u) {                                                                      \
            subgroupBarrier();                                                                     \
        }                                                                                          \
        coopMatStore(results[j], tile, space() + of_block * (TN / 4u), SPACE,                      \
                     gl_CooperativeMatrixLayoutRowMajor);                                          \
        if (of_block == BLOCK / TN - 1u || j == D / TN - 1u) {                                     \
            subgroupBarrier();                                                                     \
            float values[PART];                                                                    \
            read_part(values);                                                                     \
            [[unroll]] for (uint n = 0u; n < PART; n += 8u)                                        \
            {                                                                                      \
                uvec4 words;                                                                       \
                [[unroll]] for (uint c = 0u; c < 4u; c++)                                          \
                {                                                                                  \
                    words[c] = pair_of(dtype, values[n + 2u * c] * factor,                         \
                                       values[n + 2u * c + 1u] * factor);                          \
                }                                                                                  \
                uint column = first + lane_first() + n;                                            \
                if (there && column < D) {                                                         \
                    Quads(pointer).at[((to) + column) / 8u] = words;                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

// Arguments that inner loops need: loading them there would wait at every barrier.
float scale;
int window, rows;

void read_arguments(int b)
{
    scale = p.at.scale;
    window = p.at.window;
    rows = p.at.L * int(G);
    cut_keys(b);
}

bool is_seen(int l, int key)
{
    int ahead = l + keys_offset - key;
    return ahead >= 0 && ahead < window && key < keys_end;
}

// Whether rows [row0, row1) and keys [key0, key1) exist and every row sees every key.
bool all_seen(int row0, int row1, int key0, int key1)
{
    return MASK_TYPE == NO_MASK && row1 <= rows && is_seen(row0 / int(G), key1 - 1) &&
           is_seen((row1 - 1) / int(G), key0);
}

// Scores have no softcap here.
float masked(float product, int b, int l, int head, int key)
{
    float s = product * scale;
    if (MASK_TYPE != NO_MASK) {
        uint i = uint(b) * p.at.mask_at[0] + uint(head) * p.at.mask_at[1] +
                 uint(l) * p.at.mask_at[2] + uint(key) * p.at.mask_at[3];
        if (MASK_TYPE == BOOL) {
            s = load_byte(p.at.mask, i) != 0u ? s : HIDDEN;
        } else {
            s += load_real(p.at.mask, MASK_TYPE, i);
        }
    }
    return s;
}

float reference_of(float top)
{
    return isinf(top) ? 0.0 : top;
}
