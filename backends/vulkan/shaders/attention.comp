// backends/vulkan/shaders/attention.comp -- attention of a tile of queries to a chunk of the keys,
// with an online softmax. The method is that of Dao et al. 2022.
#version 460
#define TILES 1
#define RESULTS 1
#include "common.glsl"
layout(constant_id = 8) const uint PAGE_KEYS = 0;
#define PAGE PAGE_KEYS
#include "attention.glsl"
#include "attention_parts.glsl"
#include "attention_tiles.glsl"

// For the softmax, 256 / OWN_ITEMS invocations share a row; each processes some of the keys.
const uint THREADS = 256 / OWN_ITEMS;
uint soft_row = gl_LocalInvocationIndex % OWN_ITEMS;
uint soft_part = gl_LocalInvocationIndex / OWN_ITEMS;

shared real tops[256], sums[256];
shared real factors[OWN_ITEMS];

void store_scores(int b, int hk, int row0, int key0, int key_end)
{
    for (uint i = 0u; i < OWN; i++) {
        int row = row0 + int(ty * OWN + i), l = row / int(G), head = hk * int(G) + row % int(G);
        for (uint j = 0u; j < OTHER; j++) {
            int key = key0 + int(tx + 16u * j);
            real s = HIDDEN, slope;
            if (l < p.at.L && key < key_end && sees(l, key)) {
                s = score_of(product[i * OTHER + j], b, l, head, key, slope);
            }
            tile[(tx + 16u * j) * TILE_LINE + ty * OWN + i] = s;
        }
    }
    barrier();
}

// Replaces the tile's scores with exponentials and updates the running maximum `top` and the
// running `sum` of soft_row. `factors` receives the factor that rescales each row's earlier
// results.
void soften(inout real top, inout real sum)
{
    real before = top;
    for (uint k = soft_part; k < OTHER_ITEMS; k += THREADS) {
        top = max(top, tile[k * TILE_LINE + soft_row]);
    }
    tops[gl_LocalInvocationIndex] = top;
    barrier();
    for (uint i = 0u; i < THREADS; i++) {
        top = max(top, tops[soft_row + i * OWN_ITEMS]);
    }
    real part = real(0);
    for (uint k = soft_part; k < OTHER_ITEMS; k += THREADS) {
        real e = exp_(tile[k * TILE_LINE + soft_row] - reference_of(top));
        tile[k * TILE_LINE + soft_row] = e;
        part += e;
    }
    sums[gl_LocalInvocationIndex] = part;
    real factor = before == HIDDEN ? real(0) : exp_(reference_of(before) - reference_of(top));
    if (soft_part == 0u) {
        factors[soft_row] = factor;
    }
    barrier();
    sum *= factor;
    for (uint i = 0u; i < THREADS; i++) {
        sum += sums[soft_row + i * OWN_ITEMS];
    }
}

void shrink_results()
{
    for (uint i = 0u; i < OWN; i++) {
        real factor = factors[ty * OWN + i];
        for (uint c = 0u; c < COLUMNS; c++) {
            result[i * COLUMNS + c] *= factor;
        }
    }
}

void put(int b, int hk, int row0, int chunk, real top, real sum)
{
    barrier();
    tops[gl_LocalInvocationIndex] = top;
    sums[gl_LocalInvocationIndex] = sum;
    barrier();
    for (uint i = 0u; i < OWN; i++) {
        uint own = ty * OWN + i;
        int row = row0 + int(own);
        if (row >= p.at.L * int(G)) {
            break;
        }
        uint out_row = out_row_of(b, hk, row);
        if (p.at.chunks == 1) {
            store_result(p.at.o, Q_TYPE, out_row * uint(p.at.Dv), 0u, i, p.at.Dv,
                         inverse_of(sums[own]));
        } else {
            store_result(p.at.work, REAL_TYPE, part_start(out_row, chunk) + 2u, 0u, i, p.at.Dv,
                         real(1));
        }
        if (tx == 0u) {
            store_row(out_row, chunk, tops[own], sums[own]);
        }
    }
}

void main()
{
    int index = launch_index(), chunk = index % p.at.chunks;
    int pair = index / p.at.chunks % p.at.pairs, number = index / p.at.chunks / p.at.pairs;
    if (number >= p.at.tiles) {
        return;
    }
    // Later queries see more keys, so they start first.
    int row0 = (p.at.tiles - 1 - number) * int(OWN_ITEMS), rows = p.at.L * int(G);
    int b = pair / p.at.Hk, hk = pair % p.at.Hk;
    cut_keys(b);
    View q = rows_of(p.at.q, p.at.q_at, b, hk), k = keys_of_row(p.at.k, p.at.k_at, b, hk);
    View v = keys_of_row(p.at.v, p.at.v_at, b, hk);
    int from, to;
    keys_seen(row0 / int(G), (min(row0 + int(OWN_ITEMS), rows) - 1) / int(G), chunk, from, to);
    real top = HIDDEN, sum = real(0);
    clear_results();
    for (int key = from; key < to; key += int(OTHER_ITEMS)) {
        multiply(true, q, Q_TYPE, row0, rows, k, K_TYPE, key, to, p.at.D);
        store_scores(b, hk, row0, key, to);
        soften(top, sum);
        shrink_results();
        accumulate(0u, 0u, false, v, V_TYPE, key, to, p.at.Dv);
    }
    put(b, hk, row0, chunk, top, sum);
}
