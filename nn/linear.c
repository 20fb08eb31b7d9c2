/* nn/linear.c -- y = x weight^T + bias. */
#include <math.h>
#include <stdio.h>

#include "nn/module.h"

static weft_array *forward(weft_module *self, weft_array *x)
{
    weft_nn_linear *m = (weft_nn_linear *)self;
    weft_array *weight = weft__nn_near(m->weight, x), *bias = weft__nn_near(m->bias, x);
    return m->int8 ? weft_linear_int8(x, weight, bias) : weft_linear(x, weight, bias);
}

const weft_module_type weft_nn_linear_type = {
    .name = "linear",
    .forward = forward,
    .takes_encoded = true,
};

weft_module *weft_nn_linear_new(int64_t in, int64_t out, bool bias)
{
    weft_nn_linear *m = weft_nn_new(weft_nn_linear, &weft_nn_linear_type);
    if (m == NULL)
        return NULL;
    const double bound = in > 0 ? 1.0 / sqrt((double)in) : 0;
    weft_nn_param(m, weight,
                  weft_random_uniform(NULL, WEFT_DIMS(out, in), -bound, bound, WEFT_FLOAT32));
    if (bias)
        weft_nn_param(m, bias,
                      weft_random_uniform(NULL, WEFT_DIMS(out), -bound, bound, WEFT_FLOAT32));
    return weft_nn_finish(m);
}
