// backends/vulkan/shaders/attention_dq.comp -- dq of a tile of queries: the sum over all visible
// keys of d(q k) times the key.
#version 460
#define TILES 1
#define RESULTS 1
#include "common.glsl"
#include "attention.glsl"
#include "attention_gradients.glsl"
#include "attention_tiles.glsl"

real qk[OWN * OTHER];

void store_d_qk(int b, int hk, int row0, int key0)
{
    for (uint i = 0u; i < OWN; i++) {
        Row row = row_at(b, hk, row0 + int(ty * OWN + i));
        for (uint j = 0u; j < OTHER; j++) {
            uint other = tx + 16u * j;
            real probability, d_qk;
            differentiate(row, key0 + int(other), qk[i * OTHER + j], product[i * OTHER + j],
                          probability, d_qk);
            tile[other * TILE_LINE + ty * OWN + i] = d_qk;
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
    // Later queries see more keys, so they start first.
    int row0 = (p.at.tiles - 1 - number) * int(OWN_ITEMS), rows = p.at.L * int(G);
    int b = pair / p.at.Hk, hk = pair % p.at.Hk;
    cut_keys(b);
    int l0 = row0 / int(G), l1 = (min(row0 + int(OWN_ITEMS), rows) - 1) / int(G);
    int from = max(0, l0 + p.at.offset - p.at.window + 1), to = min(p.at.S, l1 + p.at.offset + 1);
    View q = rows_of(p.at.q, p.at.q_at, b, hk), d_o = rows_of(p.at.d_o, p.at.d_o_at, b, hk);
    View k = keys_of(p.at.k, p.at.k_at, b, hk), v = keys_of(p.at.v, p.at.v_at, b, hk);
    clear_results();
    for (int key = from; key < to; key += int(OTHER_ITEMS)) {
        multiply(true, q, Q_TYPE, row0, rows, k, K_TYPE, key, to, p.at.D);
        for (uint i = 0u; i < OWN * OTHER; i++) {
            qk[i] = product[i];
        }
        multiply(true, d_o, D_O_TYPE, row0, rows, v, V_TYPE, key, to, p.at.Dv);
        store_d_qk(b, hk, row0, key);
        accumulate(0u, 0u, false, k, K_TYPE, key, to, p.at.D);
    }
    for (uint i = 0u; i < OWN; i++) {
        uint row = uint(row0) + ty * OWN + i;
        if (row < uint(rows)) {
            uint out_row = out_row_of(b, hk, int(row));
            store_result(p.at.dq, Q_TYPE, out_row * uint(p.at.D), 0u, i, p.at.D, real(1));
        }
    }
}
