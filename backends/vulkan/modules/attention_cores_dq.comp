// backends/vulkan/modules/attention_cores_dq.comp -- dq of a tile of queries on matrix cores: the
// sum over all visible keys of d(q k) times the key.
#version 460
#include "attention_cores.glsl"
#include "attention_cores_gradients.glsl"

MATRIX_A q[D / TK], d_o[D / TK];
MATRIX_C results[D / TN];

void main()
{
    int index = launch_index(), pair = index % p.at.pairs, number = index / p.at.pairs;
    if (number >= p.at.tiles) {
        return;
    }
    // Later queries see more keys, so they start first.
    int row0 = (p.at.tiles - 1 - number) * int(OWN);
    int b = pair / p.at.Hk, hk = pair % p.at.Hk;
    read_arguments(b);
    View q_view = rows_of(p.at.q, p.at.q_at, b, hk);
    View d_o_view = rows_of(p.at.d_o, p.at.d_o_at, b, hk);
    View k = keys_of(p.at.k, p.at.k_at, b, hk), v = keys_of(p.at.v, p.at.v_at, b, hk);
    int l0 = row0 / int(G), l1 = (min(row0 + int(OWN), rows) - 1) / int(G);
    int from = max(0, l0 + keys_offset - window + 1), to = min(keys_end, l1 + keys_offset + 1);
    keep_coordinates();
    LOAD_OWN(q, q_view, true, row0, rows)
    LOAD_OWN(d_o, d_o_view, true, row0, rows)
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        results[j] = MATRIX_C(0.0);
    }
    int first = row0 + int(gl_SubgroupID * TM), row = first + int(lane_line());
    const vec2 starts = starts_of(b, hk, row);
    const MATRIX_C of_scores = of_rows(starts.x), of_d_p = of_rows(starts.y);
    FETCH(next_first, k, false, from, to)
    FETCH(next_second, v, false, from, to)
    for (int key = from; key < to; key += int(BLOCK)) {
        barrier();
        KEEP(next_first, FIRST_AT)
        KEEP(next_second, SECOND_AT)
        barrier();
        FETCH(next_first, k, false, key + int(BLOCK), to)
        FETCH(next_second, v, false, key + int(BLOCK), to)
        const bool whole = all_seen(first, first + int(TM), key, key + int(BLOCK));
        [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
            MATRIX_C scores = of_scores, d_p = of_d_p;
            ADD_SCORES(scores, q, FIRST_AT + j * TN * LINE)
            ADD_SCORES(d_p, d_o, SECOND_AT + j * TN * LINE)
            if (!whole) {
                HIDE(scores, d_p, first + place / int(TN), key + int(j * TN) + place % int(TN))
            }
            [[unroll]] for (int i = 0; i < scores.length(); i++) {
                scores[i] = exp2(scores[i] * scale2) * d_p[i];
            }
            const MATRIX_A d_qk = left_of(scores);
            ADD_PRODUCT(results, d_qk, FIRST_AT + j * TK * LINE)
        }
    }
    bool there = row < rows;
    uint out_row = there ? out_row_of(b, hk, row) : 0u;
    STORE_RESULTS(results, p.at.dq, Q_TYPE, out_row * D, there, scale)
}
