/* backends/vulkan/kernels/move.c -- copies of strided elements, with as few axes and as wide
 * elements as the strides allow. */
#include "backends/vulkan/kernels/move.h"

#include <string.h>

#include "backends/vulkan/shaders.h"

enum { PUSH_AXES = 8, GROUP = 256 };

/* The push block of move.comp. */
typedef struct move_push {
    uint64_t from, to;
    uint32_t count, from_start;
    uint32_t dims[PUSH_AXES];
    int32_t from_strides[PUSH_AXES];
    uint32_t to_strides[PUSH_AXES];
} move_push;

/* The same in a record, with a window. */
typedef struct move_record {
    uint64_t from, to;
    uint32_t count, from_start;
    uint32_t dims[WEFT_MAX_DIMS];
    int32_t from_strides[WEFT_MAX_DIMS];
    uint32_t to_strides[WEFT_MAX_DIMS];
    uint64_t start;
    uint32_t start_at[WEFT_MAX_DIMS];
    uint32_t room[WEFT_MAX_DIMS];
    int32_t strides[WEFT_MAX_DIMS];
} move_record;

/* A move under simplification. */
typedef struct plan {
    uint64_t from, to, value;
    int64_t size, from_start;
    int n;
    int64_t dims[WEFT_MAX_DIMS], from_strides[WEFT_MAX_DIMS], to_strides[WEFT_MAX_DIMS];
    bool fill;
    int n_window;
    int64_t room[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
} plan;

/* Adds an axis inside the existing ones; merges it with the last if both sides allow. */
static void add_axis(plan *p, int64_t dim, int64_t from_stride, int64_t to_stride)
{
    int last = p->n - 1;
    if (dim == 1) {
        return;
    }
    if (p->n > 0 && p->from_strides[last] == from_stride * dim &&
        p->to_strides[last] == to_stride * dim) {
        p->dims[last] *= dim;
    } else {
        last = p->n++;
        p->dims[last] = dim;
    }
    p->from_strides[last] = from_stride;
    p->to_strides[last] = to_stride;
}

/* Orients axes towards growing addresses of what is written; for what is read, addresses count from
 * the lowest element. */
static void add_axes(plan *p, const weft__vulkan_move_args *args)
{
    for (int d = 0; d < args->shape.n; d++) {
        int64_t dim = args->shape.at[d], to = args->to_strides[d];
        int64_t from = args->fill ? to : args->from_strides[d];
        if (to < 0 && dim > 0) {
            p->to += (uint64_t)((dim - 1) * to * p->size);
            p->from += args->fill ? 0 : (uint64_t)((dim - 1) * from * p->size);
            to = -to;
            from = -from;
        }
        add_axis(p, dim, from, to);
    }
    for (int d = 0; d < p->n && !p->fill; d++) {
        if (p->from_strides[d] < 0) {
            int64_t before = (p->dims[d] - 1) * -p->from_strides[d];
            p->from_start += before;
            p->from -= (uint64_t)(before * p->size);
        }
    }
    if (p->n == 0) {
        p->dims[p->n] = 1;
        p->from_strides[p->n] = p->to_strides[p->n] = 1;
        p->n++;
    }
}

static void add_window(plan *p, const weft__vulkan_window *w)
{
    const weft_dims *shape = &w->whole->shape;
    for (int i = 0; i < w->params->axes.n; i++) {
        int64_t axis = w->params->axes.at[i] + shape->n;
        p->room[i] = shape->at[axis] - w->params->sizes.at[i];
        p->strides[i] = w->whole->strides[axis];
        if (p->strides[i] < 0) { /* the lowest address belongs to the last index */
            p->from_start += p->room[i] * -p->strides[i];
            p->from -= (uint64_t)(p->room[i] * -p->strides[i] * p->size);
        }
    }
    p->n_window = w->params->axes.n;
}

/* Whether adjacent elements can be copied as one. */
static bool can_pair(const plan *p)
{
    int last = p->n - 1;
    uint64_t wide = (uint64_t)p->size * 2;
    bool can = p->size < 8 && p->dims[last] % 2 == 0 && p->to_strides[last] == 1 &&
               p->from_strides[last] == 1 && p->to % wide == 0 && (p->fill || p->from % wide == 0);
    for (int d = 0; d < last; d++) {
        can = can && p->from_strides[d] % 2 == 0 && p->to_strides[d] % 2 == 0;
    }
    for (int i = 0; i < p->n_window; i++) {
        can = can && p->strides[i] % 2 == 0;
    }
    return can;
}

static void widen(plan *p)
{
    while (can_pair(p)) {
        int last = p->n - 1;
        p->dims[last] /= 2;
        for (int d = 0; d < last; d++) {
            p->from_strides[d] /= 2;
            p->to_strides[d] /= 2;
        }
        for (int i = 0; i < p->n_window; i++) {
            p->strides[i] /= 2;
        }
        uint64_t low = p->value & ((UINT64_C(1) << 8 * p->size) - 1);
        p->value = low | low << 8 * p->size;
        p->from_start /= 2;
        p->size *= 2;
    }
}

/* Stores the axes in a block with space for `axes` of them. */
static void put_axes(const plan *p, uint32_t *dims, int32_t *from_strides, uint32_t *to_strides)
{
    for (int d = 0; d < p->n; d++) {
        dims[d] = (uint32_t)p->dims[d];
        from_strides[d] = (int32_t)p->from_strides[d];
        to_strides[d] = (uint32_t)p->to_strides[d];
    }
}

static weft_status launch_push(const weft_call *call, const plan *p, uint32_t count,
                               weft__vulkan_launch *launch)
{
    move_push push = {.from = p->fill ? p->value : p->from,
                      .to = p->to,
                      .count = count,
                      .from_start = (uint32_t)p->from_start};
    put_axes(p, push.dims, push.from_strides, push.to_strides);
    launch->shader = p->size == 1 ? &weft__shader_move_bytes : &weft__shader_move;
    launch->push = &push;
    launch->push_bytes = sizeof push;
    return weft__vulkan_dispatch(call, launch);
}

static weft_status launch_record(const weft_call *call, const plan *p, uint32_t count,
                                 const weft__vulkan_window *window, weft__vulkan_launch *launch)
{
    move_record record = {.from = p->fill ? p->value : p->from,
                          .to = p->to,
                          .count = count,
                          .from_start = (uint32_t)p->from_start};
    put_axes(p, record.dims, record.from_strides, record.to_strides);
    if (window) {
        const weft_tensor *start = window->start;
        int64_t stride = p->n_window > 1 ? start->strides[0] : 0;
        int64_t before = stride < 0 ? (p->n_window - 1) * -stride : 0;
        record.start = weft__vulkan_address(start) -
                       (uint64_t)before * (uint64_t)weft_dtype_size(start->dtype);
        for (int i = 0; i < p->n_window; i++) {
            record.start_at[i] = (uint32_t)(before + i * stride);
            record.room[i] = (uint32_t)p->room[i];
            record.strides[i] = (int32_t)p->strides[i];
        }
        launch->constants[launch->n_constants++] = (uint32_t)p->n_window;
        launch->constants[launch->n_constants++] = (uint32_t)start->dtype;
        launch->constants[launch->n_constants++] = window->put;
    }
    uint64_t address = weft__vulkan_record(call, &record, sizeof record);
    if (!address) {
        return weft_error_status();
    }
    launch->shader = p->size == 1 ? &weft__shader_move_record_bytes : &weft__shader_move_record;
    launch->push = &address;
    launch->push_bytes = sizeof address;
    return weft__vulkan_dispatch(call, launch);
}

weft_status weft__vulkan_move(const weft_call *call, const weft__vulkan_move_args *args)
{
    plan p = {.from = args->from,
              .to = args->to,
              .value = args->value,
              .size = args->size,
              .fill = args->fill};
    uint32_t count = 1;
    add_axes(&p, args);
    if (args->window) {
        add_window(&p, args->window);
    }
    widen(&p);
    for (int d = 0; d < p.n; d++) {
        count *= (uint32_t)p.dims[d];
    }
    weft__vulkan_launch launch = {.n_constants = 3,
                                  .constants = {(uint32_t)p.size, (uint32_t)p.n, p.fill},
                                  .groups = weft__vulkan_groups(count, GROUP),
                                  .independent = args->independent};
    if (count == 0) {
        return WEFT_OK;
    }
    return args->window || p.n > PUSH_AXES ? launch_record(call, &p, count, args->window, &launch)
                                           : launch_push(call, &p, count, &launch);
}

weft_status weft__vulkan_clear(const weft_call *call, uint64_t to, int64_t bytes)
{
    weft__vulkan_move_args args = {
        .shape = {1, {bytes / 4}}, .size = 4, .to = to, .to_strides = {1}, .fill = true};
    return weft__vulkan_move(call, &args);
}

weft_status weft__vulkan_move_all(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    weft__vulkan_move_args args = {.shape = in->shape,
                                   .size = (int64_t)weft_dtype_size(in->dtype),
                                   .from = weft__vulkan_address(in),
                                   .to = weft__vulkan_address(&call->out[0])};
    int64_t stride = 1;
    memcpy(args.from_strides, in->strides, sizeof args.from_strides);
    for (int d = in->shape.n - 1; d >= 0; d--) {
        args.to_strides[d] = stride;
        stride *= in->shape.at[d];
    }
    return weft__vulkan_move(call, &args);
}
