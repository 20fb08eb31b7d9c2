/* backends/vulkan/kernels/scatter.c -- kernels that write at indices: scatter_add, scatter, and the
 * same along an axis.
 *
 * No floating-point atomics, whose order would differ from run to run: the items of each
 * destination are collected in a list, which is sorted by index, and one invocation applies it.
 */
#include <string.h>

#include "backends/vulkan/kernels/move.h"
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/kernels/walk.h"
#include "backends/vulkan/shaders.h"

enum { GROUP = 256, FEW = 64 };

/* The destinations, in three arrays of `items` words and one of `n_places` in the workspace. */
typedef struct scatter {
    bool along;
    weft_combine combine;
    bool unique; /* the shapes imply distinct destinations: no lists */
    int64_t items, n_places;
    weft__vulkan_extents e;
    int64_t n;
    uint64_t heads, next, places, following;
} scatter;

static scatter scatter_of(const weft_call *call, bool along, weft_combine combine)
{
    const weft_axis_params *p = call->params; /* weft_scatter_params also begins with the axis */
    const weft_tensor *x = &call->in[0], *indices = &call->in[1];
    scatter s = {.along = along,
                 .combine = combine,
                 .items = weft_tensor_size(indices),
                 .e = weft__vulkan_extents_of(x, p->axis),
                 .n = 1};
    if (along) {
        s.n = weft__vulkan_extents_of(indices, p->axis).length;
    }
    s.unique = along ? s.n <= 1 : s.items <= 1;
    s.n_places = s.unique ? 0 : along ? weft_tensor_size(x) : s.e.length;
    return s;
}

static int64_t workspace_bytes(const scatter *s)
{
    return (s->n_places + 3 * s->items) * (int64_t)sizeof(uint32_t);
}

static weft_status link_items(const weft_call *call, const scatter *s)
{
    const weft_tensor *indices = &call->in[1];
    struct {
        uint64_t indices, heads, next, places, following, fault;
        uint32_t fault_code, items, extent, inner, n, unused;
    } push = {.indices = weft__vulkan_address(indices),
              .heads = s->heads,
              .next = s->next,
              .places = s->places,
              .following = s->following,
              .fault = weft__vulkan_fault(call),
              .fault_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, s->e.length),
              .items = (uint32_t)s->items,
              .extent = (uint32_t)s->e.length,
              .inner = (uint32_t)s->e.inner,
              .n = (uint32_t)s->n};
    weft__vulkan_launch launch = {.shader = &weft__shader_scatter_link,
                                  .n_constants = 3,
                                  .constants = {(uint32_t)indices->dtype, s->along, s->unique},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups(push.items, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status order_items(const weft_call *call, const scatter *s)
{
    struct {
        uint64_t heads, next, places, following, items;
    } push = {s->heads, s->next, s->places, s->following, (uint64_t)s->items};
    weft__vulkan_launch launch = {.shader = &weft__shader_scatter_order,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups(push.items, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status take_in_items(const weft_call *call, const scatter *s)
{
    const weft_tensor *values = &call->in[2];
    weft_dtype dtype = values->dtype;
    uint32_t size = (uint32_t)weft_dtype_size(dtype);
    struct {
        uint64_t to, values, places, following;
        uint32_t count, items, extent, inner;
    } push = {.to = weft__vulkan_address(&call->out[0]),
              .values = weft__vulkan_address(values),
              .places = s->places,
              .following = s->following,
              .count = (uint32_t)weft_tensor_size(values),
              .items = (uint32_t)s->items,
              .extent = (uint32_t)s->e.length,
              .inner = s->along ? 1 : (uint32_t)s->e.inner};
    weft__vulkan_launch launch = {
        .push = &push, .push_bytes = sizeof push, .groups = weft__vulkan_groups(push.count, GROUP)};
    uint32_t whole = weft_dtype_is_integer(dtype);
    if (s->combine == WEFT_COMBINE_ADD) {
        launch.shader = dtype == WEFT_FLOAT64 ? &weft__shader_scatter_sum_f64
                        : size == 1           ? &weft__shader_scatter_sum_bytes
                                              : &weft__shader_scatter_sum;
        uint32_t constants[] = {whole, size, (uint32_t)dtype};
        launch.n_constants = 3;
        memcpy(launch.constants, constants, sizeof constants);
    } else {
        bool wide = dtype == WEFT_FLOAT64 && s->combine != WEFT_COMBINE_PUT;
        launch.shader = wide        ? &weft__shader_scatter_fold_f64
                        : size == 1 ? &weft__shader_scatter_fold_bytes
                                    : &weft__shader_scatter_fold;
        uint32_t constants[] = {(uint32_t)s->combine, whole, weft_dtype_is_signed(dtype), size,
                                (uint32_t)dtype};
        launch.n_constants = 5;
        memcpy(launch.constants, constants, sizeof constants);
    }
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status scatter_items(const weft_call *call, bool along, weft_combine combine)
{
    scatter s = scatter_of(call, along, combine);
    weft_status status = WEFT_OK;
    if (weft__vulkan_address(&call->in[0]) != weft__vulkan_address(&call->out[0])) {
        status = weft__vulkan_move_all(call);
    }
    if (s.items == 0 || weft_tensor_size(&call->in[2]) == 0) {
        return status;
    }
    s.heads = weft__vulkan_workspace(call);
    s.next = s.heads + (uint64_t)s.n_places * sizeof(uint32_t);
    s.places = s.next + (uint64_t)s.items * sizeof(uint32_t);
    s.following = s.places + (uint64_t)s.items * sizeof(uint32_t);
    if (status == WEFT_OK && !s.unique) {
        status = weft__vulkan_clear(call, s.heads, s.n_places * (int64_t)sizeof(uint32_t));
    }
    if (status == WEFT_OK) {
        status = link_items(call, &s);
    }
    if (status == WEFT_OK && !s.unique) {
        status = order_items(call, &s);
    }
    return status == WEFT_OK ? take_in_items(call, &s) : status;
}

/* ---- Few indices along the axis -------------------------------------------------------------- */

/* The axes of the indices; 0: the call is another one, or has strides that the shader lacks. */
static uint32_t put_few_axes(const weft_call *call, walk_axes *axes)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *indices = &call->in[1];
    bool all[WEFT_MAX_DIMS];
    for (int i = 0; i < WEFT_MAX_DIMS; i++) {
        all[i] = true;
    }
    return indices->shape.at[indices->shape.n + p->axis] <= FEW && weft__vulkan_is_forward(indices)
               ? weft__vulkan_collapse(indices, 1, all, false, axes)
               : 0;
}

bool weft__vulkan_put_few_fits(const weft_call *call)
{
    walk_axes axes;
    return weft__vulkan_fits(call) && weft_tensor_is_contiguous(&call->in[0]) &&
           weft_tensor_is_contiguous(&call->in[2]) && put_few_axes(call, &axes) > 0;
}

weft_status weft__vulkan_put_few(const weft_call *call)
{
    const weft_axis_params *params = call->params;
    const weft__vulkan_extents e = weft__vulkan_extents_of(&call->in[0], params->axis);
    const uint32_t size = (uint32_t)weft_dtype_size(call->out[0].dtype);
    const int64_t count = weft_tensor_size(&call->in[2]);
    struct {
        uint64_t to, values, indices, fault;
        uint32_t fault_code, count, extent, inner, n;
        walk_axes at;
        uint32_t few;
    } push = {.to = weft__vulkan_address(&call->out[0]),
              .values = weft__vulkan_address(&call->in[2]),
              .indices = weft__vulkan_address(&call->in[1]),
              .fault = weft__vulkan_fault(call),
              .fault_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, e.length),
              .count = (uint32_t)count,
              .extent = (uint32_t)e.length,
              .inner = (uint32_t)e.inner,
              .few = (uint32_t)weft__vulkan_extents_of(&call->in[1], params->axis).length};
    push.n = put_few_axes(call, &push.at);
    const weft__vulkan_launch launch = {.shader = size == 1 ? &weft__shader_put_few_bytes
                                                            : &weft__shader_put_few,
                                        .n_constants = 2,
                                        .constants = {size, (uint32_t)call->in[1].dtype},
                                        .push = &push,
                                        .push_bytes = sizeof push,
                                        .groups = weft__vulkan_groups((uint64_t)count, GROUP)};
    weft_status status = WEFT_OK;
    if (weft__vulkan_address(&call->in[0]) != push.to) {
        status = weft__vulkan_move_all(call);
    }
    return status == WEFT_OK ? weft__vulkan_dispatch(call, &launch) : status;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

bool weft__vulkan_scatter_add_fits(const weft_call *call)
{
    return call->in[0].dtype != WEFT_COMPLEX64 && weft__vulkan_fits(call);
}

/* Complex numbers can only be replaced, by copying elements. */
bool weft__vulkan_scatter_fits(const weft_call *call)
{
    const weft_scatter_params *p = call->params;
    return p->combine == WEFT_COMBINE_PUT ? weft__vulkan_fits(call)
                                          : weft__vulkan_scatter_add_fits(call);
}

int64_t weft__vulkan_scatter_workspace(const weft_call *call)
{
    scatter s = scatter_of(call, false, WEFT_COMBINE_PUT);
    return workspace_bytes(&s);
}

int64_t weft__vulkan_scatter_along_workspace(const weft_call *call)
{
    scatter s = scatter_of(call, true, WEFT_COMBINE_PUT);
    return workspace_bytes(&s);
}

weft_status weft__vulkan_scatter_add(const weft_call *call)
{
    return scatter_items(call, false, WEFT_COMBINE_ADD);
}

weft_status weft__vulkan_scatter(const weft_call *call)
{
    const weft_scatter_params *p = call->params;
    return scatter_items(call, false, (weft_combine)p->combine);
}

weft_status weft__vulkan_scatter_add_along_axis(const weft_call *call)
{
    return scatter_items(call, true, WEFT_COMBINE_ADD);
}

weft_status weft__vulkan_put_along_axis(const weft_call *call)
{
    return scatter_items(call, true, WEFT_COMBINE_PUT);
}
