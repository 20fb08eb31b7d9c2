// backends/vulkan/modules/attention_cores_dkv.comp -- dk and dv of a tile of keys on matrix cores,
// summed over all rows that see them and all query heads of the group.
#version 460
#include "attention_cores.glsl"
#include "attention_cores_gradients.glsl"

MATRIX_A k[D / TK], v[D / TK];
MATRIX_C d_k[D / TN], d_v[D / TN];

shared vec2 numbers[BLOCK]; // log-sum-exp and delta of each row of the tile

void keep_numbers(int b, int hk, int row0)
{
    if (gl_LocalInvocationID.x < BLOCK) {
        numbers[gl_LocalInvocationID.x] = row_numbers(b, hk, row0 + int(gl_LocalInvocationID.x));
    }
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
    LOAD_OWN(k, k_view, false, key0, key1)
    LOAD_OWN(v, v_view, false, key0, key1)
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        d_k[j] = d_v[j] = MATRIX_C(0.0);
    }
    int first = key0 + int(gl_SubgroupID * TM), key = first + int(lane_line());
    FETCH(next_first, q, true, from, to)
    FETCH(next_second, d_o, true, from, to)
    for (int row = from; row < to; row += int(BLOCK)) {
        float qk[PART], d_p[PART];
        barrier();
        KEEP(next_first, FIRST_AT)
        KEEP(next_second, SECOND_AT)
        keep_numbers(b, hk, row);
        barrier();
        FETCH(next_first, q, true, row + int(BLOCK), to)
        FETCH(next_second, d_o, true, row + int(BLOCK), to)
        PRODUCT_TO_SPACE(k, FIRST_AT)
        subgroupBarrier();
        read_part(qk);
        subgroupBarrier();
        PRODUCT_TO_SPACE(v, SECOND_AT)
        subgroupBarrier();
        read_part(d_p);
        bool whole = all_seen(row, row + int(BLOCK), first, first + int(TM));
        [[unroll]] for (uint n = 0u; n < PART; n++) {
            float probability, d_qk;
            vec2 two = numbers[lane_first() + n];
            differentiate(whole, b, hk, row + int(lane_first() + n), key, two.x, two.y, qk[n],
                          d_p[n], probability, d_qk);
            qk[n] = d_qk;
            d_p[n] = probability;
        }
        subgroupBarrier();
        write_shares(d_p);
        subgroupBarrier();
        ADD_PRODUCT(d_v, SECOND_AT)
        subgroupBarrier();
        write_part(qk);
        subgroupBarrier();
        ADD_PRODUCT(d_k, FIRST_AT)
    }
    bool there = key < key1;
    uint at = ((uint(b) * uint(p.at.S) + uint(key)) * uint(p.at.Hk) + uint(hk)) * D;
    STORE_RESULTS(d_k, p.at.dk, K_TYPE, at, there, 1.0)
    STORE_RESULTS(d_v, p.at.dv, V_TYPE, at, there, 1.0)
}
