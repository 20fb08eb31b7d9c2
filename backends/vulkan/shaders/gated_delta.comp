// backends/vulkan/shaders/gated_delta.comp -- the gated delta rule: a workgroup runs a few rows of
// a head's state through the whole sequence, with several threads per row. With PLAIN that of
// Mamba 2, which adds the values without a correction.
#version 460
#include "common.glsl"
#include "math.glsl"

const uint THREADS = 128, LANES = 16, ROWS = THREADS / LANES;
layout(local_size_x = 128) in;

layout(push_constant, scalar) uniform Push
{
    Words q, k, v, g, beta, before, y, after;
    uint L, Hk, Hv, D, Dv;
    uint blocks; // blocks of rows per head
    uint n;      // number of workgroups
    uint first_group; // of a launch that is divided
}
p;

#ifndef PLAIN
shared float parts_known[THREADS];
#endif
shared float parts_read[THREADS];

void main()
{
    uint group = p.first_group + group_index(), thread = gl_LocalInvocationIndex;
    uint lane = thread % LANES;
    if (group >= p.n) {
        return;
    }
    uint head = group / p.blocks, row = group % p.blocks * ROWS + thread / LANES;
    uint b = head / p.Hv, h = head % p.Hv, key_head = h / (p.Hv / p.Hk);
    uint at = (head * p.Dv + row) * p.D, first = thread - lane;
    bool any = row < p.Dv;
    for (uint t = 0; t < p.L; t++) {
        uint token = b * p.L + t, gate = token * p.Hv + h, value = gate * p.Dv + row;
        uint key = (token * p.Hk + key_head) * p.D;
        Words state = t == 0u ? p.before : p.after;
        float keep = exp_(Floats(p.g).at[gate]), sum = 0, read = 0;
        float add = any ? Floats(p.v).at[value] : 0;
#ifdef PLAIN
        barrier(); // of parts_read
#else
        float known = 0;
        for (uint i = lane; any && i < p.D; i += LANES) {
            known += Floats(state).at[at + i] * Floats(p.k).at[key + i];
        }
        parts_known[thread] = known;
        barrier();
        for (uint i = 0; i < LANES; i++) {
            sum += parts_known[first + i];
        }
        if (any) {
            add = Floats(p.beta).at[gate] * (add - keep * sum);
        }
#endif
        for (uint i = lane; any && i < p.D; i += LANES) {
            float s = Floats(state).at[at + i] * keep + Floats(p.k).at[key + i] * add;
            Floats(p.after).at[at + i] = s;
            read += s * Floats(p.q).at[key + i];
        }
        parts_read[thread] = read;
        barrier();
        if (any && lane == 0u) {
            sum = 0;
            for (uint i = 0; i < LANES; i++) {
                sum += parts_read[first + i];
            }
            Floats(p.y).at[value] = sum;
        }
    }
}
