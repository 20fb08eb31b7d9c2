/* core/compile/placeholder.c -- placeholders, which replace the arguments while a function is
 * traced. */
#include <stdio.h>

#include "core/compile/trace.h"

typedef struct placeholder_params {
    weft_dims shape;
    weft_dtype dtype;
    void *encoding;
    int64_t index;
} placeholder_params;

static const weft_field placeholder_fields[] = {
    WEFT_FIELD(DIMS, placeholder_params, shape), WEFT_FIELD(DTYPE, placeholder_params, dtype),
    WEFT_FIELD(POINTER, placeholder_params, encoding), WEFT_FIELD(INT, placeholder_params, index),
    WEFT_FIELDS_END};

static bool infer_placeholder(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    const placeholder_params *p = weft_node_params(node);
    out[0] = (weft_spec){.dtype = p->dtype, .shape = p->shape, .encoding = p->encoding};
    return true;
}

/* A composite op, so that evaluating a placeholder fails when the evaluation is planned. */
static void expand_placeholder(weft_array *node, weft_array **outs)
{
    (void)node;
    outs[0] = weft__failed("a function that is compiled, exported or mapped cannot read elements "
                           "of what it computes from its arguments and its state: they do not "
                           "exist yet");
    weft__recording *r = weft__current_recording;
    if (r) {
        snprintf(r->read, sizeof r->read, "%s", weft_error(outs[0]));
    }
}

static const weft_op op_placeholder = {
    .name = "placeholder",
    .family = WEFT_COMPOSITE,
    .arity = 0,
    .params_size = sizeof(placeholder_params),
    .params_fields = placeholder_fields,
    .infer = infer_placeholder,
    .expand = expand_placeholder,
};

weft_array *weft__placeholder(const weft_spec *spec, weft_device *device, int64_t index)
{
    placeholder_params params = {.shape = spec->shape,
                                 .dtype = spec->dtype,
                                 .encoding = (void *)(uintptr_t)spec->encoding,
                                 .index = index};
    return weft__apply_on(device, &op_placeholder, NULL, 0, &params);
}

bool weft__is_placeholder(const weft_array *a)
{
    return a->op == &op_placeholder;
}
