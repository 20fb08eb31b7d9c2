/* nn/layers/pool.c -- max and average pooling over one to three axes. */
#include <stdio.h>

#include "nn/module.h"
#include "weft/layers.h"

static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_pool *m = (const weft_nn_pool *)self;
    if (weft_ok(x) && weft_ndim(x) != m->spatial + 2)
        return weft_error_array("%s%dd: expected %d axes, got %d", self->type->name, m->spatial,
                                m->spatial + 2, weft_ndim(x));
    return m->pool(x, m->window, m->stride, m->padding);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_pool *m = (const weft_nn_pool *)self;
    snprintf(out, size, "%dd window=%lld", m->spatial, (long long)m->window.at[0]);
}

static const weft_module_type max_pool_type = {
    .name = "max_pool",
    .forward = forward,
    .describe = describe,
};

static const weft_module_type avg_pool_type = {
    .name = "avg_pool",
    .forward = forward,
    .describe = describe,
};

static weft_module *pool(const weft_module_type *type, int spatial, weft_dims window,
                         weft_dims stride, weft_dims padding)
{
    if (window.n != 1 && window.n != spatial) {
        weft_fail(WEFT_INVALID, "%s%dd: expected a window of one or %d numbers, got %d", type->name,
                  spatial, spatial, window.n);
        return NULL;
    }
    weft_nn_pool *m = weft_nn_new(weft_nn_pool, type);
    if (m == NULL)
        return NULL;
    m->pool = type == &max_pool_type ? weft_max_pool : weft_avg_pool;
    m->spatial = spatial;
    m->window = window;
    m->stride = stride;
    m->padding = padding;
    return weft_nn_finish(m);
}

weft_module *weft_nn_max_pool1d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&max_pool_type, 1, window, stride, padding);
}

weft_module *weft_nn_max_pool2d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&max_pool_type, 2, window, stride, padding);
}

weft_module *weft_nn_max_pool3d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&max_pool_type, 3, window, stride, padding);
}

weft_module *weft_nn_avg_pool1d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&avg_pool_type, 1, window, stride, padding);
}

weft_module *weft_nn_avg_pool2d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&avg_pool_type, 2, window, stride, padding);
}

weft_module *weft_nn_avg_pool3d_new(weft_dims window, weft_dims stride, weft_dims padding)
{
    return pool(&avg_pool_type, 3, window, stride, padding);
}
