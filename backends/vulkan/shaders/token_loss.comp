// backends/vulkan/shaders/token_loss.comp -- losses of rows of logits in float32, their
// distributions' entropies, and the losses' gradients, which replace the logits or are stored
// elsewhere in 16 bits. One workgroup per row.
#version 460
#include "common.glsl"
#include "math.glsl"

const uint GROUP = 256, STEP = 4, LOADS = 8; // LOADS: elements in flight per invocation
const float LOWEST = -3.4028234663852886e38;

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint TARGET_TYPE = INT32;
layout(constant_id = 1) const bool GRADIENT = false;
layout(constant_id = 2) const bool CAPPED = false;
layout(constant_id = 3) const uint GRADIENT_TYPE = FLOAT32;
layout(constant_id = 4) const bool BLOCKS = false; // logits are stored in blocks of the vocabulary
// 16-bit gradients replace the logits: each row of a block begins where it did.
layout(constant_id = 5) const bool IN_PLACE = false;
layout(constant_id = 6) const bool ENTROPY = false;

layout(push_constant, scalar) uniform Push {
    Floats logits, losses, entropies;
    Words targets, gradients;
    Fault fault;
    uint fault_code;
    uint first, rows, V; // first: index of row 0 among all rows
    uint target_stride;
    float cap;
    uint block; // vocabulary entries per block, at least GROUP
} p;

// The first column of the block that the last column belongs to.
uint block_first;

// The offset of the first column of a row in the block.
uint start_of(uint row)
{
    return block_first * p.rows + row * min(p.block, p.V - block_first);
}

// The offset of column j of a row. Each block is a matrix of all rows and some columns.
uint place_of(uint row, uint j)
{
    if (!BLOCKS) {
        return row * p.V + j;
    }
    block_first = j / p.block * p.block;
    return start_of(row) + (j - block_first);
}

// The same for a column that is at most GROUP after the one before it; block_first is 0 at first.
uint next_place(uint row, uint j)
{
    if (!BLOCKS) {
        return row * p.V + j;
    }
    block_first += j - block_first >= p.block ? p.block : 0u;
    return start_of(row) + (j - block_first);
}

// Loads columns first, first + GROUP, ...; also returns the offsets of their gradients.
void load_columns(uint row, uint first, out float x[LOADS], out uint at[LOADS])
{
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        uint j = min(first + i * GROUP, p.V - 1u);
        at[i] = next_place(row, j);
        x[i] = p.logits.at[at[i]];
        if (IN_PLACE) {
            at[i] += BLOCKS ? start_of(row) : row * p.V;
        }
    }
}

// Of an invocation's scores s: the largest, sum(e^(s - largest)), and, with ENTROPY,
// sum((s - largest) e^(s - largest)).
shared float maxima[GROUP], sums[GROUP], spreads[GROUP];

// Do not unroll a loop that calls this: the copies lose `precise`.
float score(float logit)
{
    return CAPPED ? p.cap * tanh_(logit / p.cap) : logit;
}

// e^(x - top) for x <= top; 1 if both are the same infinity.
float share(float x, float top)
{
    return x == top ? 1.0 : exp(x - top);
}

// spreads[], for a maximum that is larger by `rise`.
float respread(float spread, float sum, float factor, float rise)
{
    return factor > 0.0 ? factor * (spread - rise * sum) : 0.0;
}

// log(sum(exp(scores))). A NaN among the scores makes the result NaN.
float log_sum_exp(uint row)
{
    uint self = gl_LocalInvocationID.x;
    float top = LOWEST, sum = 0.0, spread = 0.0;
    block_first = 0u;
    for (uint first = self; first < p.V; first += GROUP * LOADS) {
        float x[LOADS];
        uint at[LOADS];
        load_columns(row, first, x, at);
        for (uint k = 0u; k < LOADS; k += STEP) {
            float before = top;
            for (uint i = 0u; i < STEP; i++) {
                x[k + i] = first + (k + i) * GROUP < p.V ? score(x[k + i]) : -INFINITY;
                top = x[k + i] > top ? x[k + i] : top;
            }
            float factor = share(before, top);
            if (ENTROPY) {
                spread = respread(spread, sum, factor, top - before);
            }
            sum *= factor;
            for (uint i = 0u; i < STEP; i++) {
                float one = share(x[k + i], top);
                sum += one;
                if (ENTROPY) {
                    spread += one > 0.0 ? one * (x[k + i] - top) : 0.0;
                }
            }
        }
    }
    maxima[self] = top;
    sums[self] = sum;
    spreads[self] = spread;
    for (uint half_ = GROUP / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (self < half_) {
            float a = maxima[self], b = maxima[self + half_], larger = b > a ? b : a;
            float own = share(a, larger), other = share(b, larger);
            maxima[self] = larger;
            if (ENTROPY) {
                spreads[self] = respread(spreads[self], sums[self], own, larger - a) +
                                respread(spreads[self + half_], sums[self + half_], other,
                                         larger - b);
            }
            sums[self] = sums[self] * own + sums[self + half_] * other;
        }
    }
    barrier();
    return maxima[0] + log(sums[0]);
}

void main()
{
    uint row = group_index(), self = gl_LocalInvocationID.x;
    if (row >= p.rows) {
        return;
    }
    uvec2 target = load_integer(p.targets, TARGET_TYPE, (p.first + row) * p.target_stride);
    bool counted = int(target.y) >= 0;
    if (counted && (target.y > 0u || target.x >= p.V)) {
        report(p.fault, p.fault_code, target);
        counted = false;
    }
    float lse = counted ? log_sum_exp(row) : 0.0;
    if (self == 0u) {
        p.losses.at[p.first + row] =
            counted ? lse - score(p.logits.at[place_of(row, target.x)]) : 0.0;
        if (ENTROPY) {
            p.entropies.at[p.first + row] =
                counted ? log(sums[0]) - spreads[0] / sums[0] : 0.0;
        }
    }
    if (!GRADIENT) {
        return;
    }
    memoryBarrierBuffer(); // the target's logit must be read before it is overwritten
    barrier();
    block_first = 0u;
    for (uint done = 0u; done < p.V; done += GROUP * LOADS) {
        float x[LOADS];
        uint at[LOADS];
        load_columns(row, done + self, x, at);
        if (IN_PLACE) { // the stores below overwrite logits that other invocations loaded above
            memoryBarrierBuffer();
            barrier();
        }
        for (uint i = 0u; i < LOADS; i++) {
            uint j = done + self + i * GROUP;
            float d = 0.0;
            if (counted) {
                float s = score(x[i]);
                d = exp(s - lse) - (j == target.x ? 1.0 : 0.0);
                d *= CAPPED ? 1.0 - (s / p.cap) * (s / p.cap) : 1.0;
            }
            if (j < p.V) {
                store_real(p.gradients, GRADIENT_TYPE, at[i], d);
            }
        }
    }
}
