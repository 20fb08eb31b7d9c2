// backends/vulkan/shaders/attention_dkv.comp -- dk and dv of a tile of keys, summed over all rows
// that see them and all query heads of the group.
#version 460
#define TILES 2
#define RESULTS 2
#include "common.glsl"
#include "attention.glsl"
#include "attention_gradients.glsl"
#include "attention_tiles.glsl"

const uint DV_TILE = OTHER_ITEMS * TILE_LINE, DV_RESULT = OWN * COLUMNS;

real qk[OWN * OTHER];

void store_gradients(int b, int hk, int key0, int row0)
{
    for (uint j = 0u; j < OTHER; j++) {
        uint other = tx + 16u * j;
        Row row = row_at(b, hk, row0 + int(other));
        for (uint i = 0u; i < OWN; i++) {
            uint own = ty * OWN + i;
            real probability, d_qk;
            differentiate(row, key0 + int(own), qk[i * OTHER + j], product[i * OTHER + j],
                          probability, d_qk);
            tile[other * TILE_LINE + own] = d_qk;
            tile[DV_TILE + other * TILE_LINE + own] = probability;
        }
    }
    barrier();
}

void main()
{
    int index = launch_index(), pair = index % p.at.pairs, number = index / p.at.pairs;
    if (number >= p.at.tiles) {
        return;
    }
    // Earlier keys are seen by more queries, so they start first.
    int key0 = number * int(OWN_ITEMS), key1 = min(key0 + int(OWN_ITEMS), p.at.S);
    int b = pair / p.at.Hk, hk = pair % p.at.Hk;
    cut_keys(b);
    int from = max(0, key0 - p.at.offset), to = min(p.at.L, p.at.window - p.at.offset + key1 - 1);
    View q = rows_of(p.at.q, p.at.q_at, b, hk), d_o = rows_of(p.at.d_o, p.at.d_o_at, b, hk);
    View k = keys_of(p.at.k, p.at.k_at, b, hk), v = keys_of(p.at.v, p.at.v_at, b, hk);
    clear_results();
    int end = to * int(G);
    for (int row = from * int(G); row < end; row += int(OTHER_ITEMS)) {
        multiply(false, k, K_TYPE, key0, key1, q, Q_TYPE, row, end, p.at.D);
        for (uint i = 0u; i < OWN * OTHER; i++) {
            qk[i] = product[i];
        }
        multiply(false, v, V_TYPE, key0, key1, d_o, D_O_TYPE, row, end, p.at.Dv);
        store_gradients(b, hk, key0, row);
        accumulate(0u, 0u, true, q, Q_TYPE, row, end, p.at.D);
        accumulate(DV_RESULT, DV_TILE, true, d_o, D_O_TYPE, row, end, p.at.Dv);
    }
    for (uint i = 0u; i < OWN; i++) {
        uint key = uint(key0) + ty * OWN + i;
        if (key < uint(p.at.S)) {
            uint at = (uint(b) * uint(p.at.S) + key) * uint(p.at.Hk) + uint(hk);
            store_result(p.at.dk, K_TYPE, at * uint(p.at.D), 0u, i, p.at.D, real(1));
            store_result(p.at.dv, V_TYPE, at * uint(p.at.Dv), DV_RESULT, i, p.at.Dv, real(1));
        }
    }
}
