/* backends/vulkan/kernels/glu.c -- the gradients of gated linear units (ops/nn/glu.c). */
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 256, PIECE = 16 /* bytes */ };

/* Layout as in glu_vjp.comp. */
typedef struct glu_push {
    uint64_t gate, up, ct, to_gate, to_up;
    uint32_t n;
} glu_push;

/* Other layouts are computed by the expansion, which needs no copies of them. */
bool weft__vulkan_glu_vjp_fits(const weft_call *call)
{
    bool fits = weft__vulkan_fits(call) && call->in[0].dtype != WEFT_FLOAT64 &&
                weft_tensor_size(&call->in[0]) <= INT32_MAX - PIECE;
    for (int i = 0; i < 3; i++) {
        fits = fits && weft_tensor_is_contiguous(&call->in[i]);
    }
    return fits;
}

weft_status weft__vulkan_glu_vjp(const weft_call *call)
{
    const weft_tensor *x = &call->in[0];
    const weft_glu_params *params = call->params;
    const glu_push push = {
        .gate = weft__vulkan_address(x),
        .up = weft__vulkan_address(&call->in[1]),
        .ct = weft__vulkan_address(&call->in[2]),
        .to_gate = weft__vulkan_address(&call->out[0]),
        .to_up = weft__vulkan_address(&call->out[1]),
        .n = (uint32_t)weft_tensor_size(x),
    };
    const uint64_t addresses = push.gate | push.up | push.ct | push.to_gate | push.to_up;
    const weft__vulkan_launch launch = {
        .shader = &weft__shader_glu_vjp,
        .n_constants = 3,
        .constants = {x->dtype, (uint32_t)params->activation, addresses % PIECE == 0},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(push.n, GROUP * PIECE / weft_dtype_size(x->dtype)),
    };
    return weft__vulkan_dispatch(call, &launch);
}
