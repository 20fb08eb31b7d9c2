/* backends/vulkan/kernels/sort.c -- sort and argsort along an axis: sorts blocks in shared memory,
 * then merges them in the workspace. */
#include <string.h>

#include "backends/vulkan/kernels/reduce.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { MOST = 2048, LEAST = 512 }; /* entries sorted per workgroup */

/* State that is passed from one launch to the next. */
typedef struct passes {
    const weft_call *call;
    row_push push;
    uint32_t n_kept;
    bool places, bytes;
} passes;

static uint32_t words(const weft_call *call)
{
    return weft_dtype_size(call->in[0].dtype) == 8 ? 3 : 2;
}

static uint32_t plan(const weft_call *call, row_push *push)
{
    return weft__vulkan_rows(call, ((const weft_axis_params *)call->params)->axis, push);
}

bool weft__vulkan_sort_copied_fits(const weft_call *call)
{
    return weft__vulkan_walk_fits(call) &&
           weft_tensor_size(&call->in[0]) * words(call) <= INT32_MAX;
}

bool weft__vulkan_sort_fits(const weft_call *call)
{
    row_push push;
    return weft__vulkan_sort_copied_fits(call) && plan(call, &push) > 0;
}

/* Bytes of the entries of all rows; merging needs them twice. */
static int64_t entry_bytes(const weft_call *call)
{
    return weft_tensor_size(&call->in[0]) * words(call) * (int64_t)sizeof(uint32_t);
}

int64_t weft__vulkan_sort_workspace(const weft_call *call)
{
    row_push push;
    plan(call, &push);
    return push.count > MOST ? 2 * entry_bytes(call) : 0;
}

static weft_status sort_blocks(const passes *s)
{
    uint32_t block = 2;
    while (block < s->push.count && block < MOST) {
        block *= 2;
    }
    uint32_t entries = block > LEAST ? block : LEAST;
    uint32_t highs = words(s->call) == 3 ? entries : 1;
    uint64_t blocks = s->push.rows * weft__vulkan_groups(s->push.count, block);
    weft__vulkan_launch launch = {
        .shader = s->bytes ? &weft__shader_sort_block_bytes : &weft__shader_sort_block,
        .n_constants = 7,
        .constants = {s->n_kept, s->call->in[0].dtype, s->places, s->push.count > block, block,
                      entries, highs},
        .push = &s->push,
        .push_bytes = sizeof s->push,
        .groups = weft__vulkan_groups(blocks, entries / block),
    };
    return weft__vulkan_dispatch(s->call, &launch);
}

static weft_status merge(const passes *s)
{
    uint64_t items = (uint64_t)s->push.rows * s->push.count;
    weft__vulkan_launch launch = {
        .shader = s->bytes ? &weft__shader_sort_merge_bytes : &weft__shader_sort_merge,
        .n_constants = 4,
        .constants = {s->n_kept, s->call->in[0].dtype, s->places,
                      s->push.count > 2 * (uint64_t)s->push.chunk},
        .push = &s->push,
        .push_bytes = sizeof s->push,
        .groups = weft__vulkan_groups(items, WALK_GROUP),
    };
    return weft__vulkan_dispatch(s->call, &launch);
}

weft_status weft__vulkan_sort(const weft_call *call)
{
    passes s = {.call = call, .places = strcmp(call->op->name, "argsort") == 0};
    s.n_kept = plan(call, &s.push);
    s.bytes = weft_dtype_size(call->out[0].dtype) == 1;
    s.push.x = weft__vulkan_lowest(&call->in[0], &s.push.origin);
    s.push.result = weft__vulkan_address(&call->out[0]);
    if (s.push.count > MOST) {
        s.push.to = weft__vulkan_workspace(call);
        s.push.from = s.push.to + (uint64_t)entry_bytes(call);
    }
    weft_status status = sort_blocks(&s);
    for (uint64_t run = MOST; status == WEFT_OK && run < s.push.count; run *= 2) {
        uint64_t sorted = s.push.to;
        s.push.to = s.push.from;
        s.push.from = sorted;
        s.push.chunk = (uint32_t)run;
        status = merge(&s);
    }
    return status;
}
