/* backends/vulkan/kernels/gated_delta.c -- the gated delta rule and that of Mamba 2, token by
 * token; a workgroup has some rows of a head's state. */
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/shaders.h"

enum { ROWS = 8 /* rows per workgroup, as in gated_delta.comp */ };

typedef struct delta_push {
    uint64_t q, k, v, g, beta, before, y, after;
    uint32_t L, Hk, Hv, D, Dv, blocks, n, first_group;
} delta_push;

/* Without tokens the state would only be copied, which this kernel does not do. */
bool weft__vulkan_gated_delta_fits(const weft_call *call)
{
    const weft_dims q = call->in[0].shape;
    return weft__vulkan_fits(call) && q.at[1] > 0 && q.at[3] > 0;
}

weft_status weft__vulkan_gated_delta(const weft_call *call)
{
    const weft_dims q = call->in[0].shape, v = call->in[2].shape;
    const bool corrects = call->n_inputs == 6; /* Mamba 2 has no beta */
    const int64_t blocks = (v.at[3] + ROWS - 1) / ROWS, n = q.at[0] * v.at[2] * blocks;
    const delta_push push = {
        .q = weft__vulkan_address_or_0(&call->in[0]),
        .k = weft__vulkan_address_or_0(&call->in[1]),
        .v = weft__vulkan_address_or_0(&call->in[2]),
        .g = weft__vulkan_address_or_0(&call->in[3]),
        .beta = corrects ? weft__vulkan_address_or_0(&call->in[4]) : 0,
        .before = weft__vulkan_address_or_0(&call->in[call->n_inputs - 1]),
        .y = weft__vulkan_address_or_0(&call->out[0]),
        .after = weft__vulkan_address_or_0(&call->out[1]),
        .L = (uint32_t)q.at[1],
        .Hk = (uint32_t)q.at[2],
        .Hv = (uint32_t)v.at[2],
        .D = (uint32_t)q.at[3],
        .Dv = (uint32_t)v.at[3],
        .blocks = (uint32_t)blocks,
        .n = (uint32_t)n,
    };
    const weft__vulkan_launch launch = {
        .shader = corrects ? &weft__shader_gated_delta : &weft__shader_state_space,
        .push = &push,
        .push_bytes = sizeof push,
        .first_at = offsetof(delta_push, first_group),
        .groups = (uint64_t)n,
        .work = 8.0 * push.D * (double)weft_tensor_size(&call->in[2])};
    return weft__vulkan_dispatch(call, &launch);
}
