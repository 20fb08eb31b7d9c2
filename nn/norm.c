/* nn/norm.c -- RMSNorm and LayerNorm. */
#include <stdio.h>

#include "nn/module.h"

static weft_array *rms_norm_forward(weft_module *self, weft_array *x)
{
    const weft_nn_rms_norm *m = (const weft_nn_rms_norm *)self;
    return weft_rms_norm(x, m->weight, m->eps, m->offset);
}

static void rms_norm_describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "eps=%g", ((const weft_nn_rms_norm *)self)->eps);
}

static const weft_module_type rms_norm_type = {
    .name = "rms_norm",
    .forward = rms_norm_forward,
    .describe = rms_norm_describe,
};

weft_module *weft_nn_rms_norm_new(int64_t E, double eps)
{
    weft_nn_rms_norm *m = weft_nn_new(weft_nn_rms_norm, &rms_norm_type);
    if (m == NULL)
        return NULL;
    m->eps = eps;
    weft_nn_param(m, weight, weft_ones(WEFT_DIMS(E), WEFT_FLOAT32));
    return weft_nn_finish(m);
}

static weft_array *layer_norm_forward(weft_module *self, weft_array *x)
{
    const weft_nn_layer_norm *m = (const weft_nn_layer_norm *)self;
    return weft_layer_norm(x, m->weight, m->bias, m->eps);
}

static void layer_norm_describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "eps=%g", ((const weft_nn_layer_norm *)self)->eps);
}

static const weft_module_type layer_norm_type = {
    .name = "layer_norm",
    .forward = layer_norm_forward,
    .describe = layer_norm_describe,
};

weft_module *weft_nn_layer_norm_new(int64_t E, double eps, bool bias)
{
    weft_nn_layer_norm *m = weft_nn_new(weft_nn_layer_norm, &layer_norm_type);
    if (m == NULL)
        return NULL;
    m->eps = eps;
    weft_nn_param(m, weight, weft_ones(WEFT_DIMS(E), WEFT_FLOAT32));
    if (bias)
        weft_nn_param(m, bias, weft_zeros(WEFT_DIMS(E), WEFT_FLOAT32));
    return weft_nn_finish(m);
}
