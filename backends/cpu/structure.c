/* backends/cpu/structure.c -- structural ops that copy elements. */
#include "backends/cpu/structure.h"

#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/move.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

static int64_t element_size(const weft_tensor *t)
{
    return (int64_t)weft_dtype_size(t->dtype);
}

bool weft__cpu_is_narrow(const weft_call *call)
{
    return weft__cpu_narrow(call->in[0].dtype);
}

const float *weft__cpu_floats(weft_dtype dtype, const void *row, int64_t first, int64_t n,
                              float *room)
{
    const char *at = (const char *)row + first * (int64_t)weft_dtype_size(dtype);
    if (dtype == WEFT_FLOAT32) {
        return (const float *)(const void *)at;
    }
    weft__cpu_kernels()->decode(dtype, at, room, n);
    return room;
}

void weft__cpu_store(weft_dtype dtype, const float *from, void *row, int64_t first, int64_t n)
{
    char *at = (char *)row + first * (int64_t)weft_dtype_size(dtype);
    if ((const void *)at != (const void *)from) {
        weft__cpu_kernels()->encode(dtype, from, at, n);
    }
}

weft_status weft__cpu_full(const weft_call *call)
{
    const weft_full_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    weft_complex64 value; /* the widest element */
    weft_tensor one = {.dtype = out->dtype, .data = &value};
    if (weft_dtype_is_integer(out->dtype)) {
        weft_tensor_set_int(&one, 0, p->integer);
    } else {
        weft_tensor_set(&one, 0, p->value);
    }
    weft__cpu_repeat(out->data, weft_tensor_size(out), element_size(out), &value);
    return WEFT_OK;
}

/* Copies a strided input in row-major order. */
weft_status weft__cpu_reshape(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    int64_t strides[WEFT_MAX_DIMS], stride = 1;
    for (int d = in->shape.n - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= in->shape.at[d];
    }
    weft__cpu_move(&in->shape, element_size(in), in->data, in->strides, call->out[0].data, strides);
    return WEFT_OK;
}

weft_status weft__cpu_slice_grad(const weft_call *call)
{
    const weft_slice_grad_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, steps[WEFT_MAX_DIMS];
    uint64_t zero = 0;
    weft__cpu_repeat(out->data, weft_tensor_size(out), element_size(out), &zero);
    for (int d = 0; d < out->shape.n; d++) {
        steps[d] = 1;
    }
    for (int i = 0; i < p->slice.axes.n; i++) {
        int64_t axis = p->slice.axes.at[i] + out->shape.n;
        first[axis] = p->slice.starts.at[i];
        steps[axis] = p->slice.steps.at[i];
    }
    weft__cpu_put(&call->in[0], out, first, steps);
    return WEFT_OK;
}

/* The start of the window, clipped so that it fits. */
static void window_start(const weft_call *call, const weft_tensor *start, int64_t *first)
{
    const weft_slice_params *p = call->params;
    const weft_dims *shape = &call->in[0].shape;
    memset(first, 0, WEFT_MAX_DIMS * sizeof *first);
    for (int i = 0; i < p->axes.n; i++) {
        int64_t axis = p->axes.at[i] + shape->n, room = shape->at[axis] - p->sizes.at[i];
        int64_t wish = weft_tensor_get_int(start, i);
        first[axis] = wish < 0 ? 0 : wish > room ? room : wish;
    }
}

weft_status weft__cpu_dynamic_slice(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS], shift = 0;
    window_start(call, &call->in[1], first);
    for (int d = 0; d < x->shape.n; d++) {
        shift += first[d] * x->strides[d];
    }
    weft__cpu_move(&out->shape, element_size(x), (const char *)x->data + shift * element_size(x),
                   x->strides, out->data, out->strides);
    return WEFT_OK;
}

/* If the output shares x's memory, only the window is written. */
weft_status weft__cpu_slice_update(const weft_call *call)
{
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS];
    if (x->data != out->data) {
        weft__cpu_move(&x->shape, element_size(x), x->data, x->strides, out->data, out->strides);
    }
    window_start(call, &call->in[2], first);
    weft__cpu_put(&call->in[1], out, first, NULL);
    return WEFT_OK;
}

/* Works in place like slice_update. */
weft_status weft__cpu_slice_set(const weft_call *call)
{
    const weft_slice_params *p = call->params;
    const weft_tensor *x = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, steps[WEFT_MAX_DIMS];
    if (x->data != out->data) {
        weft__cpu_move(&x->shape, element_size(x), x->data, x->strides, out->data, out->strides);
    }
    for (int d = 0; d < out->shape.n; d++) {
        steps[d] = 1;
    }
    for (int i = 0; i < p->axes.n; i++) {
        int64_t axis = p->axes.at[i] + out->shape.n;
        first[axis] = p->starts.at[i];
        steps[axis] = p->steps.at[i];
    }
    weft__cpu_put(&call->in[1], out, first, steps);
    return WEFT_OK;
}

weft_status weft__cpu_concatenate(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0}, axis = p->axis + out->shape.n;
    for (int k = 0; k < call->n_inputs; k++) {
        weft__cpu_put(&call->in[k], out, first, NULL);
        first[axis] += call->in[k].shape.at[axis];
    }
    return WEFT_OK;
}

/* Each padded axis has two strips of the value, which span all later axes and the input's part of
 * earlier ones, so that every element is written once. */
weft_status weft__cpu_pad(const weft_call *call)
{
    const weft_pad_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t first[WEFT_MAX_DIMS] = {0};
    weft_complex64 value = {0, 0};
    weft_tensor strip = {.dtype = out->dtype, .data = &value};
    weft_tensor_set(&strip, 0, p->value);
    strip.shape = out->shape;
    for (int i = 0; i < p->axes.n; i++) {
        int64_t d = p->axes.at[i] + out->shape.n;
        strip.shape.at[d] = p->before.at[i];
        first[d] = 0;
        weft__cpu_put(&strip, out, first, NULL);
        strip.shape.at[d] = p->after.at[i];
        first[d] = p->before.at[i] + in->shape.at[d];
        weft__cpu_put(&strip, out, first, NULL);
        strip.shape.at[d] = in->shape.at[d];
        first[d] = p->before.at[i];
    }
    weft__cpu_put(in, out, first, NULL);
    return WEFT_OK;
}
