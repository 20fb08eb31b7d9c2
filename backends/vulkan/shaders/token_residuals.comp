// backends/vulkan/shaders/token_residuals.comp -- the gradients of weighted losses with respect to
// logits, some columns of all rows, given the logarithm of each row's sum of e^score. A workgroup
// computes SPAN columns of a row. In float32 the gradients may replace the logits.
#version 460
#include "common.glsl"
#include "math.glsl"

const uint GROUP = 256, LOADS = 8, SPAN = GROUP * LOADS;

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint TARGET_TYPE = INT32;
layout(constant_id = 1) const bool CAPPED = false;
layout(constant_id = 2) const uint RESIDUAL_TYPE = FLOAT32;

layout(push_constant, scalar) uniform Push {
    Floats logits, lse, ct; // ct: the losses' weights
    Words targets, residuals;
    uint rows, columns, first, spans; // first: the class of column 0; spans: workgroups of a row
    float cap;
} p;

void main()
{
    uint group = group_index(), row = group / p.spans;
    uint begin = (group - row * p.spans) * SPAN + gl_LocalInvocationID.x;
    if (row >= p.rows) {
        return;
    }
    uvec2 target = load_integer(p.targets, TARGET_TYPE, row);
    bool counted = int(target.y) >= 0;
    uint own = target.x - p.first; // the column of the target, if it is among these
    float lse = p.lse.at[row], ct = p.ct.at[row], x[LOADS];
    [[unroll]] for (uint i = 0u; i < LOADS; i++) {
        x[i] = p.logits.at[row * p.columns + min(begin + i * GROUP, p.columns - 1u)];
    }
    for (uint i = 0u; i < LOADS; i++) { // not unrolled: copies of tanh_ lose `precise`
        uint j = begin + i * GROUP;
        if (j < p.columns) {
            float s = CAPPED ? p.cap * tanh_(x[i] / p.cap) : x[i];
            float d = exp(s - lse) - (j == own ? 1.0 : 0.0);
            d *= CAPPED ? 1.0 - (s / p.cap) * (s / p.cap) : 1.0;
            store_real(p.residuals, RESIDUAL_TYPE, row * p.columns + j, counted ? d * ct : 0.0);
        }
    }
}
