// backends/vulkan/shaders/lanes.glsl -- combines the values of LANES neighboring invocations (of
// 256) that work on one item. The including file defines the type ACC and combine(ACC, ACC).
// Constant 0 is LANES.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint LANES = 256;

shared ACC joining[256];

uint lane()
{
    return gl_LocalInvocationID.x % LANES;
}

// The item of this invocation; may be past the last one.
uint lane_item()
{
    return group_index() * (256 / LANES) + gl_LocalInvocationID.x / LANES;
}

// Combines the values of all lanes of the item and returns the result to each of them. Every
// invocation must call this.
ACC join(ACC mine)
{
    if (LANES == 1) {
        return mine;
    }
    uint t = gl_LocalInvocationID.x;
    joining[t] = mine;
    for (uint step = LANES / 2; step > 0; step /= 2) {
        barrier();
        if (lane() < step) {
            joining[t] = combine(joining[t], joining[t + step]);
        }
    }
    barrier();
    return joining[t - lane()];
}
