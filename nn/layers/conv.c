/* nn/layers/conv.c -- convolutions and transposed convolutions of one to three axes. */
#include <math.h>
#include <stdio.h>

#include "nn/module.h"
#include "weft/layers.h"

/* The number for an axis. The list has one number for all axes, or is empty and `otherwise` is
 * used. */
static int64_t number(weft_dims list, int64_t otherwise)
{
    return list.n > 0 ? list.at[0] : otherwise;
}

static weft_array *transposed(const weft_nn_conv *m, weft_array *x)
{
    const weft_nn_conv_options *o = &m->options;
    if (m->spatial == 1)
        return weft_conv_transpose1d(x, m->weight, number(o->stride, 1), number(o->padding, 0),
                                     number(o->dilation, 1), number(o->output_padding, 0),
                                     o->groups);
    return (m->spatial == 2 ? weft_conv_transpose2d : weft_conv_transpose3d)(
        x, m->weight, o->stride, o->padding, o->dilation, o->output_padding, o->groups);
}

static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_conv *m = (const weft_nn_conv *)self;
    const weft_nn_conv_options *o = &m->options;
    const weft_conv_options plain = {.stride = o->stride,
                                     .pad_low = o->padding,
                                     .pad_high = o->padding,
                                     .kernel_dilation = o->dilation,
                                     .groups = o->groups};
    weft_array *y = m->transposed ? transposed(m, x) : weft_conv_general(x, m->weight, &plain);
    return m->bias ? weft_add(y, m->bias) : y;
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_conv *m = (const weft_nn_conv *)self;
    snprintf(out, size, "%dd stride=%lld padding=%lld groups=%lld", m->spatial,
             (long long)number(m->options.stride, 1), (long long)number(m->options.padding, 0),
             (long long)m->options.groups);
}

static const weft_module_type conv_type = {
    .name = "conv",
    .forward = forward,
    .describe = describe,
};

static const weft_module_type conv_transpose_type = {
    .name = "conv_transpose",
    .forward = forward,
    .describe = describe,
};

static weft_module *conv(int spatial, bool transpose, int64_t in, int64_t out, weft_dims kernel,
                         const weft_nn_conv_options *options)
{
    weft_nn_conv_options o = options ? *options : (weft_nn_conv_options){0};
    o.groups = o.groups ? o.groups : 1;
    if (o.groups < 1 || in % o.groups != 0 || out % o.groups != 0 ||
        (kernel.n != spatial && kernel.n != 1)) {
        weft_fail(WEFT_INVALID,
                  "conv%dd: no kernel of %d axes for %lld channels to %lld in %lld groups", spatial,
                  kernel.n, (long long)in, (long long)out, (long long)o.groups);
        return NULL;
    }
    weft_nn_conv *m = weft_nn_new(weft_nn_conv, transpose ? &conv_transpose_type : &conv_type);
    if (m == NULL)
        return NULL;
    weft_dims shape = {.n = spatial + 2};
    double fan = (double)(in / o.groups);
    shape.at[0] = out;
    shape.at[spatial + 1] = in / o.groups;
    for (int i = 0; i < spatial; i++) {
        shape.at[i + 1] = kernel.at[kernel.n == 1 ? 0 : i];
        fan *= (double)shape.at[i + 1];
    }
    m->options = o;
    m->spatial = spatial;
    m->transposed = transpose;
    const double bound = fan > 0 ? 1 / sqrt(fan) : 0;
    weft_nn_param(m, weight, weft_random_uniform(NULL, shape, -bound, bound, WEFT_FLOAT32));
    if (!o.no_bias)
        weft_nn_param(m, bias, weft_zeros(WEFT_DIMS(out), WEFT_FLOAT32));
    return weft_nn_finish(m);
}

weft_module *weft_nn_conv1d_new(int64_t in, int64_t out, weft_dims kernel,
                                const weft_nn_conv_options *options)
{
    return conv(1, false, in, out, kernel, options);
}

weft_module *weft_nn_conv2d_new(int64_t in, int64_t out, weft_dims kernel,
                                const weft_nn_conv_options *options)
{
    return conv(2, false, in, out, kernel, options);
}

weft_module *weft_nn_conv3d_new(int64_t in, int64_t out, weft_dims kernel,
                                const weft_nn_conv_options *options)
{
    return conv(3, false, in, out, kernel, options);
}

weft_module *weft_nn_conv_transpose1d_new(int64_t in, int64_t out, weft_dims kernel,
                                          const weft_nn_conv_options *options)
{
    return conv(1, true, in, out, kernel, options);
}

weft_module *weft_nn_conv_transpose2d_new(int64_t in, int64_t out, weft_dims kernel,
                                          const weft_nn_conv_options *options)
{
    return conv(2, true, in, out, kernel, options);
}

weft_module *weft_nn_conv_transpose3d_new(int64_t in, int64_t out, weft_dims kernel,
                                          const weft_nn_conv_options *options)
{
    return conv(3, true, in, out, kernel, options);
}
