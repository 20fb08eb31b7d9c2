/* ops/conv/convolution.c -- the public convolution functions, which complete the options. */
#include "ops/conv/conv.h"

/* Expands a list of options to one number per axis. False: it has neither none, one nor `axes`
 * numbers. */
static bool fill(const weft_dims *list, int axes, int64_t otherwise, weft_dims *out)
{
    if (list->n > 1 && list->n != axes) {
        return false;
    }
    out->n = axes;
    for (int axis = 0; axis < axes; axis++) {
        out->at[axis] = list->n == 0 ? otherwise : list->at[list->n == 1 ? 0 : axis];
    }
    return true;
}

/* (a + ib) * (c + id) by two real convolutions, with a and b in one batch. */
static weft_array *complex_conv(weft_array *x, weft_array *weight, const weft_conv_params *p)
{
    const int64_t N = weft_dim(x, 0);
    weft_array *parts = weft_concatenate((weft_array *[]){weft_real(x), weft_imag(x)}, 2, 0);
    weft_array *by_re = weft__conv(parts, weft_real(weight), p);
    weft_array *by_im = weft__conv(parts, weft_imag(weight), p);
    weft_array *ac = weft_slice_axis(by_re, 0, 0, N), *bc = weft_slice_axis(by_re, 0, N, 2 * N);
    weft_array *ad = weft_slice_axis(by_im, 0, 0, N), *bd = weft_slice_axis(by_im, 0, N, 2 * N);
    return weft_complex(weft_subtract(ac, bd), weft_add(ad, bc));
}

static weft_array *convolution(const char *name, weft_array *x, weft_array *weight,
                               const weft_conv_options *options)
{
    if (!weft_ok(x) || !weft_ok(weight)) {
        return weft_ok(x) ? weight : x;
    }
    int axes = weft_ndim(x) - 2;
    if (axes < 1 || axes > CONV_AXES) {
        return weft_error_array("%s: x has rank %d: expected (N, ..., C) with one to three axes "
                                "between",
                                name, weft_ndim(x));
    }
    weft_conv_params p = {.groups = options->groups == 0 ? 1 : options->groups,
                          .flip = options->flip};
    if (!fill(&options->stride, axes, 1, &p.stride) ||
        !fill(&options->pad_low, axes, 0, &p.pad_low) ||
        !fill(&options->pad_high, axes, 0, &p.pad_high) ||
        !fill(&options->kernel_dilation, axes, 1, &p.kernel_dilation) ||
        !fill(&options->input_dilation, axes, 1, &p.input_dilation)) {
        return weft_error_array("%s: expected one number or %d, one for each spatial axis", name,
                                axes);
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(x), weft_dtype_of(weight));
    dtype = dtype == WEFT_BOOL ? WEFT_FLOAT32 : dtype;
    x = weft_astype(x, dtype);
    weight = weft_astype(weight, dtype);
    return dtype == WEFT_COMPLEX64 ? complex_conv(x, weight, &p) : weft__conv(x, weight, &p);
}

weft_array *weft_conv_general(weft_array *x, weft_array *weight, const weft_conv_options *options)
{
    weft_scope_open();
    static const weft_conv_options defaults = {0};
    return weft_scope_close(convolution("conv_general", x, weight, options ? options : &defaults));
}

/* ---- One to three axes ---------------------------------------------------------------------- */

static weft_array *wrong_rank(const char *name, weft_array *x, int axes)
{
    return weft_error_array("%s: x has rank %d: expected %d", name, weft_ndim(x), axes + 2);
}

static weft_array *plain(const char *name, int axes, weft_array *x, weft_array *weight,
                         weft_dims stride, weft_dims padding, weft_dims dilation, int64_t groups)
{
    if (weft_ok(x) && weft_ndim(x) != axes + 2) {
        return wrong_rank(name, x, axes);
    }
    weft_conv_options options = {.stride = stride,
                                 .pad_low = padding,
                                 .pad_high = padding,
                                 .kernel_dilation = dilation,
                                 .groups = groups};
    return convolution(name, x, weight, &options);
}

weft_array *weft_conv1d(weft_array *x, weft_array *weight, int64_t stride, int64_t padding,
                        int64_t dilation, int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(plain("conv1d", 1, x, weight, WEFT_DIMS(stride), WEFT_DIMS(padding),
                                  WEFT_DIMS(dilation), groups));
}

weft_array *weft_conv2d(weft_array *x, weft_array *weight, weft_dims stride, weft_dims padding,
                        weft_dims dilation, int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(plain("conv2d", 2, x, weight, stride, padding, dilation, groups));
}

weft_array *weft_conv3d(weft_array *x, weft_array *weight, weft_dims stride, weft_dims padding,
                        weft_dims dilation, int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(plain("conv3d", 3, x, weight, stride, padding, dilation, groups));
}

/* ---- Transposed ----------------------------------------------------------------------------- */

/* x dilated by the stride and padded so that every element meets the whole kernel, except for
 * `padding`. */
static weft_array *transposed(const char *name, int axes, weft_array *x, weft_array *weight,
                              weft_dims stride, weft_dims padding, weft_dims dilation,
                              weft_dims output_padding, int64_t groups)
{
    if (!weft_ok(x) || !weft_ok(weight)) {
        return weft_ok(x) ? weight : x;
    }
    weft_dims pads, extra, steps;
    if (weft_ndim(x) != axes + 2 || weft_ndim(weight) != axes + 2) {
        return wrong_rank(name, weft_ndim(x) != axes + 2 ? x : weight, axes);
    }
    if (!fill(&padding, axes, 0, &pads) || !fill(&output_padding, axes, 0, &extra) ||
        !fill(&dilation, axes, 1, &steps)) {
        return weft_error_array("%s: expected one number or %d, one for each spatial axis", name,
                                axes);
    }
    weft_conv_options options = {.kernel_dilation = steps,
                                 .input_dilation = stride,
                                 .pad_low = {.n = axes},
                                 .pad_high = {.n = axes},
                                 .groups = groups,
                                 .flip = true};
    for (int axis = 0; axis < axes; axis++) {
        int64_t *low = &options.pad_low.at[axis], *high = &options.pad_high.at[axis], span;
        if (__builtin_mul_overflow(weft_dim(weight, axis + 1) - 1, steps.at[axis], &span) ||
            __builtin_sub_overflow(span, pads.at[axis], low) ||
            __builtin_add_overflow(*low, extra.at[axis], high)) {
            return weft_error_array("%s: axis %d: a dilation of %lld, a padding of %lld, an output "
                                    "padding of %lld",
                                    name, axis + 1, (long long)steps.at[axis],
                                    (long long)pads.at[axis], (long long)extra.at[axis]);
        }
    }
    return convolution(name, x, weight, &options);
}

weft_array *weft_conv_transpose1d(weft_array *x, weft_array *weight, int64_t stride,
                                  int64_t padding, int64_t dilation, int64_t output_padding,
                                  int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(transposed("conv_transpose1d", 1, x, weight, WEFT_DIMS(stride),
                                       WEFT_DIMS(padding), WEFT_DIMS(dilation),
                                       WEFT_DIMS(output_padding), groups));
}

weft_array *weft_conv_transpose2d(weft_array *x, weft_array *weight, weft_dims stride,
                                  weft_dims padding, weft_dims dilation, weft_dims output_padding,
                                  int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(transposed("conv_transpose2d", 2, x, weight, stride, padding, dilation,
                                       output_padding, groups));
}

weft_array *weft_conv_transpose3d(weft_array *x, weft_array *weight, weft_dims stride,
                                  weft_dims padding, weft_dims dilation, weft_dims output_padding,
                                  int64_t groups)
{
    weft_scope_open();
    return weft_scope_close(transposed("conv_transpose3d", 3, x, weight, stride, padding, dilation,
                                       output_padding, groups));
}

/* ---- Vectors -------------------------------------------------------------------------------- */

weft_array *weft_convolve(weft_array *a, weft_array *v, weft_convolve_mode mode)
{
    weft_scope_open();
    if (!weft_ok(a) || !weft_ok(v)) {
        return weft_scope_close(weft_ok(a) ? v : a);
    }
    if (weft_ndim(a) != 1 || weft_ndim(v) != 1 || weft_size(a) == 0 || weft_size(v) == 0) {
        return weft_scope_close(weft_error_array(
            "convolve: expected two vectors that are not empty, got ranks %d "
            "and %d, %lld and %lld elements",
            weft_ndim(a), weft_ndim(v), (long long)weft_size(a), (long long)weft_size(v)));
    }
    if (weft_size(a) < weft_size(v)) {
        weft_array *longer = v;
        v = a;
        a = longer;
    }
    int64_t n = weft_size(v), low = 0, high = 0;
    if (mode != WEFT_CONVOLVE_VALID) {
        low = mode == WEFT_CONVOLVE_FULL ? n - 1 : n / 2;
        high = n - 1 - (mode == WEFT_CONVOLVE_FULL ? 0 : low);
    }
    weft_conv_options options = {
        .pad_low = WEFT_DIMS(low), .pad_high = WEFT_DIMS(high), .flip = true};
    weft_array *y = convolution("convolve", weft_reshape(a, WEFT_DIMS(1, -1, 1)),
                                weft_reshape(v, WEFT_DIMS(1, -1, 1)), &options);
    return weft_scope_close(weft_reshape(y, WEFT_DIMS(-1)));
}
