/* models/convolution.c -- a short depthwise causal convolution, whose state is the last inputs. */
#include <math.h>

#include "models/block.h"
#include "models/recurrent.h"

typedef struct convolution {
    weft_module module;
    weft_array *weight; /* (C, 1, taps), or (C, taps, 1) */
    weft_array *bias;   /* (C), or NULL */
} convolution;

static const weft_module_type convolution_type = {.name = "depthwise_conv"};

weft_module *weft__convolution_new(int64_t C, int64_t n, bool bias, bool taps_first)
{
    convolution *m = weft_nn_new(convolution, &convolution_type);
    if (m == NULL)
        return NULL;
    const double bound = 1 / sqrt((double)n);
    const weft_dims shape = taps_first ? WEFT_DIMS(C, n, 1) : WEFT_DIMS(C, 1, n);
    weft_nn_param(m, weight, weft_random_uniform(NULL, shape, -bound, bound, WEFT_FLOAT32));
    if (bias)
        weft_nn_param(m, bias,
                      weft_random_uniform(NULL, WEFT_DIMS(C), -bound, bound, WEFT_FLOAT32));
    return weft_nn_finish(m);
}

/* The element of `part` (B, L, C) `back` tokens before each token, or 0 if that is before `first`.
 */
static weft_array *own_part(weft_array *part, weft_array *first, int64_t back)
{
    if (first == NULL || back == 0)
        return part;
    weft_array *place = weft__positions_in_row(first, weft_dim(part, 1));
    weft_array *there =
        weft_subtract(place, weft_to(weft_scalar_int(back, WEFT_INT32), weft_device_of(first)));
    weft_array *own = weft_expand_dims(weft_greater_equal(there, first), -1); /* (B, L, 1) */
    return weft_where(own, part, weft_scalar(0, weft_dtype_of(part)));
}

weft_array *weft__convolution_forward(weft_module *self, weft_array *x, weft_array *first,
                                      weft_array **before)
{
    convolution *m = (convolution *)self;
    weft_nn_enter(m);
    const int64_t C = weft_dim(x, 2), L = weft_dim(x, 1), n = weft_size(m->weight) / C;
    weft_array *weight = weft_astype(weft_reshape(m->weight, WEFT_DIMS(C, n)), WEFT_FLOAT32);
    weft_array *both[] = {*before, weft_astype(x, WEFT_FLOAT32)};
    weft_array *y = m->bias ? weft_astype(m->bias, WEFT_FLOAT32) : NULL;
    weft_array *all = weft_concatenate(both, 2, 1); /* (B, n - 1 + L, C) */
    for (int64_t i = 0; i < n; i++) {
        weft_array *tap = weft_squeeze(weft_slice_axis(weight, 1, i, i + 1), 1); /* (C) */
        weft_array *part = weft_multiply(weft_slice_axis(all, 1, i, i + L), tap);
        part = own_part(part, first, n - 1 - i);
        y = y ? weft_add(y, part) : part;
    }
    weft_array *results[] = {y, weft_slice_axis(all, 1, L, L + n - 1)};
    weft_nn_leave_n(&m->module, results, 2);
    *before = results[1];
    return results[0];
}
