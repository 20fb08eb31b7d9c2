/* nn/lora.c -- a linear layer with a low-rank adapter (Hu et al. 2021). */
#include "nn/lora.h"

#include <math.h>
#include <stdio.h>

/* y = base(x) + scale (dropout(x) A^T) B^T        x: (..., in) -> (..., out) */
static weft_array *forward(weft_module *self, weft_array *x)
{
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)self;
    weft_array *y = weft_nn_call(m->base, x);
    if (m->merged)
        return y;
    weft_array *z = weft_linear(weft_nn_call(m->lora_dropout, x), m->lora_A, NULL); /* (..., R) */
    return weft_add(y, weft_scale(weft_linear(z, m->lora_B, NULL), m->scale));
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)self;
    snprintf(out, size, "scale=%g%s", m->scale, m->merged ? " merged" : "");
}

const weft_module_type weft_nn_lora_linear_type = {
    .name = "lora_linear",
    .forward = forward,
    .describe = describe,
};

static weft_status check(const weft_module *base, int64_t rank, double dropout, weft_dtype dtype)
{
    if (base == NULL || base->type != &weft_nn_linear_type)
        return weft_fail(WEFT_INVALID, "lora_linear: expected a linear module, got %s",
                         base ? base->type->name : "none");
    if (rank < 1)
        return weft_fail(WEFT_INVALID, "lora_linear: expected a rank of at least 1, got %lld",
                         (long long)rank);
    if (!(dropout >= 0 && dropout < 1))
        return weft_fail(WEFT_INVALID, "lora_linear: expected a dropout in [0, 1), got %g",
                         dropout);
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_BFLOAT16)
        return weft_fail(WEFT_INVALID, "lora_linear: expected float32 or bfloat16, got %s",
                         weft_dtype_name(dtype));
    return WEFT_OK;
}

weft_status weft__lora_new(const weft_module *base, int64_t rank, double scale, double dropout,
                           weft_dtype dtype, weft_nn_lora_linear **out)
{
    *out = NULL;
    if (dtype == 0)
        dtype = WEFT_FLOAT32;
    const weft_status status = check(base, rank, dropout, dtype);
    if (status != WEFT_OK)
        return status;
    weft_array *weight = ((const weft_nn_linear *)base)->weight;
    const int64_t F = weft_dim(weight, 0), E = weft_dim(weight, 1);
    weft_nn_lora_linear *m = weft_nn_new(weft_nn_lora_linear, &weft_nn_lora_linear_type);
    if (m == NULL)
        return WEFT_MEMORY;
    const double bound = E > 0 ? 1.0 / sqrt((double)E) : 0;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(weight));
    m->scale = scale;
    weft_scope_open();
    weft_nn_param(m, lora_A, weft_random_uniform(NULL, WEFT_DIMS(rank, E), -bound, bound, dtype));
    weft_nn_param(m, lora_B, weft_zeros(WEFT_DIMS(F, rank), dtype));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    weft_nn_child(m, lora_dropout, weft_nn_dropout_new(dropout));
    weft__nn_reserve_child(&m->module, "", &m->base);
    if (weft_nn_finish(m) == NULL)
        return WEFT_MEMORY; /* all else was checked */
    m->module.training = m->lora_dropout->training = base->training;
    *out = m;
    return WEFT_OK;
}

void weft__lora_attach(weft_nn_lora_linear *m, weft_module *base)
{
    weft__nn_put_child(&m->module, "", &m->base, base);
}

weft_module *weft_nn_lora_linear_new(weft_module *base, int64_t rank, double scale, double dropout,
                                     weft_dtype dtype)
{
    weft_nn_lora_linear *m;
    if (weft__lora_new(base, rank, scale, dropout, dtype, &m) != WEFT_OK) {
        weft_nn_free(base);
        return NULL;
    }
    weft__lora_attach(m, base);
    return &m->module;
}
