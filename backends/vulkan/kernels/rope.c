/* backends/vulkan/kernels/rope.c -- rotary embedding; an angle is computed once for several heads.
 */
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 128, HEADS = 4 /* of a thread */ };

/* Layout as in rope.comp. */
typedef struct rope_push {
    uint64_t x, positions, frequencies, y;
    uint32_t x_at[3], positions_at;
    uint32_t L, H, D, pairs;
    uint32_t some, parts, n, unused;
    weft__vulkan_reals reals; /* amplitude, and 1 or -1 */
} rope_push;

bool weft__vulkan_rope_fits(const weft_call *call)
{
    return weft__vulkan_fits(call) && weft__vulkan_is_forward(&call->in[0]) &&
           weft__vulkan_is_forward(&call->in[1]) && weft__vulkan_is_forward(&call->in[2]);
}

weft_status weft__vulkan_rope(const weft_call *call)
{
    const weft_rope_params *params = call->params;
    const weft_tensor *x = &call->in[0], *positions = &call->in[1];
    const bool wide = x->dtype == WEFT_FLOAT64;
    const int64_t B = x->shape.at[0], L = x->shape.at[1], H = x->shape.at[2], D = x->shape.at[3];
    const int64_t pairs = call->in[2].shape.at[0], parts = (H + HEADS - 1) / HEADS;
    const int64_t n = B * L * parts * (D - pairs);
    rope_push push = {
        .x = weft__vulkan_address(x),
        .positions = weft__vulkan_address(positions),
        .frequencies = weft__vulkan_address(&call->in[2]),
        .y = weft__vulkan_address(&call->out[0]),
        .x_at = {(uint32_t)x->strides[0], (uint32_t)x->strides[1], (uint32_t)x->strides[2]},
        .positions_at = positions->shape.n == 2 ? (uint32_t)positions->strides[0] : 0,
        .L = (uint32_t)L,
        .H = (uint32_t)H,
        .D = (uint32_t)D,
        .pairs = (uint32_t)pairs,
        .some = HEADS,
        .parts = (uint32_t)parts,
        .n = (uint32_t)n,
        .reals = weft__vulkan_reals_of(wide, params->amplitude, params->inverse ? -1 : 1)};
    weft__vulkan_launch launch = {.shader = wide ? &weft__shader_rope_f64 : &weft__shader_rope,
                                  .n_constants = 3,
                                  .constants = {x->dtype, positions->dtype, params->interleaved},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups((uint64_t)n, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}
