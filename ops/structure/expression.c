/* ops/structure/expression.c -- NumPy's indexing x[items] and assignment to it: first a slice, then
 * index arrays, then the order of the axes. */
#include "ops/structure/index.h"

typedef struct expression {
    weft_slice_params slice; /* a slice on every axis of x */
    weft__points points;     /* k = 0: no index arrays */
    int shared;              /* rank of the indices' shape */
    /* The result's axes as axes of (indices' shape, x's other axes), and its shape without and with
     * new axes and the axes of single integers. */
    weft_dims order, shape, full;
} expression;

/* Replaces "..." by slices, so that the items cover every axis. -1: *failed is set. */
static int all_items(const weft_index_item *items, int n, int ndim, weft_index_item *out,
                     weft_array **failed)
{
    int named = 0, ellipses = 0, count = 0;
    for (int i = 0; i < n; i++) {
        named += items[i].kind != WEFT_INDEX_NEWAXIS && items[i].kind != WEFT_INDEX_ELLIPSIS;
        ellipses += items[i].kind == WEFT_INDEX_ELLIPSIS;
    }
    if (named > ndim || ellipses > 1 || n > 2 * WEFT_MAX_DIMS) {
        *failed = ellipses > 1
                      ? weft_error_array("index: more than one ellipsis")
                      : weft_error_array("index: %d items for an array of rank %d", named, ndim);
        return -1;
    }
    for (int i = 0; i <= n; i++) {
        bool fills = i < n ? items[i].kind == WEFT_INDEX_ELLIPSIS : ellipses == 0;
        for (int k = named; fills && k < ndim; k++) {
            out[count++] = weft_every();
        }
        if (i < n && !fills) {
            out[count++] = items[i];
        }
    }
    return count;
}

/* The slice of an axis for one item; the whole axis for index arrays. */
static bool slice_axis_by(const weft_index_item *item, int64_t length, int axis, int ndim,
                          bool has_arrays, weft_slice_params *p, weft_array **failed)
{
    bool whole = item->kind == WEFT_INDEX_ARRAY || (item->kind == WEFT_INDEX_INTEGER && has_arrays);
    int64_t start = item->start, stop = item->stop, step = item->step;
    if (item->kind == WEFT_INDEX_INTEGER) {
        int64_t at = start < 0 ? start + length : start;
        if (at < 0 || at >= length) {
            *failed = weft_error_array("index: %lld is out of range for axis %d of size %lld",
                                       (long long)start, axis, (long long)length);
            return false;
        }
        start = at;
        stop = at + 1;
        step = 1;
    }
    if (step == 0) {
        *failed = weft_error_array("index: a step of 0 on axis %d", axis);
        return false;
    }
    int i = p->axes.n++;
    p->starts.n = p->sizes.n = p->steps.n = p->axes.n;
    p->axes.at[i] = axis - ndim;
    p->steps.at[i] = 1;
    p->starts.at[i] = 0;
    p->sizes.at[i] = length;
    if (!whole) {
        weft__slice_span(length, start, stop, step, &p->starts.at[i], &p->sizes.at[i]);
        p->steps.at[i] = p->sizes.at[i] > 1 ? step : 1;
    }
    return true;
}

/* Collects the index arrays, and the integers used with them, broadcast together. */
static weft_array *collect_points(const weft_index_item *items, int n, weft_array *x, expression *e,
                                  weft_dims *shape)
{
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    *shape = (weft_dims){0};
    for (int i = 0, axis = 0; i < n; i++) {
        weft_index_item item = items[i];
        if (item.kind == WEFT_INDEX_INTEGER || item.kind == WEFT_INDEX_ARRAY) {
            weft_array *at =
                item.kind == WEFT_INDEX_ARRAY
                    ? item.array
                    : weft_to(weft_scalar_int(item.start, WEFT_INT64), weft_device_of(x));
            weft_dims before = *shape, next = weft_shape(at);
            if (!weft_ok(at)) {
                return at;
            }
            if (!weft_dtype_is_integer(weft_dtype_of(at))) {
                return weft_error_array(
                    "index: expected an array of integers, got %s%s",
                    weft_dtype_name(weft_dtype_of(at)),
                    weft_dtype_of(at) == WEFT_BOOL ? " (for masks: where, masked_scatter)" : "");
            }
            if (!weft__shape_broadcast(&before, &next, shape)) {
                return weft_error_array("index: arrays of %s and %s", weft__shape_text(&before, a),
                                        weft__shape_text(&next, b));
            }
            e->points.axes[e->points.k] = axis;
            e->points.indices[e->points.k++] = at;
        }
        axis += item.kind != WEFT_INDEX_NEWAXIS;
    }
    for (int k = 0; k < e->points.k; k++) {
        e->points.indices[k] = weft_broadcast_to(e->points.indices[k], *shape);
    }
    e->shared = shape->n;
    return NULL;
}

/* Whether the index arrays and integers are adjacent. */
static bool side_by_side(const weft_index_item *items, int n)
{
    int runs = 0;
    bool inside = false;
    for (int i = 0; i < n; i++) {
        bool is_place = items[i].kind == WEFT_INDEX_INTEGER || items[i].kind == WEFT_INDEX_ARRAY;
        runs += is_place && !inside;
        inside = is_place;
    }
    return runs == 1;
}

static void add_axes(expression *e, const weft_dims *sizes, int first)
{
    for (int i = 0; i < sizes->n; i++) {
        e->order.at[e->order.n++] = first + i;
        e->shape.at[e->shape.n++] = sizes->at[i];
        e->full.at[e->full.n++] = sizes->at[i];
    }
}

static bool lay_out(const weft_index_item *items, int n, const weft_dims *shared, int ndim,
                    expression *e)
{
    bool has_arrays = e->points.k > 0, in_place = has_arrays && side_by_side(items, n);
    int rank = has_arrays ? shared->n : 0, rest = rank;
    for (int i = 0; i < n; i++) {
        rank += items[i].kind == WEFT_INDEX_SLICE || items[i].kind == WEFT_INDEX_NEWAXIS;
    }
    if (rank > WEFT_MAX_DIMS || e->shared + ndim > WEFT_MAX_DIMS) {
        return false;
    }
    if (has_arrays && !in_place) {
        add_axes(e, shared, 0);
    }
    for (int i = 0, axis = 0; i < n; i++) {
        weft_dims one = {1, {axis < ndim ? e->slice.sizes.at[axis] : 1}};
        if (items[i].kind == WEFT_INDEX_NEWAXIS) {
            e->full.at[e->full.n++] = 1;
            continue;
        }
        if (items[i].kind == WEFT_INDEX_SLICE) {
            add_axes(e, &one, rest++);
        } else if (!has_arrays) { /* the integer's axis, of length 1, is removed */
            e->order.at[e->order.n++] = rest++;
            e->shape.at[e->shape.n++] = 1;
        } else if (in_place) {
            add_axes(e, shared, 0);
            in_place = false;
        }
        axis++;
    }
    return true;
}

static bool parse(weft_array *x, const weft_index_item *items, int n, expression *e,
                  weft_array **failed)
{
    weft_index_item all[3 * WEFT_MAX_DIMS];
    weft_dims shared, shape = weft_shape(x);
    bool has_arrays = false;
    *e = (expression){0};
    *failed = x;
    if (!weft_ok(x)) {
        return false;
    }
    int count = all_items(items, n, shape.n, all, failed);
    for (int i = 0; i < count; i++) {
        has_arrays = has_arrays || all[i].kind == WEFT_INDEX_ARRAY;
    }
    for (int i = 0, axis = 0; i < count; i++) {
        if (all[i].kind != WEFT_INDEX_NEWAXIS) {
            if (!slice_axis_by(&all[i], shape.at[axis], axis, shape.n, has_arrays, &e->slice,
                               failed)) {
                return false;
            }
            axis++;
        }
    }
    weft_array *bad = count >= 0 && has_arrays ? collect_points(all, count, x, e, &shared) : NULL;
    *failed = bad ? bad : *failed;
    if (count < 0 || bad) {
        return false;
    }
    if (!lay_out(all, count, &shared, shape.n, e)) {
        *failed = weft_error_array("index: the result has more than %d axes", WEFT_MAX_DIMS);
        return false;
    }
    return true;
}

/* Slices x, without a node if the slice is all of x. */
static weft_array *sliced(weft_array *x, const weft_slice_params *p)
{
    weft_dims stops = p->starts;
    for (int i = 0; i < p->axes.n; i++) {
        int64_t stop = p->starts.at[i] + p->sizes.at[i] * p->steps.at[i];
        stops.at[i] = stop < 0 ? INT64_MIN : stop;
    }
    return weft_slice(x, p->axes, p->starts, stops, p->steps);
}

weft_array *weft_index(weft_array *x, const weft_index_item *items, int n)
{
    weft_scope_open();
    expression e;
    weft_array *failed;
    if (!parse(x, items, n, &e, &failed)) {
        return weft_scope_close(failed);
    }
    weft_array *y = sliced(x, &e.slice);
    if (e.points.k > 0) {
        y = weft_transpose(weft__take_points(y, &e.points), e.order);
    }
    return weft_scope_close(weft_reshape(y, e.full));
}

static weft_array *update(weft_array *x, const weft_index_item *items, int n, weft_array *values,
                          weft_combine combine)
{
    expression e;
    weft_array *failed;
    if (!parse(x, items, n, &e, &failed) || !weft_ok(values)) {
        return weft_ok(x) && !weft_ok(values) ? values : failed;
    }
    values = weft_broadcast_to(weft_astype(values, weft_dtype_of(x)), e.full);
    values = weft_reshape(values, e.shape);
    if (e.points.k == 0) {
        return weft__slice_combine(x, values, &e.slice, combine);
    }
    weft_dims back = {.n = e.order.n};
    for (int i = 0; i < e.order.n; i++) {
        back.at[e.order.at[i]] = i;
    }
    weft_array *part = sliced(x, &e.slice);
    weft_array *y = weft__scatter_points(part, &e.points, weft_transpose(values, back), combine);
    return part == x ? y : weft__slice_combine(x, y, &e.slice, WEFT_COMBINE_PUT);
}

weft_array *weft_index_update(weft_array *x, const weft_index_item *items, int n,
                              weft_array *values)
{
    weft_scope_open();
    return weft_scope_close(update(x, items, n, values, WEFT_COMBINE_PUT));
}

weft_array *weft_index_add(weft_array *x, const weft_index_item *items, int n, weft_array *values)
{
    weft_scope_open();
    return weft_scope_close(update(x, items, n, values, WEFT_COMBINE_ADD));
}

weft_array *weft_index_multiply(weft_array *x, const weft_index_item *items, int n,
                                weft_array *values)
{
    weft_scope_open();
    return weft_scope_close(update(x, items, n, values, WEFT_COMBINE_PROD));
}

weft_array *weft_index_maximum(weft_array *x, const weft_index_item *items, int n,
                               weft_array *values)
{
    weft_scope_open();
    return weft_scope_close(update(x, items, n, values, WEFT_COMBINE_MAX));
}

weft_array *weft_index_minimum(weft_array *x, const weft_index_item *items, int n,
                               weft_array *values)
{
    weft_scope_open();
    return weft_scope_close(update(x, items, n, values, WEFT_COMBINE_MIN));
}
