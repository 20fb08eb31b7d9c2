/* backends/vulkan/kernels/softmax.c -- softmax, log_softmax and their gradients along an axis. */
#include <string.h>

#include "backends/vulkan/kernels/reduce.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum {
    FEW = 64,    /* with fewer rows the device is not busy */
    LONG = 8192, /* row length from which dividing pays */
    PART = 4096
};

/* The arguments of shaders/softmax_grad.comp. */
typedef struct grad_push {
    uint64_t y, dy, result;
    uint32_t y_origin, dy_origin, rows, count, inner;
    int32_t y_stride, dy_stride;
    uint32_t sizes[WALK_AXES];
    int32_t y_strides[WALK_AXES], dy_strides[WALK_AXES];
} grad_push;

static int64_t axis_of(const weft_call *call)
{
    return ((const weft_axis_params *)call->params)->axis;
}

bool weft__vulkan_softmax_fits(const weft_call *call)
{
    bool kept[WEFT_MAX_DIMS];
    walk_axes axes[2];
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        kept[d] = d != axis_of(call) + call->in[0].shape.n;
    }
    return weft__vulkan_walk_fits(call) &&
           weft__vulkan_collapse(call->in, call->n_inputs, kept, false, axes) > 0;
}

/* Whether rows are interleaved, and so many that one invocation each is enough. */
static bool are_across(uint32_t rows, uint32_t inner)
{
    return inner >= 32 && rows >= 4096;
}

static uint32_t plan(const weft_call *call, row_push *push)
{
    uint32_t n_kept = weft__vulkan_rows(call, axis_of(call), push);
    if (push->rows <= FEW && push->count >= LONG) {
        push->parts = (uint32_t)weft__vulkan_groups(push->count, PART);
        push->chunk = PART;
    }
    return n_kept;
}

int64_t weft__vulkan_softmax_workspace(const weft_call *call)
{
    row_push push;
    plan(call, &push);
    int64_t bytes = call->in[0].dtype == WEFT_FLOAT64 ? sizeof(double) : sizeof(float);
    return push.parts > 1 ? 2 * bytes * push.rows * push.parts : 0;
}

/* Computes the largest element and the sum of exponentials of all parts of the rows. */
static weft_status sum_parts(const weft_call *call, const row_push *rows, uint32_t n_kept)
{
    weft_dtype dtype = call->in[0].dtype;
    const reduction sums = {
        .shader =
            dtype == WEFT_FLOAT64 ? &weft__shader_reduce_logsum_f64 : &weft__shader_reduce_logsum,
        .constants = {dtype},
    };
    return weft__vulkan_reduce_rows(call, &sums, rows, n_kept);
}

weft_status weft__vulkan_softmax(const weft_call *call)
{
    weft_dtype dtype = call->in[0].dtype;
    row_push push;
    uint32_t n_kept = plan(call, &push);
    uint32_t lanes = weft__vulkan_lanes(push.count, are_across(push.rows, push.inner));
    push.x = weft__vulkan_lowest(&call->in[0], &push.origin);
    push.result = weft__vulkan_address(&call->out[0]);
    if (push.parts > 1) {
        push.from = weft__vulkan_workspace(call);
        weft_status status = sum_parts(call, &push, n_kept);
        if (status != WEFT_OK) {
            return status;
        }
    }
    uint64_t items = (uint64_t)push.rows * push.parts;
    weft__vulkan_launch launch = {
        .shader = dtype == WEFT_FLOAT64 ? &weft__shader_softmax_f64 : &weft__shader_softmax,
        .n_constants = 5,
        .constants = {lanes, n_kept, dtype, strcmp(call->op->name, "log_softmax") == 0,
                      push.parts > 1},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(items, WALK_GROUP / lanes),
    };
    return weft__vulkan_dispatch(call, &launch);
}

weft_status weft__vulkan_softmax_grad(const weft_call *call)
{
    weft_dtype dtype = call->in[0].dtype;
    int front = (int)axis_of(call) + call->in[0].shape.n;
    bool kept[WEFT_MAX_DIMS];
    walk_axes axes[2];
    row_push rows;
    weft__vulkan_rows(call, axis_of(call), &rows);
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        kept[d] = d != front;
    }
    uint32_t n_kept = weft__vulkan_collapse(call->in, 2, kept, false, axes);
    uint32_t lanes = weft__vulkan_lanes(rows.count, are_across(rows.rows, rows.inner));
    grad_push push = {
        .result = weft__vulkan_address(&call->out[0]),
        .rows = rows.rows,
        .count = rows.count,
        .inner = rows.inner,
        .y_stride = rows.stride,
        .dy_stride = (int32_t)call->in[1].strides[front],
    };
    push.y = weft__vulkan_lowest(&call->in[0], &push.y_origin);
    push.dy = weft__vulkan_lowest(&call->in[1], &push.dy_origin);
    memcpy(push.sizes, axes[0].sizes, sizeof push.sizes);
    memcpy(push.y_strides, axes[0].strides, sizeof push.y_strides);
    memcpy(push.dy_strides, axes[1].strides, sizeof push.dy_strides);
    weft__vulkan_launch launch = {
        .shader =
            dtype == WEFT_FLOAT64 ? &weft__shader_softmax_grad_f64 : &weft__shader_softmax_grad,
        .n_constants = 4,
        .constants = {lanes, n_kept, dtype, strcmp(call->op->name, "log_softmax_grad") == 0},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(rows.rows, WALK_GROUP / lanes),
    };
    return weft__vulkan_dispatch(call, &launch);
}
