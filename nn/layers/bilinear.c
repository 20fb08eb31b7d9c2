/* nn/layers/bilinear.c -- a layer that is linear in each of two inputs. */
#include <math.h>

#include "nn/module.h"
#include "weft/layers.h"

static const weft_module_type type = {.name = "bilinear"};

weft_module *weft_nn_bilinear_new(int64_t in1, int64_t in2, int64_t out, bool bias)
{
    weft_nn_bilinear *m = weft_nn_new(weft_nn_bilinear, &type);
    if (m == NULL)
        return NULL;
    const double bound = in1 > 0 ? 1.0 / sqrt((double)in1) : 0;
    weft_nn_param(m, weight,
                  weft_random_uniform(NULL, WEFT_DIMS(out, in2, in1), -bound, bound, WEFT_FLOAT32));
    if (bias)
        weft_nn_param(m, bias,
                      weft_random_uniform(NULL, WEFT_DIMS(out), -bound, bound, WEFT_FLOAT32));
    return weft_nn_finish(m);
}

weft_array *weft_nn_bilinear_call(weft_module *module, weft_array *a, weft_array *b)
{
    weft_nn_bilinear *m = (weft_nn_bilinear *)module;
    weft_nn_enter(m);
    const int64_t out = weft_dim(m->weight, 0), in2 = weft_dim(m->weight, 1);
    weft_array *rows = weft_reshape(m->weight, WEFT_DIMS(out * in2, weft_dim(m->weight, 2)));
    weft_array *y = weft_unflatten(weft_linear(a, rows, NULL), -1, WEFT_DIMS(out, in2));
    y = weft_squeeze(weft_matmul(y, weft_expand_dims(b, -1)), -1); /* (..., out) */
    return weft_nn_leave(m, m->bias ? weft_add(y, m->bias) : y);
}
