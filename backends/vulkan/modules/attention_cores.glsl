// backends/vulkan/modules/attention_cores.glsl -- common parts of attention and its gradients on
// matrix cores: tiles in shared memory, matrices in registers, and which keys are seen.
//
// A workgroup owns OWN items (rows of queries, or keys), TM per subgroup, and loops over the others
// in tiles of BLOCK in shared memory. The scores of a subgroup's items and TN others are a matrix
// in registers, whose elements are changed where they are. Which row and column an element has
// depends on the device, so a matrix of coordinates is loaded where that matters. What is found or
// given by row goes through a scratch space of each subgroup in shared memory: TM lines of SPACE.
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
// Whether sums and left factors are laid out alike in registers: then one becomes the other there.
layout(constant_id = 12) const bool ALIKE = false;

const uint SUBGROUPS = THREADS / SUBGROUP, OWN = SUBGROUPS * TM;
const uint PIECES = D / 8, LINE = PIECES + 1; // uvec4 per item; one more avoids bank conflicts
const uint LOADS = (BLOCK * PIECES + THREADS - 1) / THREADS;
const uint SPACE = TN / 4 + 1;
const uint FIRST_AT = 0, SECOND_AT = BLOCK * LINE, COORDINATES_AT = 2 * BLOCK * LINE;
const uint SPACE_AT = COORDINATES_AT + TM * TN / 4;
const uint LANES = SUBGROUP / TM, PART = TN / LANES; // lanes per line, elements per lane

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

// Adds the products of own items and the TN items of a tile from `base`, over D, to `sums`.
#define ADD_SCORES(sums, own, base)                                                                \
    [[unroll]] for (uint d = 0u; d < D / TK; d++)                                                  \
    {                                                                                              \
        MATRIX_B other;                                                                            \
        coopMatLoad(other, tile, base + d * (TK / 8u), LINE,                                       \
                    gl_CooperativeMatrixLayoutColumnMajor);                                        \
        sums = coopMatMulAdd(own[d], other, sums);                                                 \
    }

// Multiplies `own` by the TK items of a tile from `base` and accumulates over D.
#define ADD_PRODUCT(results, own, base)                                                            \
    [[unroll]] for (uint column = 0u; column < D / TN; column++)                                   \
    {                                                                                              \
        MATRIX_B other;                                                                            \
        coopMatLoad(other, tile, base + column * (TN / 8u), LINE,                                  \
                    gl_CooperativeMatrixLayoutRowMajor);                                           \
        results[column] = coopMatMulAdd(own, other, results[column]);                              \
    }

uint pair_of(uint dtype, float first, float second)
{
    return dtype == FLOAT16 ? to_float16(first) | to_float16(second) << 16
                            : to_bfloat16(first) | to_bfloat16(second) << 16;
}

// Reads this lane's part of a line of floats in the subgroup's scratch space.
void read_part(out float values[PART])
{
    const uint at = space() + lane_line() * SPACE + lane_first() / 4u;
    [[unroll]] for (uint n = 0u; n < PART; n += 4u) {
        vec4 four = uintBitsToFloat(tile[at + n / 4u]);
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            values[n + c] = four[c];
        }
    }
}

uvec4 eight_of(uint dtype, const float values[PART], uint n, float factor)
{
    uvec4 words;
    [[unroll]] for (uint c = 0u; c < 4u; c++) {
        words[c] = pair_of(dtype, values[n + 2u * c] * factor, values[n + 2u * c + 1u] * factor);
    }
    return words;
}

// Stores a matrix in the subgroup's scratch space and reads this lane's part.
#define PART_OF(matrix, values)                                                                    \
    float values[PART];                                                                            \
    subgroupBarrier();                                                                             \
    coopMatStore(matrix, tile, space(), SPACE, gl_CooperativeMatrixLayoutRowMajor);                \
    subgroupBarrier();                                                                             \
    read_part(values);

// A matrix whose rows have the values that the first TM lanes give for them.
MATRIX_C of_rows(float value)
{
    MATRIX_C result;
    subgroupBarrier();
    if (gl_SubgroupInvocationID < TM) {
        tile[space() + lane_line() / 4u][lane_line() % 4u] = floatBitsToUint(value);
    }
    subgroupBarrier();
    coopMatLoad(result, tile, space(), 0u, gl_CooperativeMatrixLayoutColumnMajor);
    return result;
}

// The same values as a left factor in 16 bits.
MATRIX_A left_of(const MATRIX_C x)
{
    MATRIX_A result;
    if (ALIKE && result.length() == x.length()) {
        [[unroll]] for (int i = 0; i < result.length(); i++) {
            result[i] = float16_t(x[i]);
        }
        return result;
    }
    PART_OF(x, values)
    subgroupBarrier();
    [[unroll]] for (uint n = 0u; n < PART; n += 8u) {
        tile[space() + lane_line() * SPACE + (lane_first() + n) / 8u] =
            eight_of(Q_TYPE, values, n, 1.0);
    }
    subgroupBarrier();
    coopMatLoad(result, tile, space(), SPACE, gl_CooperativeMatrixLayoutRowMajor);
    return result;
}

// Writes the coordinates, line TN + column, as floats.
void keep_coordinates()
{
    for (uint n = gl_LocalInvocationID.x; n < TM * TN / 4u; n += THREADS) {
        tile[COORDINATES_AT + n] = floatBitsToUint(4.0 * n + vec4(0, 1, 2, 3));
    }
}

// Stores TM lines of results over D: element (line, c) is multiplied by the `factor` of this lane's
// line. `to` is the start of that line, which is stored only if `there` is true. The index of the
// results must be the counter of an unrolled loop: with any other expression, drivers keep the
// whole array in memory, and every access in the main loop goes to memory (a third of the speed).
#define STORE_RESULTS(results, pointer, dtype, to, there, factor)                                  \
    [[unroll]] for (uint j = 0u; j < D / TN; j++)                                                  \
    {                                                                                              \
        PART_OF(results[j], values)                                                                \
        [[unroll]] for (uint n = 0u; n < PART; n += 8u)                                            \
        {                                                                                          \
            if (there) {                                                                           \
                Quads(pointer).at[((to) + j * TN + lane_first() + n) / 8u] =                       \
                    eight_of(dtype, values, n, factor);                                            \
            }                                                                                      \
        }                                                                                          \
    }

// Arguments that inner loops need: loading them there would wait at every barrier. Scores are
// products q k: times `scale` they are exponents, times `scale2` exponents of 2.
float scale, scale2;
int window, rows;

void read_arguments(int b)
{
    scale = p.at.scale;
    scale2 = scale * 1.44269504; // 1 / log(2)
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

// What the mask adds to a score; HIDDEN if the key is not visible. There is no softcap here.
float mask_of(int b, int hk, int row, int key)
{
    const int l = row / int(G), head = hk * int(G) + row % int(G);
    if (row >= rows || !is_seen(l, key)) {
        return HIDDEN;
    }
    if (MASK_TYPE == NO_MASK) {
        return 0.0;
    }
    uint i = uint(b) * p.at.mask_at[0] + uint(head) * p.at.mask_at[1] + uint(l) * p.at.mask_at[2] +
             uint(key) * p.at.mask_at[3];
    return MASK_TYPE == BOOL ? load_byte(p.at.mask, i) != 0u ? 0.0 : HIDDEN
                             : load_real(p.at.mask, MASK_TYPE, i) / scale;
}

MATRIX_C coordinates()
{
    MATRIX_C result;
    coopMatLoad(result, tile, COORDINATES_AT, TN / 4u, gl_CooperativeMatrixLayoutRowMajor);
    return result;
}
