// backends/vulkan/modules/attention_cores.comp -- attention on matrix cores: a tile of queries to
// all visible keys, with an online softmax (Dao et al. 2022).
#version 460
#include "attention_cores.glsl"

MATRIX_A q[D / TK];
MATRIX_C results[D / TN];

// Replaces the scores in the subgroup's scratch space with exponentials in 16 bits and updates the
// running maximum `top` and the running `sum` of this lane's row. Returns the factor that rescales
// the row's earlier results.
float soften(bool whole, int b, int hk, int row, int key0, inout float top, inout float sum)
{
    float values[PART], before = top;
    read_part(values);
    if (whole) {
        [[unroll]] for (uint n = 0u; n < PART; n++) {
            values[n] *= scale;
        }
    } else {
        const int l = row / int(G), head = hk * int(G) + row % int(G);
        [[unroll]] for (uint n = 0u; n < PART; n++) {
            int key = key0 + int(lane_first() + n);
            bool seen = row < rows && is_seen(l, key);
            values[n] = seen ? masked(values[n], b, l, head, key) : HIDDEN;
        }
    }
    [[unroll]] for (uint n = 0u; n < PART; n++) {
        top = max(top, values[n]);
    }
    [[unroll]] for (uint other = TM; other < SUBGROUP; other *= 2u) {
        top = max(top, subgroupShuffleXor(top, other));
    }
    float part = 0.0;
    const float reference = reference_of(top);
    [[unroll]] for (uint n = 0u; n < PART; n++) {
        values[n] = exp(values[n] - reference);
        part += values[n];
    }
    [[unroll]] for (uint other = TM; other < SUBGROUP; other *= 2u) {
        part += subgroupShuffleXor(part, other);
    }
    float factor = before == HIDDEN ? 0.0 : exp(reference_of(before) - reference);
    sum = sum * factor + part;
    subgroupBarrier();
    write_shares(values);
    return factor;
}

// Multiplies each row of the accumulators by the factor of its lane. The factors are written as a
// matrix after the exponentials in the scratch space. The barrier is outside the branches because
// subgroups differ in them (README.md).
void shrink(float factor)
{
    const uint at = space() + BLOCK / 8u;
    const bool same = subgroupAll(factor == 1.0);
    if (!same && gl_SubgroupInvocationID < TM) {
        [[unroll]] for (uint c = 0u; c < TN / 4u; c++) {
            tile[at + lane_line() * SPACE + c] = floatBitsToUint(vec4(factor));
        }
    }
    subgroupBarrier();
    if (!same) {
        MATRIX_C factors;
        coopMatLoad(factors, tile, at, SPACE, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < D / TN; j++) {
            results[j] = results[j] * factors;
        }
    }
}

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
    View q_view = rows_of(p.at.q, p.at.q_at, b, hk), k = keys_of(p.at.k, p.at.k_at, b, hk);
    View v = keys_of(p.at.v, p.at.v_at, b, hk);
    int l0 = row0 / int(G), l1 = (min(row0 + int(OWN), rows) - 1) / int(G);
    int from = max(0, l0 + keys_offset - window + 1), to = min(keys_end, l1 + keys_offset + 1);
    LOAD_OWN(q, q_view, true, row0, rows)
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        results[j] = MATRIX_C(0.0);
    }
    int first = row0 + int(gl_SubgroupID * TM), row = first + int(lane_line());
    float top = HIDDEN, sum = 0.0;
    FETCH(next_first, k, false, from, to)
    FETCH(next_second, v, false, from, to)
    for (int key = from; key < to; key += int(BLOCK)) {
        barrier();
        KEEP(next_first, FIRST_AT)
        KEEP(next_second, SECOND_AT)
        barrier();
        FETCH(next_first, k, false, key + int(BLOCK), to)
        FETCH(next_second, v, false, key + int(BLOCK), to)
        PRODUCT_TO_SPACE(q, FIRST_AT)
        subgroupBarrier();
        bool whole = all_seen(first, first + int(TM), key, key + int(BLOCK));
        shrink(soften(whole, b, hk, row, key, top, sum));
        ADD_PRODUCT(results, SECOND_AT)
    }
    bool there = row < rows;
    uint out_row = there ? out_row_of(b, hk, row) : 0u;
    float factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    STORE_RESULTS(results, p.at.o, Q_TYPE, out_row * D, there, factor)
    if (there && lane_first() == 0u) {
        Floats(p.at.lse).at[out_row] = sum == 0.0 ? HIDDEN : reference_of(top) + log(sum);
    }
}
