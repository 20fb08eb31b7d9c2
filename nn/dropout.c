/* nn/dropout.c -- dropout: zeroes random elements while training. */
#include <stdio.h>

#include "nn/module.h"

weft_module *weft__nn_root(weft_module *m)
{
    while (m->parent)
        m = m->parent;
    return m;
}

static int64_t count_vectors(weft_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < shape.n; i++)
        n *= shape.at[i];
    return n;
}

/* Draws which elements of an array are kept. Each row of a batch, or each vector, has its own key
 * if the root has them. */
static weft_array *draw(const weft_module *root, weft_dims shape, double p, weft_device *device)
{
    weft_array *vectors = root->vector_keys, *rows = root->row_keys;
    if (vectors && shape.n > 1 && count_vectors(shape) == weft_dim(vectors, 0)) {
        const weft_dims vector = WEFT_DIMS(shape.at[shape.n - 1]);
        return weft_reshape(weft_random_bernoulli(weft_to(vectors, device), vector, p), shape);
    }
    if (rows == NULL || shape.n < 2 || shape.at[0] != weft_dim(rows, 0))
        return weft_random_bernoulli(NULL, shape, p);
    weft_dims row = {.n = shape.n - 1};
    for (int i = 0; i < row.n; i++)
        row.at[i] = shape.at[i + 1];
    weft_array *key = weft_to(weft_random_next_key(), device);
    return weft_random_bernoulli(weft_add(key, weft_to(rows, device)), row, p);
}

/* Applies dropout. Axes that share a draw have length 1 in the mask. */
static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_dropout *m = (const weft_nn_dropout *)self;
    if (!self->training || m->p == 0 || !weft_ok(x))
        return x;
    weft_dims shape = weft_shape(x);
    if (m->spatial && shape.n != m->spatial + 1 && shape.n != m->spatial + 2)
        return weft_error_array("dropout%dd: expected %d or %d axes, got %d", m->spatial,
                                m->spatial + 1, m->spatial + 2, shape.n);
    for (int i = 0; i < m->spatial; i++)
        shape.at[shape.n - 2 - i] = 1;
    weft_array *kept = draw(weft__nn_root(self), shape, 1 - m->p, weft_device_of(x));
    return weft_where(kept, weft_scale(x, 1 / (1 - m->p)), weft_scalar(0, weft_dtype_of(x)));
}

static void describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "p=%g", ((const weft_nn_dropout *)self)->p);
}

static const weft_module_type type = {
    .name = "dropout",
    .forward = forward,
    .describe = describe,
};

static weft_module *dropout(double p, int spatial)
{
    if (!(p >= 0 && p < 1)) {
        weft_fail(WEFT_INVALID, "dropout: expected a probability in [0, 1), got %g", p);
        return NULL;
    }
    weft_nn_dropout *m = weft_nn_new(weft_nn_dropout, &type);
    if (m == NULL)
        return NULL;
    m->p = p;
    m->spatial = spatial;
    return weft_nn_finish(m);
}

weft_module *weft_nn_dropout_new(double p)
{
    return dropout(p, 0);
}

weft_module *weft_nn_dropout2d_new(double p)
{
    return dropout(p, 2);
}

weft_module *weft_nn_dropout3d_new(double p)
{
    return dropout(p, 3);
}
