/* backends/vulkan/kernels/walk.c -- describes the axes of strided arrays to shaders. */
#include <stdlib.h>

#include "backends/vulkan/kernels/walk.h"

/* Lists the chosen axes whose size is not 1, in any order sorted by falling stride; returns their
 * number. */
static int list_axes(const weft_tensor *t, const bool *chosen, bool any_order, int *list)
{
    int n = 0;
    for (int d = 0; d < t->shape.n; d++) {
        if (!chosen[d] || t->shape.at[d] == 1) {
            continue;
        }
        int at = n++;
        while (any_order && at > 0 && llabs(t->strides[list[at - 1]]) < llabs(t->strides[d])) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = d;
    }
    return n;
}

/* Whether axis d of all tensors continues the last of their axes so far. */
static bool goes_on(const weft_tensor *t, int n, int d, const walk_axes *axes, uint32_t last)
{
    for (int i = 0; i < n; i++) {
        if (axes[i].strides[last] != t[i].strides[d] * t[i].shape.at[d]) {
            return false;
        }
    }
    return true;
}

uint32_t weft__vulkan_collapse(const weft_tensor *t, int n, const bool *chosen, bool any_order,
                               walk_axes *axes)
{
    int list[WEFT_MAX_DIMS], length = list_axes(t, chosen, any_order, list);
    uint32_t used = 0;
    for (int i = 0; i < n; i++) {
        axes[i] = (walk_axes){.sizes = {1, 1, 1, 1}};
    }
    for (int k = 0; k < length; k++) {
        int d = list[k];
        bool joined = used > 0 && goes_on(t, n, d, axes, used - 1);
        if (!joined && used == WALK_AXES) {
            return 0;
        }
        used += !joined;
        for (int i = 0; i < n; i++) {
            axes[i].sizes[used - 1] *= (uint32_t)t[i].shape.at[d];
            axes[i].strides[used - 1] = (int32_t)t[i].strides[d];
        }
    }
    return used > 0 ? used : 1;
}

uint64_t weft__vulkan_lowest(const weft_tensor *t, uint32_t *first)
{
    int64_t below = 0;
    for (int d = 0; d < t->shape.n; d++) {
        if (t->strides[d] < 0 && t->shape.at[d] > 0) {
            below -= (t->shape.at[d] - 1) * t->strides[d];
        }
    }
    *first = (uint32_t)below;
    return weft__vulkan_address(t) - (uint64_t)below * weft_dtype_size(t->dtype);
}

uint32_t weft__vulkan_rows(const weft_call *call, int64_t axis, row_push *push)
{
    const weft_tensor *x = &call->in[0];
    int front = (int)axis + x->shape.n;
    bool kept[WEFT_MAX_DIMS];
    *push = (row_push){.rows = 1, .inner = 1, .parts = 1};
    for (int d = 0; d < x->shape.n; d++) {
        kept[d] = d != front;
        push->rows *= kept[d] ? (uint32_t)x->shape.at[d] : 1;
        push->inner *= d > front ? (uint32_t)x->shape.at[d] : 1;
    }
    push->count = push->chunk = (uint32_t)x->shape.at[front];
    push->stride = (int32_t)x->strides[front];
    return weft__vulkan_collapse(x, 1, kept, false, &push->kept);
}

bool weft__vulkan_walk_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        const weft_tensor *t = &call->in[i];
        if (t->encoding || t->dtype == WEFT_COMPLEX64 || weft_tensor_size(t) > INT32_MAX) {
            return false;
        }
    }
    return weft__vulkan_fits(call);
}

uint32_t weft__vulkan_lanes(int64_t count, bool across)
{
    return count <= 16 || across ? 1 : count <= 64 ? 8 : count <= 1024 ? 32 : WALK_GROUP;
}
