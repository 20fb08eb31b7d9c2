// backends/vulkan/shaders/token_loss.comp -- losses of rows of logits in float32, and their
// gradients, which replace the logits or are stored elsewhere in 16 bits. One workgroup per row.
#version 460
#include "common.glsl"
#include "math.glsl"

const uint GROUP = 256, STEP = 4; // STEP: elements in flight per invocation
const float LOWEST = -3.4028234663852886e38;

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint TARGET_TYPE = INT32;
layout(constant_id = 1) const bool GRADIENT = false;
layout(constant_id = 2) const bool CAPPED = false;
layout(constant_id = 3) const uint GRADIENT_TYPE = FLOAT32;
layout(constant_id = 4) const bool BLOCKS = false; // logits are stored in blocks of the vocabulary

layout(push_constant, scalar) uniform Push {
    Floats logits, losses;
    Words targets, gradients;
    Fault fault;
    uint fault_code;
    uint first, rows, V; // first: index of row 0 among all rows
    uint target_stride;
    float cap;
    uint block; // vocabulary entries per block
} p;

// The offset of column j of a row. Each block is a matrix of all rows and some columns.
uint place_of(uint row, uint j)
{
    if (!BLOCKS) {
        return row * p.V + j;
    }
    uint first = j / p.block * p.block;
    return first * p.rows + row * min(p.block, p.V - first) + (j - first);
}

shared float maxima[GROUP], sums[GROUP];

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

// log(sum(exp(scores))). A NaN among the scores makes the result NaN.
float log_sum_exp(uint row)
{
    uint self = gl_LocalInvocationID.x;
    float top = LOWEST, sum = 0.0;
    for (uint first = self; first < p.V; first += GROUP * STEP) {
        float x[STEP], before = top;
        for (uint i = 0u; i < STEP; i++) {
            uint j = first + i * GROUP;
            x[i] = j < p.V ? score(p.logits.at[place_of(row, j)]) : -INFINITY;
            top = x[i] > top ? x[i] : top;
        }
        sum *= share(before, top);
        for (uint i = 0u; i < STEP; i++) {
            sum += share(x[i], top);
        }
    }
    maxima[self] = top;
    sums[self] = sum;
    for (uint half_ = GROUP / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (self < half_) {
            float a = maxima[self], b = maxima[self + half_], larger = b > a ? b : a;
            maxima[self] = larger;
            sums[self] = sums[self] * share(a, larger) + sums[self + half_] * share(b, larger);
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
    }
    if (!GRADIENT) {
        return;
    }
    memoryBarrierBuffer(); // the target's logit must be read before it is overwritten
    barrier();
    for (uint j = self; j < p.V; j += GROUP) {
        float d = 0.0;
        uint at = place_of(row, j);
        if (counted) {
            float s = score(p.logits.at[at]);
            d = exp(s - lse) - (j == target.x ? 1.0 : 0.0);
            d *= CAPPED ? 1.0 - (s / p.cap) * (s / p.cap) : 1.0;
        }
        store_real(p.gradients, GRADIENT_TYPE, at, d);
    }
}
