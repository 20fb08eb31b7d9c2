/* nn/layers/batch_norm.c -- batch normalization of channels (Ioffe & Szegedy 2015). */
#include <stdio.h>

#include "core/options.h"
#include "nn/layers/norms.h"

/* running <- (1 - momentum) running + momentum now */
static bool move_towards(weft_array **running, weft_array *now, double momentum)
{
    weft_array *y = weft_add(weft_scale(*running, 1 - momentum),
                             weft_scale(weft_astype(now, weft_dtype_of(*running)), momentum));
    return weft_set(running, weft_stop_gradient(y)) == WEFT_OK;
}

/* Normalizes by the statistics of the batch over all axes but the last. */
static weft_array *normalized(weft_nn_batch_norm *m, weft_array *x)
{
    weft_dims axes = {.n = weft_ndim(x) - 1};
    for (int i = 0; i < axes.n; i++)
        axes.at[i] = i;
    const int64_t n = weft_dim(x, -1) > 0 ? weft_size(x) / weft_dim(x, -1) : 0;
    if (m->module.training && n < 2)
        return weft_error_array("batch_norm: training needs more than one value of each channel");
    weft_array *mean = weft_mean(x, axes, false), *var = weft_var(x, axes, false, 0);
    if (m->module.training && m->running_mean) {
        weft_array *unbiased = weft_scale(var, (double)n / (double)(n - 1));
        if (!move_towards(&m->running_mean, mean, m->momentum) ||
            !move_towards(&m->running_var, unbiased, m->momentum))
            return weft_error_array("batch_norm: %s", weft_error_message());
    }
    return weft_multiply(weft_subtract(x, mean), weft_rsqrt(weft_add_scalar(var, m->eps)));
}

static weft_array *forward(weft_module *self, weft_array *x)
{
    weft_nn_batch_norm *m = (weft_nn_batch_norm *)self;
    if (!weft_ok(x))
        return x;
    if (weft_ndim(x) < 2)
        return weft_error_array("batch_norm: expected (N, ..., C), got %d axes", weft_ndim(x));
    weft_array *y;
    if (self->training || m->running_mean == NULL)
        y = normalized(m, x);
    else
        y = weft_multiply(weft_subtract(x, m->running_mean),
                          weft_rsqrt(weft_add_scalar(m->running_var, m->eps)));
    return weft__nn_affine(y, m->weight, m->bias);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_batch_norm *m = (const weft_nn_batch_norm *)self;
    snprintf(out, size, "eps=%g momentum=%g", m->eps, m->momentum);
}

static const weft_module_type type = {
    .name = "batch_norm",
    .forward = forward,
    .describe = describe,
};

weft_module *weft_nn_batch_norm_new(int64_t C, const weft_nn_batch_norm_options *options)
{
    static const weft_nn_batch_norm_options defaults = {0};
    const weft_nn_batch_norm_options *o = options ? options : &defaults;
    weft_nn_batch_norm *m = weft_nn_new(weft_nn_batch_norm, &type);
    if (m == NULL)
        return NULL;
    m->eps = weft__or_default(o->eps, 1e-5);
    m->momentum = weft__or_default(o->momentum, 0.1);
    if (!o->no_affine) {
        weft_nn_param(m, weight, weft_ones(WEFT_DIMS(C), WEFT_FLOAT32));
        weft_nn_param(m, bias, weft_zeros(WEFT_DIMS(C), WEFT_FLOAT32));
    }
    if (!o->no_statistics) {
        weft_nn_statistic(m, running_mean, weft_zeros(WEFT_DIMS(C), WEFT_FLOAT32));
        weft_nn_statistic(m, running_var, weft_ones(WEFT_DIMS(C), WEFT_FLOAT32));
    }
    return weft_nn_finish(m);
}
