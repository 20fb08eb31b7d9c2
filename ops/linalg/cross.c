/* ops/linalg/cross.c -- the cross product of vectors of two or three components. */
#include "ops/linalg/linalg.h"

static weft_array *part(weft_array *x, int axis, int64_t i)
{
    return weft_slice_axis(x, axis, i, i + 1);
}

/* a_i b_j - a_j b_i; a missing third component is 0. */
static weft_array *minor(weft_array *a, weft_array *b, int axis, int i, int j)
{
    bool first = i < weft_dim(a, axis) && j < weft_dim(b, axis);
    bool second = j < weft_dim(a, axis) && i < weft_dim(b, axis);
    weft_array *x = first ? weft_multiply(part(a, axis, i), part(b, axis, j)) : NULL;
    weft_array *y = second ? weft_multiply(part(a, axis, j), part(b, axis, i)) : NULL;
    return x && y ? weft_subtract(x, y) : x ? x : weft_negative(y);
}

weft_array *weft_cross(weft_array *a, weft_array *b, int axis)
{
    weft_scope_open();
    int64_t a_axis, b_axis;
    weft_array *failed;
    if (!weft__axis_from_end("cross", a, axis, &a_axis, &failed) ||
        !weft__axis_from_end("cross", b, axis, &b_axis, &failed)) {
        return weft_scope_close(failed);
    }
    if (axis >= 0 && a_axis != b_axis) {
        return weft_scope_close(
            weft_error_array("cross: axis %d means different axes of ranks %d and %d; count it "
                             "from the end",
                             axis, weft_ndim(a), weft_ndim(b)));
    }
    int last = (int)a_axis;
    int64_t m = weft_dim(a, last), n = weft_dim(b, last);
    if (m < 2 || m > 3 || n < 2 || n > 3) {
        return weft_scope_close(
            weft_error_array("cross: vectors of %lld and %lld components, expected 2 or 3",
                             (long long)m, (long long)n));
    }
    if (m == 2 && n == 2) {
        return weft_scope_close(weft_squeeze(minor(a, b, last, 0, 1), last));
    }
    weft_array *parts[] = {minor(a, b, last, 1, 2), minor(a, b, last, 2, 0),
                           minor(a, b, last, 0, 1)};
    return weft_scope_close(weft_concatenate(parts, 3, last));
}
