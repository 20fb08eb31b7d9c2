/* nn/dropout.c -- zeroing elements at random while training. */
#include <stdio.h>

#include "nn/module.h"

static weft_array *forward(weft_module *self, weft_array *x)
{
    const double p = ((weft_nn_dropout *)self)->p;
    if (!self->training || p == 0)
        return x;
    weft_array *kept = weft_random_bernoulli(NULL, weft_shape(x), 1 - p);
    return weft_where(kept, weft_scale(x, 1 / (1 - p)), weft_scalar(0, weft_dtype_of(x)));
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

weft_module *weft_nn_dropout_new(double p)
{
    if (!(p >= 0 && p < 1)) {
        weft_fail(WEFT_INVALID, "dropout: expected a probability in [0, 1), got %g", p);
        return NULL;
    }
    weft_nn_dropout *m = weft_nn_new(weft_nn_dropout, &type);
    if (m == NULL)
        return NULL;
    m->p = p;
    return weft_nn_finish(m);
}
