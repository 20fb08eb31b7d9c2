/* backends/vulkan/kernels/gather.c -- kernels that read at indices: take, take_along_axis and
 * bounded_index. */
#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 256 };

const char weft__vulkan_bad_index[] = "%s: index %lld is out of range for an axis of size %lld";

weft__vulkan_extents weft__vulkan_extents_of(const weft_tensor *t, int64_t axis)
{
    int64_t front = axis + t->shape.n;
    weft__vulkan_extents e = {1, t->shape.at[front], 1};
    for (int d = 0; d < t->shape.n; d++) {
        if (d != front) {
            *(d < front ? &e.outer : &e.inner) *= t->shape.at[d];
        }
    }
    return e;
}

static weft_status gather(const weft_call *call, bool along)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *x = &call->in[0], *indices = &call->in[1], *out = &call->out[0];
    weft__vulkan_extents e = weft__vulkan_extents_of(x, p->axis);
    struct {
        uint64_t x, indices, to, fault;
        uint32_t fault_code, count, extent, inner, n, unused;
    } push = {.x = weft__vulkan_address(x),
              .indices = weft__vulkan_address(indices),
              .to = weft__vulkan_address(out),
              .fault = weft__vulkan_fault(call),
              .fault_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, e.length),
              .extent = (uint32_t)e.length,
              .n = (uint32_t)(along ? weft__vulkan_extents_of(indices, p->axis).length
                                    : weft_tensor_size(indices))};
    uint64_t size = weft_dtype_size(x->dtype), count = (uint64_t)weft_tensor_size(out);
    /* Copies slices by wider elements if these divide them. */
    while (!along && size < 8 && e.inner % 2 == 0 && (push.x | push.to) % (2 * size) == 0) {
        size *= 2;
        count /= 2;
        e.inner /= 2;
    }
    push.count = (uint32_t)count;
    push.inner = (uint32_t)e.inner;
    weft__vulkan_launch launch = {.shader =
                                      size == 1 ? &weft__shader_gather_bytes : &weft__shader_gather,
                                  .n_constants = 3,
                                  .constants = {(uint32_t)size, (uint32_t)indices->dtype, along},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups(count, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}

weft_status weft__vulkan_take(const weft_call *call)
{
    return gather(call, false);
}

weft_status weft__vulkan_take_along_axis(const weft_call *call)
{
    return gather(call, true);
}

bool weft__vulkan_bounded_index_fits(const weft_call *call)
{
    const weft_bounds_params *p = call->params;
    return weft__vulkan_fits(call) && p->length <= INT32_MAX;
}

weft_status weft__vulkan_bounded_index(const weft_call *call)
{
    const weft_bounds_params *p = call->params;
    const weft_tensor *indices = &call->in[0];
    struct {
        uint64_t indices, to, fault;
        uint32_t fault_code, count, extent, unused;
    } push = {.indices = weft__vulkan_address(indices),
              .to = weft__vulkan_address(&call->out[0]),
              .fault = weft__vulkan_fault(call),
              .fault_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, p->length),
              .count = (uint32_t)weft_tensor_size(indices),
              .extent = (uint32_t)p->length};
    weft__vulkan_launch launch = {.shader = &weft__shader_bounded_index,
                                  .n_constants = 2,
                                  .constants = {(uint32_t)p->mode, (uint32_t)indices->dtype},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups(push.count, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}
