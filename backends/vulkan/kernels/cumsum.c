/* backends/vulkan/kernels/cumsum.c -- cumulative sums along an axis. Short or interleaved rows are
 * scanned by one invocation each, others by a workgroup. A few long rows are divided into parts,
 * whose sums are computed first. */
#include "backends/vulkan/kernels/reduce.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum {
    FEW = 64,     /* with fewer rows the device is not busy */
    LONG = 16384, /* row length from which dividing pays */
    TILE = 1024,  /* elements summed by a workgroup at a time */
    MOST_PARTS = 256,
    PART_BYTES = 8 /* size of the sum of a part, for any dtype */
};

static bool is_wide(const weft_call *call)
{
    return call->in[0].dtype == WEFT_FLOAT64;
}

static uint32_t plan(const weft_call *call, row_push *push)
{
    const weft_scan_params *p = call->params;
    uint32_t n_kept = weft__vulkan_rows(call, p->axis, push);
    if (push->rows <= FEW && push->count >= LONG) {
        uint64_t tiles = weft__vulkan_groups(push->count, (uint64_t)MOST_PARTS * TILE);
        push->chunk = (uint32_t)tiles * TILE;
        push->parts = (uint32_t)weft__vulkan_groups(push->count, push->chunk);
    }
    return n_kept;
}

bool weft__vulkan_cumsum_fits(const weft_call *call)
{
    row_push push;
    return weft__vulkan_walk_fits(call) && plan(call, &push) > 0;
}

int64_t weft__vulkan_cumsum_workspace(const weft_call *call)
{
    row_push push;
    plan(call, &push);
    return push.parts > 1 ? PART_BYTES * (int64_t)push.rows * push.parts : 0;
}

static weft_status sum_parts(const weft_call *call, const row_push *rows, uint32_t n_kept)
{
    weft_dtype dtype = call->in[0].dtype;
    const reduction sums = {
        .shader = is_wide(call)                ? &weft__shader_reduce_sum_f64
                  : weft_dtype_is_float(dtype) ? &weft__shader_reduce_sum
                                               : &weft__shader_reduce_bits,
        .constants = {dtype, call->out[0].dtype, REDUCE_SUM},
    };
    return weft__vulkan_reduce_rows(call, &sums, rows, n_kept);
}

static const weft__vulkan_shader *shader_of(const weft_call *call)
{
    weft_dtype out = call->out[0].dtype;
    if (weft_dtype_is_float(out)) {
        return is_wide(call) ? &weft__shader_cumsum_f64 : &weft__shader_cumsum;
    }
    return weft_dtype_size(out) == 1 ? &weft__shader_cumsum_bytes : &weft__shader_cumsum_bits;
}

weft_status weft__vulkan_cumsum(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    row_push push;
    uint32_t n_kept = plan(call, &push);
    bool alone = push.count <= 64 || (push.inner >= 32 && push.rows >= 4096);
    uint32_t lanes = alone ? 1 : WALK_GROUP;
    push.x = weft__vulkan_lowest(&call->in[0], &push.origin);
    push.result = weft__vulkan_address(&call->out[0]);
    if (p->reverse) {
        push.origin += (push.count - 1) * (uint32_t)push.stride;
        push.stride = -push.stride;
    }
    if (push.parts > 1) {
        push.from = weft__vulkan_workspace(call);
        weft_status status = sum_parts(call, &push, n_kept);
        if (status != WEFT_OK) {
            return status;
        }
    }
    uint64_t items = (uint64_t)push.rows * push.parts;
    weft__vulkan_launch launch = {
        .shader = shader_of(call),
        .n_constants = 6,
        .constants = {lanes, n_kept, call->in[0].dtype, call->out[0].dtype, p->reverse,
                      p->inclusive},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(items, WALK_GROUP / lanes),
    };
    return weft__vulkan_dispatch(call, &launch);
}
