// backends/vulkan/shaders/cross_entropy.comp -- -log softmax(logits)[target], or its gradient: one
// workgroup per row.
#version 460
#include "common.glsl"
#ifdef WIDE
#include "math.glsl"
#define exp exp_
#define log log_
#define LOWEST (-1.7976931348623157e308lf)
#else
#define LOWEST (-3.4028234663852886e38)
#endif

const uint GROUP = 256, STEP = 4; // STEP: elements in flight per invocation

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint LOGIT_TYPE = FLOAT32;
layout(constant_id = 1) const uint TARGET_TYPE = INT32;
layout(constant_id = 2) const uint CT_TYPE = FLOAT32;
layout(constant_id = 3) const bool GRADIENT = false;

layout(push_constant, scalar) uniform Push {
    Words logits, targets, ct;
    Words to; // with GRADIENT, may alias the logits
    Fault fault;
    uint fault_code;
    uint rows, V;
} p;

shared real maxima[GROUP], sums[GROUP];

// e^(x - top) for x <= top; 1 if both are the same infinity.
real share(real x, real top)
{
    return x == top ? real(1) : exp(x - top);
}

// log(sum(exp(row))). A NaN among the logits makes the result NaN.
real log_sum_exp(uint row)
{
    uint self = gl_LocalInvocationID.x;
    real top = LOWEST, sum = real(0);
    for (uint first = self; first < p.V; first += GROUP * STEP) {
        real x[STEP], before = top;
        for (uint k = 0u; k < STEP; k++) {
            uint j = first + k * GROUP;
            x[k] = real(uintBitsToFloat(0xff800000u));
            if (j < p.V) {
                x[k] = load_real(p.logits, LOGIT_TYPE, row * p.V + j);
            }
        }
        for (uint k = 0u; k < STEP; k++) {
            top = x[k] > top ? x[k] : top;
        }
        sum *= share(before, top);
        for (uint k = 0u; k < STEP; k++) {
            sum += share(x[k], top);
        }
    }
    maxima[self] = top;
    sums[self] = sum;
    barrier();
    for (uint half_ = GROUP / 2u; half_ > 0u; half_ /= 2u) {
        if (self < half_) {
            real a = maxima[self], b = maxima[self + half_], larger = b > a ? b : a;
            maxima[self] = larger;
            sums[self] = sums[self] * share(a, larger) + sums[self + half_] * share(b, larger);
        }
        barrier();
    }
    return maxima[0] + log(sums[0]);
}

void main()
{
    uint row = group_index(), self = gl_LocalInvocationID.x;
    if (row >= p.rows) {
        return;
    }
    uvec2 target = load_integer(p.targets, TARGET_TYPE, row);
    bool counted = int(target.y) >= 0;
    if (counted && (target.y > 0u || target.x >= p.V)) {
        report(p.fault, p.fault_code, target);
        return;
    }
    real lse = counted ? log_sum_exp(row) : real(0);
    if (!GRADIENT) {
        if (self == 0u) {
            real loss = real(0);
            if (counted) {
                loss = lse - load_real(p.logits, LOGIT_TYPE, row * p.V + target.x);
            }
            store_real(p.to, CT_TYPE, row, loss);
        }
        return;
    }
    real ct = load_real(p.ct, CT_TYPE, row);
    for (uint j = self; j < p.V; j += GROUP) {
        uint i = row * p.V + j;
        real d = real(0);
        if (counted) {
            d = ct * exp(load_real(p.logits, LOGIT_TYPE, i) - lse) - (j == target.x ? ct : real(0));
        }
        store_real(p.to, LOGIT_TYPE, i, d);
    }
}
