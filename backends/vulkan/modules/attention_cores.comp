// backends/vulkan/modules/attention_cores.comp -- attention on matrix cores: a tile of queries to
// all visible keys, with an online softmax (Dao et al. 2022).
//
// Each row's scores are relative to its reference, which is not its running maximum but at most
// MARGIN below it: then the results need not be scaled again at every new maximum, and no row's
// maximum is sought while all of its scores are below the margin.
#version 460
#include "attention_cores.glsl"

layout(constant_id = 13) const bool EVERY_TILE = false; // seek the maxima for every tile

const float MARGIN = 8.0; // of the exponents of 2: exponentials are at most 256

MATRIX_A q[D / TK];
MATRIX_C results[D / TN];
MATRIX_C scores[BLOCK / TN];
MATRIX_C sums;     // of exponentials: their rows are summed at the end
MATRIX_C opposite; // of the references
float reference;   // of this lane's row; HIDDEN until it sees a key
bool begun;        // whether all rows have a reference

// Raises each reference to the maximum of its row.
void raise_references(bool there)
{
    float top = HIDDEN;
    [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
        PART_OF(scores[j], values)
        [[unroll]] for (uint n = 0u; n < PART; n++) {
            top = max(top, values[n]);
        }
    }
    [[unroll]] for (uint other = TM; other < SUBGROUP; other *= 2u) {
        top = max(top, subgroupShuffleXor(top, other));
    }
    const bool first = reference == HIDDEN;
    const float rise = isinf(top) || !first && top < 0.0 ? 0.0 : top;
    const MATRIX_C rises = of_rows(rise), factors = of_rows(first ? 0.0 : exp2(-rise * scale2));
    if (!isinf(top)) {
        reference = first ? top : reference + rise;
    } else if (top > 0.0 && first) {
        reference = 0.0;
    }
    [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
        scores[j] = scores[j] - rises;
    }
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        results[j] = results[j] * factors;
    }
    sums = sums * factors;
    opposite = opposite - rises;
    begun = subgroupAll(!there || reference != HIDDEN);
}

// Applies the mask to the scores of rows from `row` and keys from `key`.
void hide(int b, int hk, int row, int key)
{
    const MATRIX_C at = coordinates();
    [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
        [[unroll]] for (int i = 0; i < at.length(); i++) {
            int place = int(at[i]), column = place % int(TN) + int(j * TN);
            scores[j][i] += mask_of(b, hk, row + place / int(TN), key + column);
        }
    }
}

// Whether one of this lane's scores is above a bound.
bool is_above(float bound)
{
    bool above = false;
    [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
        [[unroll]] for (int i = 0; i < scores[j].length(); i++) {
            above = above || scores[j][i] > bound;
        }
    }
    return above;
}

float row_sum()
{
    PART_OF(sums, parts)
    float sum = 0.0;
    [[unroll]] for (uint n = 0u; n < PART; n++) {
        sum += parts[n];
    }
    [[unroll]] for (uint other = TM; other < SUBGROUP; other *= 2u) {
        sum += subgroupShuffleXor(sum, other);
    }
    return sum;
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
    keep_coordinates();
    LOAD_OWN(q, q_view, true, row0, rows)
    [[unroll]] for (uint j = 0u; j < D / TN; j++) {
        results[j] = MATRIX_C(0.0);
    }
    sums = opposite = MATRIX_C(0.0);
    int first = row0 + int(gl_SubgroupID * TM), row = first + int(lane_line());
    bool there = row < rows;
    reference = HIDDEN;
    begun = false;
    FETCH(next_first, k, false, from, to)
    FETCH(next_second, v, false, from, to)
    for (int key = from; key < to; key += int(BLOCK)) {
        barrier();
        KEEP(next_first, FIRST_AT)
        KEEP(next_second, SECOND_AT)
        barrier();
        FETCH(next_first, k, false, key + int(BLOCK), to)
        FETCH(next_second, v, false, key + int(BLOCK), to)
        [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
            scores[j] = opposite;
            ADD_SCORES(scores[j], q, FIRST_AT + j * TN * LINE)
        }
        if (!all_seen(first, first + int(TM), key, key + int(BLOCK))) {
            hide(b, hk, first, key);
        }
        if (subgroupAny(EVERY_TILE || !begun || is_above(MARGIN / scale2))) {
            raise_references(there);
        }
        [[unroll]] for (uint j = 0u; j < BLOCK / TN; j++) {
            [[unroll]] for (int i = 0; i < scores[j].length(); i++) {
                scores[j][i] = exp2(scores[j][i] * scale2);
            }
            sums = sums + scores[j];
            const MATRIX_A shares = left_of(scores[j]);
            ADD_PRODUCT(results, shares, SECOND_AT + j * TK * LINE)
        }
    }
    const float sum = row_sum();
    uint out_row = there ? out_row_of(b, hk, row) : 0u;
    float factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    STORE_RESULTS(results, p.at.o, Q_TYPE, out_row * D, there, factor)
    if (there && lane_first() == 0u) {
        Floats(p.at.lse).at[out_row] = sum == 0.0 ? HIDDEN : reference * scale + log(sum);
    }
}
