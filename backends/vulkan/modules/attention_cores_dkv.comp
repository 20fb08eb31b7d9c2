// backends/vulkan/modules/attention_cores_dkv.comp -- dk and dv of a tile of keys on matrix cores,
// summed over all rows that see them and all query heads of the group.
#version 460
#include "attention_cores.glsl"
#include "attention_cores_gradients.glsl"

MATRIX_A k[D / TK], v[D / TK];
MATRIX_C d_k[D / TN], d_v[D / TN];

const uint STARTS = BLOCK / 4;
shared uvec4 starts[2 * STARTS]; // of the tile's rows: of all scores, then of all do v

void keep_starts(int b, int hk, int row0)
{
    const uint n = gl_LocalInvocationID.x;
    if (n < BLOCK) {
        uvec2 words = floatBitsToUint(starts_of(b, hk, row0 + int(n)));
        starts[n / 4u][n % 4u] = words.x;
        starts[STARTS + n / 4u][n % 4u] = words.y;
    }
}

// A matrix whose columns have the values from `at`.
MATRIX_C of_columns(uint at)
{
    MATRIX_C result;
    coopMatLoad(result, starts, at, 0u, gl_CooperativeMatrixLayoutRowMajor);
    return result;
}

void main()
{
    int index = launch_index(), pair = index % p.at.pairs, number = index / p.at.pairs;
    if (number >= p.at.tiles) {
        return;
    }
    // Earlier keys are seen by more queries, so they start first.
    int key0 = number * int(OWN), key1 = min(key0 + int(OWN), p.at.S);
    int b = pair / p.at.Hk, hk = pair % p.at.Hk;
    read_arguments(b);
    int l0 = max(0, key0 - keys_offset), l1 = min(p.at.L, window - keys_offset + key1 - 1);
    int from = l0 * int(G), to = l1 * int(G);
    View q = rows_of(p.at.q, p.at.q_at, b, hk), d_o = rows_of(p.at.d_o, p.at.d_o_at, b, hk);
    View k_view = keys_of(p.at.k, p.at.k_at, b, hk), v_view = keys_of(p.at.v, p.at.v_at, b, hk);
    keep_coordinates();
    LOAD_OWN(k, k_view, false, key0, key1)
    LOAD_OWN(v, v_view, false, key0, key1)
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        d_k[j] = d_v[j] = MATRIX_C(0.0);
    }
    int first = key0 + int(gl_SubgroupID * TM), key = first + int(lane_line());
    // Two results leave no registers to load the next tile ahead.
    for (int row = from; row < to; row += int(BLOCK)) {
        FETCH(next_first, q, true, row, to)
        FETCH(next_second, d_o, true, row, to)
        barrier();
        KEEP(next_first, FIRST_AT)
        KEEP(next_second, SECOND_AT)
        keep_starts(b, hk, row);
        barrier();
        const bool whole = all_seen(row, row + int(BLOCK), first, first + int(TM));
        [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
            MATRIX_C scores = of_columns(j * TN / 4u), d_p = of_columns(STARTS + j * TN / 4u);
            ADD_SCORES(scores, k, FIRST_AT + j * TN * LINE)
            ADD_SCORES(d_p, v, SECOND_AT + j * TN * LINE)
            if (!whole) {
                HIDE(scores, d_p, row + int(j * TN) + place % int(TN), first + place / int(TN))
            }
            [[unroll]] for (int i = 0; i < scores.length(); i++) {
                scores[i] = exp2(scores[i] * scale2);
                d_p[i] *= scores[i];
            }
            const MATRIX_A probabilities = left_of(scores), d_qk = left_of(d_p);
            ADD_PRODUCT(d_v, probabilities, SECOND_AT + j * TK * LINE)
            ADD_PRODUCT(d_k, d_qk, FIRST_AT + j * TK * LINE)
        }
    }
    bool there = key < key1;
    uint at = ((uint(b) * uint(p.at.S) + uint(key)) * uint(p.at.Hk) + uint(hk)) * D;
    STORE_RESULTS(d_k, p.at.dk, K_TYPE, at, there, scale)
    STORE_RESULTS(d_v, p.at.dv, V_TYPE, at, there, 1.0)
}
