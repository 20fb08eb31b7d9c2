/* core/eval/step.c -- the steps of a plan: their memory and tensors. */
#include <string.h>

#include "core/builtin.h"
#include "core/eval/plan.h"
#include "core/shape.h"

void weft__place_tensor(weft_tensor *t, const weft__view *view)
{
    t->buffer = view->buffer->handle;
    t->offset = view->offset;
    t->data = view->buffer->host ? (char *)view->buffer->host + view->offset : NULL;
}

void weft__fill_tensor(weft_tensor *t, const weft_spec *spec, const weft__view *view)
{
    t->dtype = spec->dtype;
    t->encoding = spec->encoding;
    t->shape = spec->shape;
    if (view) {
        memcpy(t->strides, view->strides, sizeof t->strides);
        weft__place_tensor(t, view);
    } else {
        memset(t->strides, 0, sizeof t->strides);
        weft__strides_contiguous(&spec->shape, t->strides);
        t->data = t->buffer = NULL;
        t->offset = 0;
    }
}

int64_t weft__spec_bytes(const weft_spec *spec)
{
    int64_t size = weft__shape_size(&spec->shape);
    if (spec->encoding) {
        return weft_encoding_bytes(spec->encoding, size);
    }
    return size * (int64_t)weft_dtype_size(spec->dtype);
}

/* A step in one allocation: parameters, the step, tensors, buffers. */
weft__step *weft__step_new(weft__plan *plan, int n_inputs, int n_outputs, size_t params_size,
                           weft_tensor **in, weft_tensor **out)
{
    const size_t n = (size_t)n_inputs + (size_t)n_outputs;
    const size_t step_at = (params_size + 15) / 16 * 16, in_at = step_at + sizeof(weft__step),
                 buffers_at = in_at + n * sizeof **in;
    char *memory = weft__plan_alloc(plan, buffers_at + n * sizeof(weft__buffer *));
    if (!memory) {
        return NULL;
    }
    weft__step *step = (weft__step *)(void *)(memory + step_at);
    *in = (weft_tensor *)(void *)(memory + in_at);
    *out = *in + n_inputs;
    /* Set field by field, since clearing the struct takes longer. */
    step->next = NULL;
    step->kind = WEFT__STEP_KERNEL;
    step->device = NULL;
    step->kernel = NULL;
    step->checks_first = false;
    step->tape = NULL;
    step->call.op = NULL;
    step->call.params = memory;
    step->call.n_inputs = n_inputs;
    step->call.n_outputs = n_outputs;
    step->call.in = *in;
    step->call.out = *out;
    step->call.workspace = step->call.workspace_buffer = NULL;
    step->call.device = NULL;
    step->call.formula = NULL;
    step->call.epilogue = NULL;
    step->call.prologue = NULL;
    step->buffers = (weft__buffer **)(void *)(memory + buffers_at);
    step->workspace = NULL;
    step->path = NULL;
    return step;
}

void weft__push_step(weft__plan *plan, weft__step *step)
{
    if (plan->last) {
        plan->last->next = step;
    } else {
        plan->first = step;
    }
    plan->last = step;
}

static bool takes_copy(const weft_backend *backend, const weft_call *call)
{
    return backend->copy && (!backend->copy_fits || backend->copy_fits(call));
}

bool weft__step_copies(weft__step *step, weft_device *device, const weft_tensor *from,
                       const weft_tensor *to, weft__buffer **buffers)
{
    *step = (weft__step){.device = device, .buffers = buffers};
    step->call = (weft_call){.op = weft__builtins.copy,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .in = from,
                             .out = to,
                             .device = device};
    const bool own = takes_copy(device->backend, &step->call);
    step->kind = own ? WEFT__STEP_KERNEL : WEFT__STEP_REFERENCE;
    step->kernel = own ? device->backend->copy : weft__reference_copy;
    return own;
}
