/* ops/reduce/median.c -- medians, and traces. */
#include <math.h>

#include "ops/reduce/scan.h"

/* The median of each sorted row of `rows` (..., L): its middle element, or the mean of the two in
 * the middle. NaN if the row contains one, which is then last. */
static weft_array *middle_of(weft_array *rows)
{
    int64_t length = weft_dim(rows, -1);
    weft_array *sorted = weft__wide(weft_sort(rows, -1));
    weft_array *low = weft_slice_axis(sorted, -1, (length - 1) / 2, (length - 1) / 2 + 1);
    weft_array *high = weft_slice_axis(sorted, -1, length / 2, length / 2 + 1);
    weft_array *last = weft_slice_axis(sorted, -1, length - 1, length);
    weft_array *middle = low;
    if (length % 2 == 0) {
        middle = weft_add(weft_scale(low, 0.5), weft_scale(high, 0.5));
    }
    return weft_where(weft_isnan(last), last, middle);
}

weft_array *weft_median(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_dims from_end, back, shape, out = {0};
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &from_end, &why)) {
        return weft_error_array("median: %s", why.text);
    }
    weft_dims in = weft_shape(x);
    for (int i = 0, next = 0; i < in.n; i++) {
        bool reduced = next < from_end.n && from_end.at[next] == i - in.n;
        next += reduced;
        if (!reduced || keepdims) {
            out.at[out.n++] = reduced ? 1 : in.at[i];
        }
    }
    weft_scope_open();
    x = as_inexact(x);
    weft_array *rows = weft__axes_together(x, &from_end, &back, &shape);
    weft_array *y = weft_dim(rows, -1) == 0 ? weft_full(out, NAN, weft_dtype_of(x))
                                            : weft_reshape(middle_of(rows), out);
    return weft_scope_close(weft_astype(y, weft_dtype_of(x)));
}

weft_array *weft_trace(weft_array *x, int64_t offset, int axis_a, int axis_b)
{
    return weft_trace_as(x, offset, axis_a, axis_b, weft__sum_dtype(weft_dtype_of(x)));
}

weft_array *weft_trace_as(weft_array *x, int64_t offset, int axis_a, int axis_b, weft_dtype dtype)
{
    weft_scope_open();
    weft_array *diagonal = weft_astype(weft_diagonal(x, offset, axis_a, axis_b), dtype);
    return weft_scope_close(weft_astype(weft_sum(diagonal, WEFT_DIMS(-1), false), dtype));
}
