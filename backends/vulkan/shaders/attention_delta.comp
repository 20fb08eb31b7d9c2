// backends/vulkan/shaders/attention_delta.comp -- rowsum(do o) of every row, for the gradient.
#version 460
#include "common.glsl"
#include "attention.glsl"

layout(constant_id = 5) const uint O_TYPE = FLOAT32;
layout(constant_id = 6) const uint D_O_TYPE = FLOAT32;

const uint THREADS = 32; // per row

shared real sums[256];

void main()
{
    uint t = gl_LocalInvocationIndex, lane = t % THREADS;
    uint row = uint(launch_index()) * (256u / THREADS) + t / THREADS;
    uint H = uint(p.at.Hk) * G;
    bool any = row < uint(p.at.pairs) * uint(p.at.L) * G;
    uint h = row % H, l = row / H % uint(p.at.L), b = row / H / uint(p.at.L);
    uint o = b * p.at.o_at[0] + l * p.at.o_at[1] + h * p.at.o_at[2];
    uint d_o = b * p.at.d_o_at[0] + l * p.at.d_o_at[1] + h * p.at.d_o_at[2];
    real sum = real(0);
    for (uint i = lane; any && i < uint(p.at.Dv); i += THREADS) {
        sum += load_real(p.at.o, O_TYPE, o + i) * load_real(p.at.d_o, D_O_TYPE, d_o + i);
    }
    sums[t] = sum;
    for (uint half_ = THREADS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (lane < half_) {
            sums[t] += sums[t + half_];
        }
    }
    if (any && lane == 0u) {
        store_real(p.at.work, REAL_TYPE, row, sums[t]);
    }
}
