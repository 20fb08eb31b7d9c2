/* ops/reduce/compare.c -- comparisons of whole arrays, and counting of elements that are not 0. */
#include "ops/reduce/reduce.h"

weft_array *weft_count_nonzero(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    weft_array *set = weft_not_equal(x, weft_scalar_int(0, weft_dtype_of(x)));
    return weft_scope_close(weft_sum(set, axes, keepdims));
}

static weft_array *all_of(weft_array *same)
{
    return weft_all(same, WEFT_ALL_AXES, false);
}

static weft_array *both_nan(weft_array *a, weft_array *b)
{
    return weft_logical_and(weft_isnan(a), weft_isnan(b));
}

weft_array *weft_array_equal(weft_array *a, weft_array *b, bool equal_nan)
{
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_ok(a) ? b : a;
    }
    weft_dims of_a = weft_shape(a), of_b = weft_shape(b);
    if (!weft__shape_equal(&of_a, &of_b)) {
        return weft_scalar_int(0, WEFT_BOOL);
    }
    weft_scope_open();
    weft_array *same = weft_equal(a, b);
    weft_class klass = weft_dtype_class(weft_promote(weft_dtype_of(a), weft_dtype_of(b)));
    if (equal_nan && (klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX)) {
        same = weft_logical_or(same, both_nan(a, b));
    }
    return weft_scope_close(all_of(same));
}

weft_array *weft_allclose(weft_array *a, weft_array *b, double rtol, double atol, bool equal_nan)
{
    weft_scope_open();
    return weft_scope_close(all_of(weft_isclose(a, b, rtol, atol, equal_nan)));
}
