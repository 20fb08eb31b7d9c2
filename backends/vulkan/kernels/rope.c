/* backends/vulkan/kernels/rope.c -- rotary embedding; an angle is computed once for several heads.
 * The result may be written to a cache. */
#include <string.h>

#include "backends/vulkan/kernels/move.h"
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/shaders.h"
#include "weft/backend.h"
#include "weft/op_params.h"

enum { GROUP = 128, HEADS = 4 /* of a thread */, NO_START = 255 };

/* Layout as in rope.comp. */
typedef struct rope_push {
    uint64_t x, positions, frequencies, y;
    uint32_t x_at[3], positions_at;
    uint32_t L, H, D, pairs;
    uint32_t some, parts, n, capacity;
    uint64_t start;
    uint32_t weight[2]; /* of the norm */
    float eps, offset;
    weft__vulkan_reals reals; /* amplitude, and 1 or -1 */
} rope_push;

bool weft__vulkan_rope_fits(const weft_call *call)
{
    return weft__vulkan_fits(call) && weft__vulkan_is_forward(&call->in[0]) &&
           weft__vulkan_is_forward(&call->in[1]) && weft__vulkan_is_forward(&call->in[2]);
}

/* Of a slice_update along L: what is written to, and from where on. */
static const weft_tensor *cache_of(const weft_call *call)
{
    return call->epilogue ? &call->in[call->epilogue->operands[0]] : NULL;
}

static const weft_tensor *start_of(const weft_call *call)
{
    return call->epilogue ? &call->in[call->epilogue->operands[2]] : NULL;
}

bool weft__vulkan_rope_takes_epilogue(const weft_call *call)
{
    const weft_call_epilogue *e = call->epilogue;
    const weft_slice_params *window = e->params;
    if (e->op != weft_op_find("slice_update") || e->n_results != 1 || e->operands[1] != -1) {
        return false;
    }
    const weft_dims *cache = &cache_of(call)->shape, *x = &call->in[0].shape;
    return weft__vulkan_fits(call) && window->axes.n == 1 && window->axes.at[0] == -3 &&
           cache->at[0] == x->at[0] && cache->at[2] == x->at[2] && cache->at[3] == x->at[3];
}

bool weft__vulkan_rope_takes_prologue(const weft_call *call)
{
    const weft_dims *x = &call->in[0].shape;
    return weft__vulkan_fits(call) && weft__vulkan_row_norm_fits(call, 1, x->at[3]);
}

/* Of a workgroup for each head. */
static void normalize(const weft__vulkan_row_norm *norm, const weft_tensor *x, rope_push *push,
                      weft__vulkan_launch *launch)
{
    uint32_t starts = 0;
    for (int i = 0; i < 3; i++) {
        starts |= x->shape.at[i] > 1 ? push->x_at[i] : 0;
    }
    memcpy(push->weight, &norm->weight, sizeof push->weight);
    push->eps = norm->eps;
    push->offset = norm->offset;
    push->n = push->L * push->H * (uint32_t)x->shape.at[0];
    launch->shader = &weft__shader_rope_normed;
    launch->groups = push->n;
    weft__vulkan_row_norm_constants(norm, x->dtype, push->x, starts, x->shape.at[3], launch);
}

/* What is not written stays as it was: where the result does not lie over the cache, that is
 * copied first. */
static weft_status copy_cache(const weft_call *call)
{
    const weft_tensor *cache = cache_of(call);
    if (!cache || weft__vulkan_address(cache) == weft__vulkan_address(&call->out[0])) {
        return WEFT_OK;
    }
    weft_call copy = *call;
    copy.epilogue = NULL;
    copy.in = cache;
    copy.n_inputs = 1;
    return weft__vulkan_move_all(&copy);
}

weft_status weft__vulkan_rope(const weft_call *call)
{
    const weft_rope_params *params = call->params;
    const weft_tensor *x = &call->in[0], *positions = &call->in[1], *start = start_of(call);
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
        .capacity = (uint32_t)call->out[0].shape.at[1],
        .start = start ? weft__vulkan_address(start) : 0,
        .reals = weft__vulkan_reals_of(wide, params->amplitude, params->inverse ? -1 : 1)};
    weft__vulkan_launch launch = {.shader = wide ? &weft__shader_rope_f64 : &weft__shader_rope,
                                  .n_constants = 4,
                                  .constants = {x->dtype, positions->dtype, params->interleaved,
                                                start ? start->dtype : (uint32_t)NO_START},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups((uint64_t)n, GROUP)};
    const weft__vulkan_row_norm norm = weft__vulkan_row_norm_of(call);
    if (norm.on) {
        normalize(&norm, x, &push, &launch);
    }
    const weft_status status = copy_cache(call);
    return status == WEFT_OK ? weft__vulkan_dispatch(call, &launch) : status;
}
