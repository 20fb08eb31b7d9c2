// backends/vulkan/shaders/attention_merge.comp -- combines the chunks' results of a row in order.
#version 460
#include "common.glsl"
#include "attention.glsl"
#include "attention_parts.glsl"

real part(uint row, int chunk, uint i)
{
    return load_real(p.at.work, REAL_TYPE, part_start(row, chunk) + i);
}

// The factor of a chunk's sums; it is 0 for a chunk without visible keys.
real factor_of(uint row, int chunk, real reference)
{
    real top = part(row, chunk, 0u);
    return top == HIDDEN ? real(1) : exp_(reference_of(top) - reference);
}

void main()
{
    uint row = uint(launch_index());
    if (row >= uint(p.at.pairs) * uint(p.at.L) * G) {
        return;
    }
    real top = HIDDEN, sum = real(0);
    for (int c = 0; c < p.at.chunks; c++) {
        top = max(top, part(row, c, 0u));
    }
    real reference = reference_of(top);
    for (int c = 0; c < p.at.chunks; c++) {
        sum += part(row, c, 1u) * factor_of(row, c, reference);
    }
    for (uint i = gl_LocalInvocationIndex; i < uint(p.at.Dv); i += 256u) {
        real o = real(0);
        for (int c = 0; c < p.at.chunks; c++) {
            o += part(row, c, 2u + i) * factor_of(row, c, reference);
        }
        store_real(p.at.o, Q_TYPE, row * uint(p.at.Dv) + i, o * inverse_of(sum));
    }
    if (gl_LocalInvocationIndex == 0u) {
        store_real(p.at.lse, REAL_TYPE, row, sum == real(0) ? HIDDEN : reference + log_(sum));
    }
}
