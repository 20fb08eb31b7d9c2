/* backends/vulkan/kernels/structure.c -- structural ops that copy elements, and fills. */
#include "backends/vulkan/kernels/structure.h"

#include <string.h>

#include "backends/vulkan/kernels/move.h"
#include "weft/op_params.h"

static int64_t element_size(const weft_tensor *t)
{
    return (int64_t)weft_dtype_size(t->dtype);
}

/* The bits of a value in the output's dtype. */
static uint64_t element_bits(weft_dtype dtype, double value, int64_t integer, bool whole)
{
    uint64_t bits = 0;
    weft_tensor one = {.dtype = dtype, .data = &bits};
    if (whole) {
        weft_tensor_set_int(&one, 0, integer);
    } else {
        weft_tensor_set(&one, 0, value);
    }
    return bits;
}

/* A move to the part of `out` of that shape, from `first` on (NULL: its start). */
static weft__vulkan_move_args part_of(const weft_tensor *out, const weft_dims *shape,
                                      const int64_t *first, const int64_t *steps)
{
    weft__vulkan_move_args args = {
        .shape = *shape, .size = element_size(out), .to = weft__vulkan_address(out)};
    for (int d = 0; d < shape->n; d++) {
        args.to += (uint64_t)((first ? first[d] : 0) * out->strides[d] * args.size);
        args.to_strides[d] = out->strides[d] * (steps ? steps[d] : 1);
    }
    return args;
}

static void read_from(weft__vulkan_move_args *args, const weft_tensor *from)
{
    args->from = weft__vulkan_address(from);
    memcpy(args->from_strides, from->strides, sizeof args->from_strides);
}

static weft_status fill(const weft_call *call, uint64_t value)
{
    const weft_tensor *out = &call->out[0];
    weft__vulkan_move_args args = part_of(out, &out->shape, NULL, NULL);
    args.fill = true;
    args.value = value;
    return weft__vulkan_move(call, &args);
}

weft_status weft__vulkan_full(const weft_call *call)
{
    const weft_full_params *p = call->params;
    weft_dtype dtype = call->out[0].dtype;
    return fill(call, element_bits(dtype, p->value, p->integer, weft_dtype_is_integer(dtype)));
}

weft_status weft__vulkan_slice_grad(const weft_call *call)
{
    const weft_slice_params *p = &((const weft_slice_grad_params *)call->params)->slice;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, steps[WEFT_MAX_DIMS];
    weft_status status = fill(call, 0);
    if (status != WEFT_OK || weft_tensor_size(in) == 0) {
        return status;
    }
    for (int d = 0; d < out->shape.n; d++) {
        steps[d] = 1;
    }
    for (int i = 0; i < p->axes.n; i++) {
        first[p->axes.at[i] + out->shape.n] = p->starts.at[i];
        steps[p->axes.at[i] + out->shape.n] = p->steps.at[i];
    }
    weft__vulkan_move_args args = part_of(out, &in->shape, first, steps);
    read_from(&args, in);
    return weft__vulkan_move(call, &args);
}

weft_status weft__vulkan_dynamic_slice(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    weft__vulkan_window window = {.params = call->params, .start = &call->in[1], .whole = x};
    weft__vulkan_move_args args = part_of(out, &out->shape, NULL, NULL);
    read_from(&args, x);
    args.window = &window;
    return weft__vulkan_move(call, &args);
}

/* If the output shares x's memory, only the window is written. */
weft_status weft__vulkan_slice_update(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *update = &call->in[1], *out = &call->out[0];
    weft_status status = WEFT_OK;
    if (weft__vulkan_address(x) != weft__vulkan_address(out)) {
        status = weft__vulkan_move_all(call);
    }
    if (status != WEFT_OK || weft_tensor_size(update) == 0) {
        return status;
    }
    weft__vulkan_window window = {
        .params = call->params, .start = &call->in[2], .whole = out, .put = true};
    weft__vulkan_move_args args = part_of(out, &update->shape, NULL, NULL);
    read_from(&args, update);
    args.window = &window;
    return weft__vulkan_move(call, &args);
}

/* Works in place like slice_update. */
weft_status weft__vulkan_slice_set(const weft_call *call)
{
    const weft_slice_params *p = call->params;
    const weft_tensor *x = &call->in[0], *update = &call->in[1], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, steps[WEFT_MAX_DIMS];
    weft_status status = WEFT_OK;
    if (weft__vulkan_address(x) != weft__vulkan_address(out)) {
        status = weft__vulkan_move_all(call);
    }
    if (status != WEFT_OK || weft_tensor_size(update) == 0) {
        return status;
    }
    for (int d = 0; d < out->shape.n; d++) {
        steps[d] = 1;
    }
    for (int i = 0; i < p->axes.n; i++) {
        first[p->axes.at[i] + out->shape.n] = p->starts.at[i];
        steps[p->axes.at[i] + out->shape.n] = p->steps.at[i];
    }
    weft__vulkan_move_args args = part_of(out, &update->shape, first, steps);
    read_from(&args, update);
    return weft__vulkan_move(call, &args);
}

weft_status weft__vulkan_concatenate(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, axis = p->axis + out->shape.n;
    bool independent = false; /* independent of each other, but not of what produced the inputs, for
                               * which the first piece waits */
    weft_status status = WEFT_OK;
    for (int k = 0; k < call->n_inputs && status == WEFT_OK; k++) {
        const weft_tensor *in = &call->in[k];
        if (weft_tensor_size(in) == 0) {
            continue;
        }
        weft__vulkan_move_args args = part_of(out, &in->shape, first, NULL);
        read_from(&args, in);
        args.independent = independent;
        status = weft__vulkan_move(call, &args);
        independent = true;
        first[axis] += in->shape.at[axis];
    }
    return status;
}

static weft_status pad_strip(const weft_call *call, const weft_dims *shape, const int64_t *first,
                             bool independent)
{
    const weft_pad_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    weft__vulkan_move_args args = part_of(out, shape, first, NULL);
    args.fill = true;
    args.value = element_bits(out->dtype, p->value, 0, false);
    args.independent = independent;
    return weft__vulkan_move(call, &args);
}

/* Each padded axis has two strips of the value, which span all later axes and the input's part of
 * earlier ones, so that every element is written once. */
weft_status weft__vulkan_pad(const weft_call *call)
{
    const weft_pad_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    weft_dims shape = out->shape;
    int64_t first[WEFT_MAX_DIMS] = {0};
    bool independent = false; /* the first piece waits, later ones are independent */
    weft_status status = WEFT_OK;
    for (int i = 0; i < p->axes.n && status == WEFT_OK; i++) {
        int64_t d = p->axes.at[i] + out->shape.n;
        for (int end = 0; end < 2 && status == WEFT_OK; end++) {
            shape.at[d] = end ? p->after.at[i] : p->before.at[i];
            first[d] = end ? p->before.at[i] + in->shape.at[d] : 0;
            if (shape.at[d] > 0) {
                status = pad_strip(call, &shape, first, independent);
                independent = true;
            }
        }
        shape.at[d] = in->shape.at[d];
        first[d] = p->before.at[i];
    }
    if (status == WEFT_OK && weft_tensor_size(in) > 0) {
        weft__vulkan_move_args args = part_of(out, &in->shape, first, NULL);
        read_from(&args, in);
        args.independent = independent;
        status = weft__vulkan_move(call, &args);
    }
    return status;
}
