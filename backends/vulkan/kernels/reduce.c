/* backends/vulkan/kernels/reduce.c -- reductions over any axes, and of several arrays. Adjacent
 * invocations read adjacent elements of a run, or adjacent runs if those are interleaved. A few
 * long runs are divided into parts, which a second launch combines. */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/kernels/reduce.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum {
    ENOUGH = 1 << 17, /* invocations that keep a device busy */
    LEAST = 16        /* elements per invocation that make a second launch worthwhile */
};

typedef struct named_op {
    const char *name;
    reduce_op op;
} named_op;

static const named_op ops[] = {
    {"sum", REDUCE_SUM}, {"mean", REDUCE_MEAN}, {"prod", REDUCE_PROD}, {"max", REDUCE_MAX},
    {"min", REDUCE_MIN}, {"all", REDUCE_ALL},   {"any", REDUCE_ANY},
};

static bool is_named(const weft_call *call, const char *name)
{
    return strcmp(call->op->name, name) == 0;
}

static bool is_arg_extreme(const weft_call *call)
{
    return is_named(call, "argmax") || is_named(call, "argmin");
}

/* Selects the call's shader and its constants. */
static void choose_shader(const weft_call *call, reduction *r)
{
    weft_dtype x = call->in[0].dtype, out = call->out[0].dtype;
    bool wide = x == WEFT_FLOAT64;
    reduce_op op = REDUCE_SUM;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        op = is_named(call, ops[i].name) ? ops[i].op : op;
    }
    r->constants[0] = x;
    r->constants[1] = out;
    r->constants[2] = op;
    if (is_arg_extreme(call)) {
        r->shader = &weft__shader_reduce_place;
        r->constants[1] = is_named(call, "argmin");
        r->part_bytes = 3 * sizeof(uint32_t);
    } else if (is_named(call, "logsumexp")) {
        r->shader = wide ? &weft__shader_reduce_logsum_f64 : &weft__shader_reduce_logsum;
        r->part_bytes = 2 * (wide ? sizeof(double) : sizeof(float));
    } else if (weft_dtype_is_float(x) && op <= REDUCE_PROD) {
        r->shader = wide ? &weft__shader_reduce_sum_f64 : &weft__shader_reduce_sum;
        r->part_bytes = wide ? sizeof(double) : 2 * sizeof(float);
    } else {
        r->shader =
            weft_dtype_size(out) == 1 ? &weft__shader_reduce_bits_bytes : &weft__shader_reduce_bits;
        r->part_bytes = 2 * sizeof(uint32_t);
    }
}

static void mark_reduced(const weft_call *call, bool *reduced)
{
    int n = call->in[0].shape.n;
    memset(reduced, 0, WEFT_MAX_DIMS * sizeof *reduced);
    if (is_arg_extreme(call)) {
        reduced[((const weft_axis_params *)call->params)->axis + n] = true;
        return;
    }
    const weft_dims *axes = &((const weft_reduce_params *)call->params)->axes;
    for (int i = 0; i < axes->n; i++) {
        reduced[axes->at[i] + n] = true;
    }
}

/* Chooses the numbers of lanes and parts. `across`: adjacent outputs come from adjacent elements.
 */
static void divide(reduction *r, bool across)
{
    r->lanes = weft__vulkan_lanes(r->push.count, across);
    uint64_t invocations = (uint64_t)r->push.outputs * r->lanes + (r->push.outputs == 0);
    uint64_t parts = r->push.count / (r->lanes * LEAST);
    parts = parts < ENOUGH / invocations ? parts : ENOUGH / invocations;
    parts = parts > 1 ? parts : 1;
    r->push.chunk = (uint32_t)weft__vulkan_groups(r->push.count, parts);
    r->push.parts = parts > 1 ? (uint32_t)weft__vulkan_groups(r->push.count, r->push.chunk) : 1;
}

/* False if there are too many axes. */
static bool plan(const weft_call *call, const weft_tensor *x, reduction *r)
{
    bool reduced[WEFT_MAX_DIMS], kept[WEFT_MAX_DIMS];
    *r = (reduction){0};
    choose_shader(call, r);
    mark_reduced(call, reduced);
    reduce_push *push = &r->push;
    push->outputs = (uint32_t)weft_tensor_size(&call->out[0]);
    push->count = 1;
    for (int d = 0; d < x->shape.n; d++) {
        kept[d] = !reduced[d];
        push->count *= reduced[d] ? (uint32_t)x->shape.at[d] : 1;
    }
    push->total = push->count;
    r->n_kept = weft__vulkan_collapse(x, 1, kept, false, &push->kept);
    r->n_reduced = weft__vulkan_collapse(x, 1, reduced, true, &push->reduced);
    if (r->n_kept == 0 || r->n_reduced == 0) {
        return false;
    }
    int64_t between = llabs((int64_t)push->kept.strides[r->n_kept - 1]);
    int64_t within = llabs((int64_t)push->reduced.strides[r->n_reduced - 1]);
    divide(r, between < within && push->kept.sizes[r->n_kept - 1] >= 32);
    return true;
}

/* further: independent of the call's launches so far. */
static weft_status launch(const weft_call *call, const reduction *r, bool from_parts, bool to_parts,
                          bool further)
{
    uint64_t items = (uint64_t)r->push.outputs * r->push.parts;
    weft__vulkan_launch launch = {
        .shader = r->shader,
        .n_constants = 8,
        .constants = {r->lanes, r->n_kept, r->n_reduced, from_parts, to_parts, r->constants[0],
                      r->constants[1], r->constants[2]},
        .push = &r->push,
        .push_bytes = sizeof r->push,
        .groups = weft__vulkan_groups(items, WALK_GROUP / r->lanes),
        .independent = further,
        .batches = true,
    };
    return weft__vulkan_dispatch(call, &launch);
}

/* Writes the results of all parts of the runs to `to`, as [part][output]. */
static weft_status reduce_parts(const weft_call *call, const reduction *r, uint64_t to)
{
    reduction first = *r;
    first.push.result = to;
    return launch(call, &first, false, true, false);
}

weft_status weft__vulkan_reduce_rows(const weft_call *call, const reduction *how,
                                     const row_push *rows, uint32_t n_kept)
{
    reduction r = *how;
    r.lanes = WALK_GROUP;
    r.n_kept = n_kept;
    r.n_reduced = 1;
    r.push = (reduce_push){
        .x = rows->x,
        .origin = rows->origin,
        .outputs = rows->rows,
        .count = rows->count,
        .parts = rows->parts,
        .chunk = rows->chunk,
        .total = rows->count,
        .kept = rows->kept,
        .reduced = {{rows->count, 1, 1, 1}, {rows->stride}},
    };
    return reduce_parts(call, &r, rows->from);
}

/* Continues with the results of the parts. */
static void take_parts(reduction *r, uint64_t parts)
{
    r->push.x = parts;
    r->push.count = r->push.chunk = r->push.parts;
    r->push.parts = 1;
    r->lanes = weft__vulkan_lanes(r->push.count, r->push.outputs >= 4096);
}

bool weft__vulkan_reduce_fits(const weft_call *call)
{
    reduction r;
    return weft__vulkan_walk_fits(call) && plan(call, &call->in[0], &r);
}

/* Fits when the input is made row-major first. */
bool weft__vulkan_reduce_copied_fits(const weft_call *call)
{
    reduction r;
    weft_tensor copy = call->in[0];
    int64_t stride = 1;
    for (int d = copy.shape.n - 1; d >= 0; d--) {
        copy.strides[d] = stride;
        stride *= copy.shape.at[d];
    }
    return weft__vulkan_walk_fits(call) && plan(call, &copy, &r);
}

int64_t weft__vulkan_reduce_workspace(const weft_call *call)
{
    reduction r;
    plan(call, &call->in[0], &r);
    return r.push.parts > 1 ? (int64_t)r.push.parts * r.push.outputs * r.part_bytes : 0;
}

weft_status weft__vulkan_reduce(const weft_call *call)
{
    reduction r;
    plan(call, &call->in[0], &r);
    if (r.push.count > 0) {
        r.push.x = weft__vulkan_lowest(&call->in[0], &r.push.origin);
    }
    bool in_parts = r.push.parts > 1;
    if (in_parts) {
        weft_status status = reduce_parts(call, &r, weft__vulkan_workspace(call));
        if (status != WEFT_OK) {
            return status;
        }
        take_parts(&r, weft__vulkan_workspace(call));
    }
    r.push.result = weft__vulkan_address(&call->out[0]);
    return launch(call, &r, in_parts, false, false);
}

/* ---- Squares of several arrays -------------------------------------------------------------- */

bool weft__vulkan_sum_squares_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->in[i].dtype == WEFT_FLOAT64) {
            return false;
        }
    }
    return weft__vulkan_walk_fits(call);
}

/* The sum of the squares of an array. The workspace has the arrays' sums, then their parts. */
static reduction squares_of(const weft_tensor *x)
{
    reduction r = {.shader = &weft__shader_reduce_sum,
                   .constants = {x->dtype, WEFT_FLOAT32, REDUCE_SQUARES},
                   .part_bytes = 2 * sizeof(float),
                   .n_kept = 1,
                   .n_reduced = 1};
    r.push.outputs = 1;
    r.push.count = r.push.total = (uint32_t)weft_tensor_size(x);
    r.push.kept = (walk_axes){.sizes = {1, 1, 1, 1}};
    r.push.reduced = (walk_axes){{r.push.count, 1, 1, 1}, {1}};
    divide(&r, false);
    return r;
}

static int64_t bytes_of_sums(const weft_call *call)
{
    return ((int64_t)sizeof(float) * call->n_inputs + 15) / 16 * 16;
}

int64_t weft__vulkan_sum_squares_workspace(const weft_call *call)
{
    int64_t bytes = bytes_of_sums(call);
    for (int i = 0; i < call->n_inputs; i++) {
        const reduction r = squares_of(&call->in[i]);
        bytes += r.push.parts > 1 ? (int64_t)r.push.parts * r.part_bytes : 0;
    }
    return bytes;
}

/* Sums the arrays in one pass: those in one part, and the parts of the others. Or sums the parts.
 */
static weft_status squares_pass(const weft_call *call, bool from_parts)
{
    uint64_t sum = weft__vulkan_workspace(call), parts = sum + (uint64_t)bytes_of_sums(call);
    weft_status status = WEFT_OK;
    bool further = false;
    for (int i = 0; i < call->n_inputs && status == WEFT_OK; i++, sum += sizeof(float)) {
        reduction r = squares_of(&call->in[i]);
        const bool in_parts = r.push.parts > 1;
        const uint64_t own = parts;
        parts += in_parts ? r.push.parts * r.part_bytes : 0;
        if (from_parts && !in_parts) {
            continue;
        }
        r.push.x = r.push.count > 0 ? weft__vulkan_address(&call->in[i]) : 0;
        if (from_parts) {
            take_parts(&r, own);
        }
        r.push.result = in_parts && !from_parts ? own : sum;
        status = launch(call, &r, from_parts, in_parts && !from_parts, further);
        further = true;
    }
    return status;
}

weft_status weft__vulkan_sum_squares(const weft_call *call)
{
    weft_status status = squares_pass(call, false);
    if (status == WEFT_OK) {
        status = squares_pass(call, true);
    }
    const struct {
        uint64_t values, result;
        uint32_t count, unused;
    } push = {.values = weft__vulkan_workspace(call),
              .result = weft__vulkan_address(&call->out[0]),
              .count = (uint32_t)call->n_inputs};
    const weft__vulkan_launch add = {
        .shader = &weft__shader_add_values, .push = &push, .push_bytes = sizeof push, .groups = 1};
    return status == WEFT_OK ? weft__vulkan_dispatch(call, &add) : status;
}
