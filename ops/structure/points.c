/* ops/structure/points.c -- reduces indexing on several axes to indexing on one: the axes from the
 * first to the last indexed one are joined, and axes between them without indices get an index that
 * covers all of them. */
#include "ops/batch.h"
#include "ops/structure/index.h"

weft_array *weft__ramp(weft_array *like, int64_t n, int axis, int rank)
{
    weft_dims shape = {.n = rank};
    for (int i = 0; i < rank; i++) {
        shape.at[i] = i == axis ? n : 1;
    }
    weft_array *ramp = weft_to(weft_arange(0, (double)n, 1, WEFT_INT64), weft_device_of(like));
    return weft_reshape(ramp, shape);
}

/* The layout after joining: dims `before` the joined axis, `gaps` (its axes without indices), and
 * `after` it. */
typedef struct merging {
    int before, gaps, after;
    int points;         /* rank of the indices' shape */
    weft_array *x;      /* (before, one axis, after) */
    weft_array *places; /* indices on the joined axis: (the indices' shape, gaps) */
} merging;

/* Row-major indices on the axes from the first to the last indexed one. */
static weft_array *places_of(weft_array *x, const weft__points *p, int points, int gaps)
{
    int first = p->axes[0], last = p->axes[p->k - 1], rank = points + gaps, gap = 0;
    weft_dims shape = weft_shape(x);
    int64_t total = 1;
    weft_array *sum = NULL;
    for (int a = first; a <= last; a++) {
        total *= shape.at[a];
    }
    weft_dtype dtype = total <= INT32_MAX ? WEFT_INT32 : WEFT_INT64;
    for (int a = first, k = 0; a <= last; a++) {
        weft_array *index;
        if (p->axes[k] == a) {
            weft_dims wide = weft_shape(p->indices[k]);
            for (int i = 0; i < gaps; i++) {
                wide.at[wide.n++] = 1;
            }
            index = weft__bounded(p->indices[k++], shape.at[a], WEFT_BOUNDS_CHECK);
            index = weft_reshape(index, wide);
        } else {
            index = weft__ramp(x, shape.at[a], points + gap++, rank);
        }
        index = weft_astype(index, dtype);
        sum = sum ? weft_multiply(sum, weft_scalar_int(shape.at[a], dtype)) : NULL;
        sum = sum ? weft_add(sum, index) : index;
    }
    return sum;
}

/* False: *failed is set. */
static bool merge(weft_array *x, const weft__points *p, merging *out, weft_array **failed)
{
    int first = p->axes[0], last = p->axes[p->k - 1];
    weft_dims shape = weft_shape(x), merged = {0};
    *out = (merging){.before = first, .gaps = last - first + 1 - p->k};
    out->after = shape.n - 1 - last;
    out->points = weft_ndim(p->indices[0]);
    if (out->points + shape.n - p->k > WEFT_MAX_DIMS) {
        *failed = weft_error_array("indexing: indices of rank %d on %d axes of rank %d",
                                   out->points, p->k, shape.n);
        return false;
    }
    for (int i = 0; i < shape.n; i++) {
        if (i > first && i <= last) {
            merged.at[merged.n - 1] *= shape.at[i];
        } else {
            merged.at[merged.n++] = shape.at[i];
        }
    }
    out->x = weft_reshape(x, merged);
    out->places = p->k == 1 ? p->indices[0] : places_of(x, p, out->points, out->gaps);
    *failed = weft_ok(out->x) ? out->places : out->x;
    return weft_ok(*failed);
}

/* The order of axes that turns (before, points, gaps, after) into (points, before, gaps, after), or
 * back. */
static weft_dims order_of(const merging *m, bool back)
{
    int outer = back ? m->points : m->before, inner = back ? m->before : m->points;
    weft_dims order = {.n = m->before + m->points + m->gaps + m->after};
    for (int i = 0; i < order.n; i++) {
        order.at[i] = i < inner ? i + outer : i < inner + outer ? i - inner : i;
    }
    return order;
}

weft_array *weft__take_points(weft_array *x, const weft__points *points)
{
    merging m;
    weft_array *failed;
    if (!merge(x, points, &m, &failed)) {
        return failed;
    }
    return weft_transpose(weft_take(m.x, m.places, m.before), order_of(&m, false));
}

weft_array *weft__scatter_points(weft_array *x, const weft__points *points, weft_array *updates,
                                 weft_combine combine)
{
    merging m;
    weft_array *failed;
    if (!merge(x, points, &m, &failed)) {
        return failed;
    }
    weft_array *values = weft_transpose(updates, order_of(&m, true));
    int64_t axis = m.before - weft_ndim(m.x);
    return weft_reshape(weft__scatter_rows(m.x, m.places, values, axis, combine), weft_shape(x));
}

/* The values of each example go to its own x, so the example's number becomes a further index. */
bool weft__scatter_vmap(weft_array *const *in, const bool *batched, int64_t size, int64_t axis,
                        weft_combine combine, weft_array **out)
{
    weft_array *x = batch_of(in[0], batched[0], size);
    weft_array *values = batch_of(in[2], batched[2], size);
    if (!batched[1]) {
        out[0] = weft__scatter_rows(x, in[1], values, axis, combine);
        return true;
    }
    weft_dims shape = weft_shape(in[1]);
    int front = (int)axis + weft_ndim(x), inner = shape.n - 1;
    weft_array *members = weft_broadcast_to(weft__ramp(x, size, 0, shape.n), shape);
    weft__points points = {2, {0, front}, {members, in[1]}};
    weft_dims order = {.n = weft_ndim(values)}; /* (B, before, I, after) -> (B, I, before, after) */
    for (int i = 0; i < order.n; i++) {
        order.at[i] = i == 0 || i >= front + inner ? i : i <= inner ? i + front - 1 : i - inner;
    }
    out[0] = weft__scatter_points(x, &points, weft_transpose(values, order), combine);
    return true;
}
