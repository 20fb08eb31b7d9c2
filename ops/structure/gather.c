/* ops/structure/gather.c -- gather and scatter as in MLX: slices that start at indices on some
 * axes. */
#include "ops/structure/index.h"

/* The arguments of both. If a slice is longer than 1 on an indexed axis, its positions become a
 * further axis of the indices, called a window. */
typedef struct slices {
    weft__points points; /* indices: (I..., windows) */
    int shared;          /* axes of I */
    weft_dims common;    /* I */
    weft_dims sizes;     /* of the slices, on every axis */
    weft_array *part;    /* x cut to the sizes on the axes without indices */
    weft_dims order;     /* axes of (I, windows, other axes) in the order (I, x's axes) */
} slices;

static int sorted_axes(const char *op, weft_array *const *indices, int n, weft_dims axes, int ndim,
                       slices *s, weft_array **failed)
{
    weft_dims shape = {0}, before;
    weft_why why;
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (n != axes.n || !weft__axes_in_order(&axes, ndim, &axes, &why)) {
        *failed = n != axes.n ? weft_error_array("%s: %d indices for %d axes", op, n, axes.n)
                              : weft_error_array("%s: %s", op, why.text);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        weft_dims next = weft_shape(indices[i]);
        before = shape;
        if (!weft_ok(indices[i]) || !weft__shape_broadcast(&before, &next, &shape)) {
            *failed = weft_ok(indices[i]) ? weft_error_array("%s: indices of %s and %s", op,
                                                             weft__shape_text(&before, a),
                                                             weft__shape_text(&next, b))
                                          : indices[i];
            return -1;
        }
    }
    for (int axis = 0; axis < ndim; axis++) {
        for (int i = 0; i < n; i++) {
            if (axes.at[i] + ndim == axis) {
                s->points.axes[s->points.k] = axis;
                s->points.indices[s->points.k++] = weft_broadcast_to(indices[i], shape);
            }
        }
    }
    s->common = shape;
    return shape.n;
}

/* Extends the indices by their windows. */
static void open_windows(slices *s, weft_array *x)
{
    int windows = 0, n = s->shared;
    weft_dims wide = s->common;
    for (int k = 0; k < s->points.k; k++) {
        int64_t size = s->sizes.at[s->points.axes[k]];
        if (size != 1) {
            wide.at[wide.n++] = size;
            windows++;
        }
    }
    for (int k = 0, window = 0; k < s->points.k && windows; k++) {
        int64_t size = s->sizes.at[s->points.axes[k]], length = weft_dim(x, s->points.axes[k]);
        weft_array *index = weft__bounded(s->points.indices[k], length, WEFT_BOUNDS_CHECK);
        weft_dims apart = weft_shape(index);
        for (int i = 0; i < windows; i++) {
            apart.at[apart.n++] = 1;
        }
        index = weft_reshape(weft_astype(index, WEFT_INT64), apart);
        if (size != 1) {
            index = weft_add(index, weft__ramp(x, size, n + window++, n + windows));
        }
        s->points.indices[k] = weft_broadcast_to(index, wide);
    }
}

static bool slices_of(const char *op, weft_array *x, weft_array *const *indices, int n,
                      weft_dims axes, weft_dims sizes, slices *s, weft_array **failed)
{
    weft_dims shape = weft_shape(x), all = {0}, starts = {0};
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    *s = (slices){.sizes = sizes};
    *failed = x;
    if (!weft_ok(x)) {
        return false;
    }
    s->shared = sorted_axes(op, indices, n, axes, shape.n, s, failed);
    if (s->shared < 0) {
        return false;
    }
    bool fits = sizes.n == shape.n && s->shared + shape.n <= WEFT_MAX_DIMS;
    for (int i = 0; fits && i < shape.n; i++) {
        fits = sizes.at[i] >= 0 && sizes.at[i] <= shape.at[i];
    }
    if (!fits) {
        *failed = weft_error_array("%s: slices of %s of %s", op, weft__shape_text(&sizes, a),
                                   weft__shape_text(&shape, b));
        return false;
    }
    open_windows(s, x);
    int window = s->shared, rest = n ? weft_ndim(s->points.indices[0]) : 0;
    weft_dims stops = {0};
    for (int i = 0; i < s->shared; i++) {
        s->order.at[s->order.n++] = i;
    }
    for (int i = 0, k = 0; i < shape.n; i++) {
        bool indexed = k < n && s->points.axes[k] == i;
        k += indexed;
        if (!indexed || sizes.at[i] != 1) {
            s->order.at[s->order.n++] = indexed ? window++ : rest++;
        }
        all.at[all.n++] = i;
        starts.at[starts.n++] = 0;
        stops.at[stops.n++] = indexed ? shape.at[i] : sizes.at[i];
    }
    s->part = weft_slice(x, all, starts, stops, (weft_dims){0});
    return true;
}

/* (I..., sizes...) */
static weft_dims result_shape(const slices *s)
{
    weft_dims shape = s->common;
    for (int i = 0; i < s->sizes.n; i++) {
        shape.at[shape.n++] = s->sizes.at[i];
    }
    return shape;
}

weft_array *weft_gather(weft_array *x, weft_array *const *indices, int n, weft_dims axes,
                        weft_dims slice_sizes)
{
    weft_scope_open();
    slices s;
    weft_array *failed;
    if (!slices_of("gather", x, indices, n, axes, slice_sizes, &s, &failed)) {
        return weft_scope_close(failed);
    }
    if (n == 0) {
        return weft_scope_close(s.part);
    }
    weft_array *y = weft__take_points(s.part, &s.points);
    return weft_scope_close(weft_reshape(weft_transpose(y, s.order), result_shape(&s)));
}

static weft_array *scatter(const char *op, weft_combine combine, weft_array *x,
                           weft_array *const *indices, int n, weft_array *updates, weft_dims axes)
{
    slices s;
    weft_array *failed;
    weft_dims given = weft_shape(updates), sizes = {.n = weft_ndim(x)}, begin = {0}, all = {0};
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (!weft_ok(x) || !weft_ok(updates)) {
        return weft_ok(x) ? updates : x;
    }
    if (given.n < sizes.n) {
        return weft_error_array("%s: updates of %s for rank %d", op, weft__shape_text(&given, a),
                                sizes.n);
    }
    for (int i = 0; i < sizes.n; i++) {
        sizes.at[i] = given.at[given.n - sizes.n + i];
        all.at[all.n++] = i;
        begin.at[begin.n++] = 0;
    }
    if (!slices_of(op, x, indices, n, axes, sizes, &s, &failed)) {
        return failed;
    }
    weft_dims expected = result_shape(&s), inner = {0}, back = {.n = s.order.n};
    if (!weft__shape_equal(&expected, &given)) {
        return weft_error_array("%s: updates: expected %s, got %s", op,
                                weft__shape_text(&expected, a), weft__shape_text(&given, b));
    }
    weft_dims stops = weft_shape(s.part);
    weft_slice_params slice;
    if (!weft__slice_of(x, op, all, begin, stops, (weft_dims){0}, &slice, &failed)) {
        return failed;
    }
    updates = weft_astype(updates, weft_dtype_of(x));
    if (n == 0) {
        return weft__slice_combine(x, updates, &slice, combine);
    }
    for (int i = 0, k = 0; i < given.n; i++) { /* without the indexed axes, which have length 1 */
        int axis = i - s.shared;
        bool indexed = axis >= 0 && k < n && s.points.axes[k] == axis;
        k += indexed;
        if (!indexed || given.at[i] != 1) {
            inner.at[inner.n++] = given.at[i];
        }
    }
    for (int i = 0; i < back.n; i++) {
        back.at[s.order.at[i]] = i;
    }
    weft_array *values = weft_transpose(weft_reshape(updates, inner), back);
    weft_array *y = weft__scatter_points(s.part, &s.points, values, combine);
    return s.part == x ? y : weft__slice_combine(x, y, &slice, WEFT_COMBINE_PUT);
}

weft_array *weft_scatter(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                         weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(scatter("scatter", WEFT_COMBINE_PUT, x, indices, n, updates, axes));
}

weft_array *weft_scatter_add(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                             weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(scatter("scatter_add", WEFT_COMBINE_ADD, x, indices, n, updates, axes));
}

weft_array *weft_scatter_prod(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                              weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(
        scatter("scatter_prod", WEFT_COMBINE_PROD, x, indices, n, updates, axes));
}

weft_array *weft_scatter_max(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                             weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(scatter("scatter_max", WEFT_COMBINE_MAX, x, indices, n, updates, axes));
}

weft_array *weft_scatter_min(weft_array *x, weft_array *const *indices, int n, weft_array *updates,
                             weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(scatter("scatter_min", WEFT_COMBINE_MIN, x, indices, n, updates, axes));
}
