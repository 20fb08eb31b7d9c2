/* ops/conv/pool.c -- sliding windows, and max and average pooling. */
#include <math.h>

#include "ops/conv/conv.h"

/* ---- Windows -------------------------------------------------------------------------------- */

weft_array *weft_sliding_window_view(weft_array *x, weft_dims window, weft_dims axes)
{
    weft_scope_open();
    weft_why why;
    weft_dims places;
    weft_array *failed;
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__list_fits("sliding_window_view", &window, &failed)) {
        return weft_scope_close(failed);
    }
    weft_dims shape = weft_shape(x), strides = {.n = shape.n + window.n};
    if (window.n != axes.n || !weft__axes_in_order(&axes, shape.n, &places, &why) ||
        shape.n + window.n > WEFT_MAX_DIMS) {
        return weft_scope_close(weft_error_array(
            "sliding_window_view: %d sizes for %d axes of rank %d", window.n, axes.n, shape.n));
    }
    weft__strides_contiguous(&shape, strides.at);
    int rank = shape.n;
    for (int i = 0; i < window.n; i++) {
        int axis = (int)places.at[i] + rank;
        int64_t *length = &shape.at[axis];
        if (window.at[i] < 0 || window.at[i] > *length) {
            return weft_scope_close(
                weft_error_array("sliding_window_view: a window of %lld on an axis of %lld",
                                 (long long)window.at[i], (long long)*length));
        }
        *length -= window.at[i] - (window.at[i] > 0);
        strides.at[rank + i] = strides.at[axis];
        shape.at[rank + i] = window.at[i];
    }
    shape.n = strides.n;
    return weft_scope_close(weft_as_strided(x, shape, strides, 0));
}

/* ---- Pooling -------------------------------------------------------------------------------- */

typedef struct pooling {
    int axes;
    weft_dims window, stride, padding;
} pooling;

/* The number for an axis: its own, or the single one of the list. */
static int64_t of_axis(const weft_dims *list, int axis)
{
    return list->at[list->n == 1 ? 0 : axis];
}

/* Reads the options. False: *failed is x, if that has failed, or an error array. */
static bool read_pooling(const char *name, weft_array *x, weft_dims window, weft_dims stride,
                         weft_dims padding, pooling *p, weft_array **failed)
{
    *failed = x;
    if (!weft_ok(x)) {
        return false;
    }
    int axes = weft_ndim(x) - 2;
    const weft_dims *lists[] = {&window, &stride, &padding};
    weft_dims *outs[] = {&p->window, &p->stride, &p->padding};
    stride = stride.n == 0 ? window : stride;
    padding = padding.n == 0 ? WEFT_DIMS(0) : padding;
    *p = (pooling){.axes = axes};
    for (int i = 0; i < 3; i++) {
        if (axes < 1 || axes > CONV_AXES || (lists[i]->n != 1 && lists[i]->n != axes)) {
            *failed =
                weft_error_array("%s: x of rank %d, %d numbers: expected (N, ..., C) with one "
                                 "to three axes between, and one number or one for each",
                                 name, weft_ndim(x), lists[i]->n);
            return false;
        }
        outs[i]->n = axes;
        for (int axis = 0; axis < axes; axis++) {
            outs[i]->at[axis] = of_axis(lists[i], axis);
        }
    }
    for (int axis = 0; axis < axes; axis++) {
        int64_t size = p->window.at[axis], pad = p->padding.at[axis];
        int64_t length = weft_dim(x, axis + 1);
        if (size < 1 || size > INT32_MAX || p->stride.at[axis] < 1 || pad < 0 || pad >= size ||
            length > INT64_MAX / 2 || length + 2 * pad < size) {
            *failed =
                weft_error_array("%s: axis %d of %lld elements: a window of %lld, a stride "
                                 "of %lld, a padding of %lld: expected a window below 2^31 that "
                                 "fits into the padded axis, and less padding than that",
                                 name, axis + 1, (long long)length, (long long)size,
                                 (long long)p->stride.at[axis], (long long)pad);
            return false;
        }
    }
    return true;
}

/* The smallest value of the dtype. */
static double lowest_of(weft_dtype dtype)
{
    if (weft_dtype_is_float(dtype)) {
        return -INFINITY;
    }
    int bits = 8 * (int)weft_dtype_size(dtype);
    return weft_dtype_is_signed(dtype) ? -ldexp(1, bits - 1) : 0;
}

/* The maximum of the `window` elements from each position along the axis. A long window is the
 * maximum of two overlapping ones of half its size, so the number of ops is logarithmic. */
static weft_array *max_of_each(weft_array *x, int axis, int64_t window)
{
    int64_t length = weft_dim(x, axis);
    for (int64_t covered = 1; covered < window;) {
        int64_t step = covered < window - covered ? covered : window - covered;
        int64_t count = length - covered - step + 1;
        x = weft_maximum(weft_slice_axis(x, axis, 0, count),
                         weft_slice_axis(x, axis, step, step + count));
        covered += step;
    }
    return x;
}

enum { SHORT_WINDOW = 64 };

/* The maximum of each window along one axis, as a maximum of slices. Pooling over several axes
 * therefore costs the sum of the window sizes, not their product. */
static weft_array *max_along(weft_array *x, int axis, int64_t window, int64_t stride,
                             int64_t padding)
{
    if (padding > 0) {
        x = weft_pad(x, axis, padding, padding, lowest_of(weft_dtype_of(x)));
    }
    if (window > SHORT_WINDOW) {
        return weft_slice(max_of_each(x, axis, window), WEFT_DIMS(axis), WEFT_DIMS(0),
                          WEFT_DIMS(INT64_MAX), WEFT_DIMS(stride));
    }
    int64_t last = (weft_dim(x, axis) - window) / stride * stride;
    weft_array *y = NULL;
    for (int64_t j = 0; j < window; j++) {
        weft_array *part = weft_slice(x, WEFT_DIMS(axis), WEFT_DIMS(j), WEFT_DIMS(j + last + 1),
                                      WEFT_DIMS(stride));
        y = y ? weft_maximum(y, part) : part;
    }
    return y;
}

weft_array *weft_max_pool(weft_array *x, weft_dims window, weft_dims stride, weft_dims padding)
{
    pooling p;
    weft_array *failed;
    if (!read_pooling("max_pool", x, window, stride, padding, &p, &failed)) {
        return failed;
    }
    if (weft_dtype_of(x) == WEFT_COMPLEX64 || weft_dtype_of(x) == WEFT_BOOL) {
        return weft_error_array("max_pool: unsupported: %s", weft_dtype_name(weft_dtype_of(x)));
    }
    weft_scope_open();
    for (int axis = p.axes - 1; axis >= 0; axis--) {
        x = max_along(x, axis + 1, p.window.at[axis], p.stride.at[axis], p.padding.at[axis]);
    }
    return weft_scope_close(x);
}

/* A convolution of each channel with a kernel of 1 / window size. */
weft_array *weft_avg_pool(weft_array *x, weft_dims window, weft_dims stride, weft_dims padding)
{
    pooling p;
    weft_array *failed;
    if (!read_pooling("avg_pool", x, window, stride, padding, &p, &failed)) {
        return failed;
    }
    weft_scope_open();
    x = as_inexact(x);
    int64_t C = weft_dim(x, -1);
    double size = 1;
    weft_dims shape = {.n = p.axes + 2};
    for (int axis = 0; axis < p.axes; axis++) {
        shape.at[axis + 1] = p.window.at[axis];
        size *= (double)p.window.at[axis];
    }
    shape.at[0] = C;
    shape.at[p.axes + 1] = 1;
    weft_dtype dtype = weft_dtype_of(x);
    weft_array *ones = weft_to(weft_full(shape, 1, dtype), weft_device_of(x));
    weft_conv_options options = {
        .stride = p.stride, .pad_low = p.padding, .pad_high = p.padding, .groups = C > 0 ? C : 1};
    weft_array *sums = weft_conv_general(x, ones, &options);
    return weft_scope_close(weft_scale(sums, 1 / size));
}
