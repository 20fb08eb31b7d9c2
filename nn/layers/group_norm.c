/* nn/layers/group_norm.c -- normalization of each example by groups of channels, or by channel. */
#include <stdio.h>

#include "core/options.h"
#include "nn/layers/norms.h"

weft_array *weft__nn_affine(weft_array *y, weft_array *weight, weft_array *bias)
{
    return weight ? weft_add(weft_multiply(y, weight), bias) : y;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* x (N, ..., C) as (N, L, A, B), normalized over L and the axis within groups: B if a group's
 * channels are adjacent, (A, B) = (groups, C / groups), else A (Wu & He 2018). */
static weft_array *group_norm_forward(weft_module *self, weft_array *x)
{
    const weft_nn_group_norm *m = (const weft_nn_group_norm *)self;
    if (!weft_ok(x))
        return x;
    const int64_t C = weft_dim(x, -1), size = C / m->groups;
    if (weft_ndim(x) < 2 || C % m->groups != 0)
        return weft_error_array("group_norm: expected (N, ..., C) with C a multiple of %lld",
                                (long long)m->groups);
    const bool near = m->pytorch_compatible;
    const int64_t N = weft_dim(x, 0), L = N * C > 0 ? weft_size(x) / (N * C) : 0;
    weft_array *y =
        weft_reshape(x, near ? WEFT_DIMS(N, L, m->groups, size) : WEFT_DIMS(N, L, size, m->groups));
    const int from = near ? 2 : 3; /* the axis of the groups */
    y = weft_moveaxis(y, from, 1); /* (N, groups, L, size) */
    weft_array *flat = weft_reshape(y, WEFT_DIMS(N, m->groups, L * size));
    flat = weft_layer_norm(flat, NULL, NULL, m->eps);
    y = weft_moveaxis(weft_reshape(flat, weft_shape(y)), 1, from);
    return weft__nn_affine(weft_reshape(y, weft_shape(x)), m->weight, m->bias);
}

static void group_norm_describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_group_norm *m = (const weft_nn_group_norm *)self;
    snprintf(out, size, "groups=%lld eps=%g%s", (long long)m->groups, m->eps,
             m->pytorch_compatible ? " pytorch_compatible" : "");
}

static const weft_module_type group_norm_type = {
    .name = "group_norm",
    .forward = group_norm_forward,
    .describe = group_norm_describe,
};

weft_module *weft_nn_group_norm_new(int64_t groups, int64_t C,
                                    const weft_nn_group_norm_options *options)
{
    static const weft_nn_group_norm_options defaults = {0};
    const weft_nn_group_norm_options *o = options ? options : &defaults;
    if (groups < 1 || C < 1 || C % groups != 0) {
        weft_fail(WEFT_INVALID, "group_norm: %lld channels cannot be in %lld groups", (long long)C,
                  (long long)groups);
        return NULL;
    }
    weft_nn_group_norm *m = weft_nn_new(weft_nn_group_norm, &group_norm_type);
    if (m == NULL)
        return NULL;
    m->groups = groups;
    m->eps = weft__or_default(o->eps, 1e-5);
    m->pytorch_compatible = o->pytorch_compatible;
    if (!o->no_affine) {
        weft_nn_param(m, weight, weft_ones(WEFT_DIMS(C), WEFT_FLOAT32));
        weft_nn_param(m, bias, weft_zeros(WEFT_DIMS(C), WEFT_FLOAT32));
    }
    return weft_nn_finish(m);
}

/* ---- channels ------------------------------------------------------------------------------- */

static weft_array *instance_norm_forward(weft_module *self, weft_array *x)
{
    const weft_nn_instance_norm *m = (const weft_nn_instance_norm *)self;
    if (!weft_ok(x))
        return x;
    if (weft_ndim(x) < 3)
        return weft_error_array("instance_norm: expected (N, ..., C), got %d axes", weft_ndim(x));
    weft_array *y = weft_moveaxis(x, -1, 1); /* (N, C, ...) */
    weft_array *flat = weft_flatten(y, 2, -1);
    y = weft_reshape(weft_layer_norm(flat, NULL, NULL, m->eps), weft_shape(y));
    return weft__nn_affine(weft_moveaxis(y, 1, -1), m->weight, m->bias);
}

static void instance_norm_describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "eps=%g", ((const weft_nn_instance_norm *)self)->eps);
}

static const weft_module_type instance_norm_type = {
    .name = "instance_norm",
    .forward = instance_norm_forward,
    .describe = instance_norm_describe,
};

weft_module *weft_nn_instance_norm_new(int64_t C, double eps, bool affine)
{
    weft_nn_instance_norm *m = weft_nn_new(weft_nn_instance_norm, &instance_norm_type);
    if (m == NULL)
        return NULL;
    m->eps = weft__or_default(eps, 1e-5);
    if (affine) {
        weft_nn_param(m, weight, weft_ones(WEFT_DIMS(C), WEFT_FLOAT32));
        weft_nn_param(m, bias, weft_zeros(WEFT_DIMS(C), WEFT_FLOAT32));
    }
    return weft_nn_finish(m);
}
