/* ops/structure/axes.c -- functions composed of reshape, transpose, slice and broadcast_to: moving,
 * flipping, splitting, adding and removing axes. */
#include "ops/kernel.h"

weft_array *weft_unflatten(weft_array *x, int axis, weft_dims shape)
{
    int64_t from_end, known = 1;
    weft_array *failed;
    char text[WEFT_SHAPE_TEXT];
    if (!weft__axis_from_end("unflatten", x, axis, &from_end, &failed) ||
        !weft__list_fits("unflatten", &shape, &failed)) {
        return failed;
    }
    weft_dims old = weft_shape(x), all = {0};
    int front = (int)from_end + old.n, unknown = -1;
    int64_t length = old.at[front];
    for (int i = 0; i < shape.n; i++) {
        if (shape.at[i] == -1 && unknown < 0) {
            unknown = i;
        } else if (shape.at[i] < 0 || __builtin_mul_overflow(known, shape.at[i], &known)) {
            return weft_error_array("unflatten: bad shape %s", weft__shape_text(&shape, text));
        }
    }
    bool fits = unknown < 0 ? known == length : known > 0 && length % known == 0;
    if (!fits || old.n - 1 + shape.n > WEFT_MAX_DIMS) {
        return weft_error_array("unflatten: axis %d of size %lld as %s", axis, (long long)length,
                                weft__shape_text(&shape, text));
    }
    if (unknown >= 0) {
        shape.at[unknown] = length / known;
    }
    for (int i = 0; i < old.n; i++) {
        for (int k = 0; i == front && k < shape.n; k++) {
            all.at[all.n++] = shape.at[k];
        }
        if (i != front) {
            all.at[all.n++] = old.at[i];
        }
    }
    return weft_reshape(x, all);
}

weft_array *weft_moveaxis(weft_array *x, int from, int to)
{
    int64_t source, target;
    weft_array *failed;
    if (!weft__axis_from_end("moveaxis", x, from, &source, &failed) ||
        !weft__axis_from_end("moveaxis", x, to, &target, &failed)) {
        return failed;
    }
    weft_dims axes = {.n = weft_ndim(x)};
    int rest = 0;
    source += axes.n;
    target += axes.n;
    for (int i = 0; i < axes.n; i++) {
        if (i == target) {
            axes.at[i] = source;
        } else {
            rest += rest == source;
            axes.at[i] = rest++;
        }
    }
    return weft_transpose(x, axes);
}

weft_array *weft_flip(weft_array *x, weft_dims axes)
{
    weft_dims sorted, starts, stops, steps;
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &sorted, &why)) {
        return weft_error_array("flip: %s", why.text);
    }
    starts = stops = steps = (weft_dims){.n = sorted.n};
    for (int i = 0; i < sorted.n; i++) {
        starts.at[i] = INT64_MAX;
        stops.at[i] = INT64_MIN;
        steps.at[i] = -1;
    }
    return weft_slice(x, sorted, starts, stops, steps);
}

weft_array *weft_expand_dims_axes(weft_array *x, weft_dims axes)
{
    weft_dims old = weft_shape(x), shape = {0}, sorted;
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (axes.n < 0 || axes.n > WEFT_MAX_DIMS - old.n) {
        return weft_error_array("expand_dims: %d axes for rank %d", axes.n, old.n);
    }
    shape.n = old.n + axes.n;
    if (!weft__axes_from_end(&axes, shape.n, &sorted, &why)) {
        return weft_error_array("expand_dims: %s", why.text);
    }
    for (int i = 0, added = 0; i < shape.n; i++) {
        bool is_new = added < sorted.n && sorted.at[added] + shape.n == i;
        shape.at[i] = is_new ? 1 : old.at[i - added];
        added += is_new;
    }
    return weft_reshape(x, shape);
}

weft_array *weft_squeeze_axes(weft_array *x, weft_dims axes)
{
    weft_dims old = weft_shape(x), shape = {0}, sorted;
    weft_why why;
    char text[WEFT_SHAPE_TEXT];
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_from_end(&axes, old.n, &sorted, &why)) {
        return weft_error_array("squeeze: %s", why.text);
    }
    for (int i = 0, k = 0; i < old.n; i++) {
        bool named = k < sorted.n && sorted.at[k] + old.n == i;
        k += named;
        if (named && old.at[i] != 1 && axes.n >= 0) {
            return weft_error_array("squeeze: axis %d of %s: expected a dimension of 1", i,
                                    weft__shape_text(&old, text));
        }
        if (!named || old.at[i] != 1) {
            shape.at[shape.n++] = old.at[i];
        }
    }
    return weft_reshape(x, shape);
}

weft_array *weft_atleast_1d(weft_array *x)
{
    return weft_ok(x) && weft_ndim(x) == 0 ? weft_reshape(x, WEFT_DIMS(1)) : x;
}

weft_array *weft_atleast_2d(weft_array *x)
{
    return weft_ok(x) && weft_ndim(x) < 2 ? weft_reshape(x, WEFT_DIMS(1, weft_size(x))) : x;
}

weft_array *weft_atleast_3d(weft_array *x)
{
    weft_scope_open();
    if (!weft_ok(x) || weft_ndim(x) > 2) {
        return weft_scope_close(x);
    }
    weft_array *rows = weft_atleast_2d(x);
    return weft_scope_close(weft_reshape(rows, WEFT_DIMS(weft_dim(rows, 0), weft_dim(rows, 1), 1)));
}

static weft_array *common_shape(weft_array *const *arrays, int n, weft_dims *shape)
{
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    *shape = (weft_dims){0};
    for (int i = 0; i < n; i++) {
        weft_dims next = weft_shape(arrays[i]), before = *shape;
        if (!weft_ok(arrays[i])) {
            return arrays[i];
        }
        if (!weft__shape_broadcast(&before, &next, shape)) {
            return weft_error_array("broadcast_arrays: array %d is %s, those before are %s", i,
                                    weft__shape_text(&next, a), weft__shape_text(&before, b));
        }
    }
    return NULL;
}

void weft_broadcast_arrays(weft_array *const *arrays, int n, weft_array **out)
{
    weft_dims shape;
    weft_array *failed = common_shape(arrays, n, &shape);
    for (int i = 0; i < n; i++) {
        out[i] = failed ? failed : weft_broadcast_to(arrays[i], shape);
    }
}
