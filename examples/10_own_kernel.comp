// examples/10_own_kernel.comp -- y[t] = x[t] + decay y[t-1] along each row, one row an invocation.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(local_size_x = 64) in;

layout(buffer_reference, scalar) buffer Floats
{
    float at[];
};

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint rows, columns;
    float decay;
    uint backward;
} p;

void main()
{
    const uint group = gl_WorkGroupID.x +
        gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
    const uint row = group * 64 + gl_LocalInvocationID.x;
    if (row >= p.rows)
        return;
    float y = 0;
    for (uint i = 0; i < p.columns; i++) {
        const uint at = row * p.columns + (p.backward != 0 ? p.columns - 1 - i : i);
        y = p.x.at[at] + p.decay * y;
        p.y.at[at] = y;
    }
}
