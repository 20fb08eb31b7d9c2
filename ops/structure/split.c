/* ops/structure/split.c -- splitting, repeating, tiling and rolling arrays: compositions of slice,
 * broadcast_to, reshape and concatenate. */
#include "ops/kernel.h"

static void fill_with(weft_array *a, weft_array **out, int n)
{
    for (int i = 0; i < n; i++) {
        out[i] = a;
    }
}

void weft_split(weft_array *x, int sections, int axis, weft_array **out)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("split", x, axis, &from_end, &failed)) {
        fill_with(failed, out, sections);
        return;
    }
    int64_t length = weft_dim(x, axis);
    if (sections < 1 || length % sections) {
        failed = weft_error_array("split: axis %d of size %lld into %d equal parts", axis,
                                  (long long)length, sections);
        fill_with(failed, out, sections);
        return;
    }
    int64_t part = length / sections;
    for (int i = 0; i < sections; i++) {
        out[i] = weft_slice_axis(x, axis, i * part, (i + 1) * part);
    }
}

void weft_split_at(weft_array *x, weft_dims at, int axis, weft_array **out)
{
    int64_t from = 0;
    weft_array *failed;
    if (!weft__list_fits("split", &at, &failed)) {
        fill_with(failed, out, WEFT_MAX_DIMS + 1);
        return;
    }
    for (int i = 0; i <= at.n; i++) {
        int64_t to = i < at.n ? at.at[i] : INT64_MAX;
        out[i] = weft_slice_axis(x, axis, from, to);
        from = to;
    }
}

void weft_unstack(weft_array *x, int axis, weft_array **out, int n)
{
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("unstack", x, axis, &from_end, &failed)) {
        fill_with(failed, out, n);
        return;
    }
    if (weft_dim(x, axis) != n) {
        failed = weft_error_array("unstack: axis %d has size %lld, expected %d", axis,
                                  (long long)weft_dim(x, axis), n);
        fill_with(failed, out, n);
        return;
    }
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        out[i] = weft_squeeze(weft_slice_axis(x, axis, i, i + 1), axis);
    }
    weft_scope_close_n(out, n);
}

weft_array *weft_repeat(weft_array *x, int64_t repeats, int axis)
{
    weft_scope_open();
    int64_t from_end;
    weft_array *failed;
    if (!weft__axis_from_end("repeat", x, axis, &from_end, &failed)) {
        return weft_scope_close(failed);
    }
    weft_dims shape = weft_shape(x);
    int64_t *length = &shape.at[from_end + shape.n];
    if (repeats < 0 || shape.n == WEFT_MAX_DIMS ||
        __builtin_mul_overflow(*length, repeats, length)) {
        return weft_scope_close(
            weft_error_array("repeat: %lld times an axis of rank %d", (long long)repeats, shape.n));
    }
    weft_array *apart = weft_expand_dims(x, (int)from_end + shape.n + 1);
    weft_dims wide = weft_shape(apart);
    wide.at[from_end + shape.n + 1] = repeats;
    return weft_scope_close(weft_reshape(weft_broadcast_to(apart, wide), shape));
}

weft_array *weft_tile(weft_array *x, weft_dims reps)
{
    weft_scope_open();
    weft_array *failed;
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__list_fits("tile", &reps, &failed)) {
        return weft_scope_close(failed);
    }
    weft_dims old = weft_shape(x), apart = {0}, wide = {0}, shape = {0};
    char text[WEFT_SHAPE_TEXT];
    int rank = old.n > reps.n ? old.n : reps.n;
    for (int i = 0; i < rank; i++) {
        int64_t length = i < rank - old.n ? 1 : old.at[i - (rank - old.n)], total;
        int64_t times = i < rank - reps.n ? 1 : reps.at[i - (rank - reps.n)];
        bool fits = apart.n + 1 + (times != 1) <= WEFT_MAX_DIMS;
        if (times < 0 || !fits || __builtin_mul_overflow(length, times, &total)) {
            return weft_scope_close(weft_error_array("tile: rank %d, repeated %s", old.n,
                                                     weft__shape_text(&reps, text)));
        }
        if (times != 1) {
            apart.at[apart.n++] = 1;
            wide.at[wide.n++] = times;
        }
        apart.at[apart.n++] = length;
        wide.at[wide.n++] = length;
        shape.at[shape.n++] = total;
    }
    return weft_scope_close(weft_reshape(weft_broadcast_to(weft_reshape(x, apart), wide), shape));
}

static weft_array *roll_axis(weft_array *x, int64_t shift, int axis)
{
    int64_t length = weft_dim(x, axis), by = length ? shift % length : 0;
    by += by < 0 ? length : 0;
    if (by == 0) {
        return x;
    }
    weft_array *parts[] = {weft_slice_axis(x, axis, length - by, length),
                           weft_slice_axis(x, axis, 0, length - by)};
    return weft_concatenate(parts, 2, axis);
}

weft_array *weft_roll(weft_array *x, weft_dims shifts, weft_dims axes)
{
    weft_scope_open();
    int64_t from_end;
    weft_array *failed;
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    if (!weft__list_fits("roll", &shifts, &failed) || !weft__list_fits("roll", &axes, &failed)) {
        return weft_scope_close(failed);
    }
    if (axes.n < 0) {
        weft_array *flat = weft_reshape(x, WEFT_DIMS(weft_size(x)));
        for (int i = 0; i < shifts.n; i++) {
            flat = roll_axis(flat, shifts.at[i], 0);
        }
        return weft_scope_close(weft_reshape(flat, weft_shape(x)));
    }
    if (axes.n != shifts.n && shifts.n != 1) {
        return weft_scope_close(weft_error_array("roll: %d shifts for %d axes", shifts.n, axes.n));
    }
    for (int i = 0; i < axes.n; i++) {
        if (!weft__axis_from_end("roll", x, axes.at[i], &from_end, &failed)) {
            return weft_scope_close(failed);
        }
        x = roll_axis(x, shifts.at[shifts.n == 1 ? 0 : i], (int)from_end);
    }
    return weft_scope_close(x);
}

/* `part` broadcast to x's shape except along the axis; a 0-d part has length 1 there. */
static weft_array *join_along(weft_array *part, weft_array *x, int64_t axis)
{
    weft_dims shape = weft_shape(x);
    int n = weft_ndim(part);
    shape.at[axis + shape.n] = n + axis >= 0 ? weft_dim(part, (int)axis) : 1;
    return weft_broadcast_to(part, shape);
}

weft_array *weft_diff(weft_array *x, int n, int axis, weft_array *prepend, weft_array *append)
{
    weft_scope_open();
    int64_t from_end;
    weft_array *failed, *parts[3];
    int count = 0;
    if (!weft__axis_from_end("diff", x, axis, &from_end, &failed)) {
        return weft_scope_close(failed);
    }
    if (n < 0) {
        return weft_scope_close(
            weft_error_array("diff: expected an order of 0 or more, got %d", n));
    }
    if (n > 0 && prepend) {
        parts[count++] = join_along(prepend, x, from_end);
    }
    parts[count++] = x;
    if (n > 0 && append) {
        parts[count++] = join_along(append, x, from_end);
    }
    weft_array *y = count > 1 ? weft_concatenate(parts, count, (int)from_end) : x;
    int64_t orders = n < weft_dim(y, (int)from_end) ? n : weft_dim(y, (int)from_end);
    for (int64_t i = 0; i < orders && weft_ok(y); i++) {
        weft_array *later = weft_slice_axis(y, (int)from_end, 1, INT64_MAX);
        weft_array *earlier = weft_slice_axis(y, (int)from_end, 0, weft_dim(later, (int)from_end));
        bool logical = weft_dtype_of(y) == WEFT_BOOL;
        y = logical ? weft_not_equal(later, earlier) : weft_subtract(later, earlier);
    }
    return weft_scope_close(y);
}
