/* backends/vulkan/kernels/conv.c -- convolutions by tiles. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { AXES = 3, TILE = 64 };

/* ---- conv ----------------------------------------------------------------------------------- */

/* Layout as in conv.comp. */
typedef struct conv_sizes {
    int32_t in[AXES], out[AXES], kernel[AXES], stride[AXES], low[AXES];
    int32_t kernel_dilation[AXES], input_dilation[AXES];
    int32_t C, O, channels, outputs;
    int32_t rows, taps, flip;
} conv_sizes;

/* Missing leading axes get size 1. */
static conv_sizes sizes_of(const weft_call *call)
{
    const weft_conv_params *p = call->params;
    const weft_dims *x = &call->in[0].shape, *w = &call->in[1].shape, *y = &call->out[0].shape;
    int axes = x->n - 2;
    conv_sizes s = {.C = (int32_t)x->at[axes + 1],
                    .O = (int32_t)y->at[axes + 1],
                    .channels = (int32_t)w->at[axes + 1],
                    .outputs = (int32_t)(y->at[axes + 1] / p->groups),
                    .rows = (int32_t)y->at[0],
                    .taps = 1,
                    .flip = p->flip};
    for (int i = 0; i < AXES; i++) {
        int axis = i - AXES + axes;
        bool there = axis >= 0;
        s.in[i] = there ? (int32_t)x->at[axis + 1] : 1;
        s.out[i] = there ? (int32_t)y->at[axis + 1] : 1;
        s.kernel[i] = there ? (int32_t)w->at[axis + 1] : 1;
        s.stride[i] = there ? (int32_t)p->stride.at[axis] : 1;
        s.low[i] = there ? (int32_t)p->pad_low.at[axis] : 0;
        s.kernel_dilation[i] = there ? (int32_t)p->kernel_dilation.at[axis] : 1;
        s.input_dilation[i] = there ? (int32_t)p->input_dilation.at[axis] : 1;
        s.rows *= s.out[i];
        s.taps *= s.kernel[i];
    }
    return s;
}

/* Positions must fit an int, including those in the dilated x. */
static bool conv_fits(const weft_call *call)
{
    const weft_conv_params *p = call->params;
    const weft_dims *x = &call->in[0].shape, *w = &call->in[1].shape;
    if (!weft__vulkan_fits(call)) {
        return false;
    }
    for (int axis = 0; axis < x->n - 2; axis++) {
        int64_t low = p->pad_low.at[axis] < 0 ? -p->pad_low.at[axis] : p->pad_low.at[axis];
        int64_t high = p->pad_high.at[axis] < 0 ? 0 : p->pad_high.at[axis];
        int64_t span = w->at[axis + 1] * p->kernel_dilation.at[axis];
        if (x->at[axis + 1] * p->input_dilation.at[axis] + low + high + span > INT32_MAX / 2) {
            return false;
        }
    }
    return true;
}

static weft_status conv(const weft_call *call)
{
    const weft_conv_params *p = call->params;
    if (weft_tensor_size(&call->out[0]) == 0) {
        return WEFT_OK;
    }
    conv_sizes sizes = sizes_of(call);
    struct conv_push {
        uint64_t x, weight, y, sizes;
        uint32_t row_tiles, column_tiles, first_group;
    } push = {.x = weft__vulkan_address_or_0(&call->in[0]),
              .weight = weft__vulkan_address_or_0(&call->in[1]),
              .y = weft__vulkan_address(&call->out[0]),
              .sizes = weft__vulkan_record(call, &sizes, sizeof sizes),
              .row_tiles = (uint32_t)weft__vulkan_groups((uint64_t)sizes.rows, TILE),
              .column_tiles = (uint32_t)weft__vulkan_groups((uint64_t)sizes.outputs, TILE)};
    if (push.sizes == 0) {
        return WEFT_MEMORY;
    }
    bool wide = weft__vulkan_is_wide(call);
    weft_dtype dtype = call->out[0].dtype;
    weft__vulkan_launch launch = {
        .shader = wide ? &weft__shader_conv_f64 : &weft__shader_conv,
        .n_constants = 1,
        .constants = {(uint32_t)dtype},
        .push = &push,
        .push_bytes = sizeof push,
        .first_at = offsetof(struct conv_push, first_group),
        .groups = (uint64_t)push.row_tiles * push.column_tiles * (uint64_t)p->groups,
        .work = 2.0 * (double)weft_tensor_size(&call->out[0]) *
                (double)weft_tensor_size(&call->in[1]) / (double)call->in[1].shape.at[0]};
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- The rows ------------------------------------------------------------------------------- */

static const weft_kernel_row rows[] = {
    {.op = "conv", .signature = "F", .fits = conv_fits, .kernel = conv},
};

const weft__vulkan_family weft__vulkan_convolutions = {rows, sizeof rows / sizeof *rows};
