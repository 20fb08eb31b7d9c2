/* ops/linalg/graph.c -- matrix helpers on graph arrays, for derivatives and compositions. */
#include <math.h>

#include "ops/linalg/linalg.h"

weft_array *weft__computed(weft_array *x)
{
    weft_dtype dtype = weft_dtype_of(x);
    bool kept = dtype == WEFT_FLOAT64 || dtype == WEFT_COMPLEX64;
    return kept ? x : weft_astype(x, WEFT_FLOAT32);
}

weft_array *weft__as_given(weft_array *y, weft_array *x)
{
    weft_dtype dtype = weft_dtype_of(x);
    bool narrow = dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
    return narrow ? weft_astype(y, dtype) : y;
}

weft_array *weft__matrix(const char *op, weft_array *x, bool square)
{
    weft_dims shape = weft_shape(x);
    char text[WEFT_SHAPE_TEXT];
    if (!weft_ok(x)) {
        return x;
    }
    if (shape.n < 2 || (square && shape.at[shape.n - 1] != shape.at[shape.n - 2])) {
        return weft_error_array("%s: expected %s, got %s", op,
                                square ? "square matrices (..., N, N)" : "(..., M, N)",
                                weft__shape_text(&shape, text));
    }
    return weft__computed(x);
}

weft_array *weft__conj(weft_array *x)
{
    return weft_dtype_of(x) == WEFT_COMPLEX64 ? weft_conjugate(x) : x;
}

weft_array *weft__adjoint(weft_array *x)
{
    return weft__conj(weft_swapaxes(x, -1, -2));
}

weft_array *weft__real_part(weft_array *x)
{
    return weft_dtype_of(x) == WEFT_COMPLEX64 ? weft_real(x) : x;
}

/* Whether column - row >= diagonal, bool (m, n), on x's device. */
static weft_array *at_or_above(weft_array *x, int64_t m, int64_t n, int64_t diagonal)
{
    weft_array *row = weft_arange((double)diagonal, (double)(m + diagonal), 1, WEFT_INT32);
    weft_array *column = weft_arange(0, (double)n, 1, WEFT_INT32);
    weft_array *mask = weft_greater_equal(column, weft_expand_dims(row, -1));
    return weft_to(mask, weft_device_of(x));
}

static weft_array *on_diagonal(weft_array *x, int64_t n)
{
    weft_array *i = weft_arange(0, (double)n, 1, WEFT_INT32);
    return weft_to(weft_equal(i, weft_expand_dims(i, -1)), weft_device_of(x));
}

static weft_array *zero_on_device_of(weft_array *x)
{
    return weft__zeros_on_device_of(x, WEFT_SCALAR, weft_dtype_of(x));
}

weft_array *weft__upper(weft_array *x, int64_t diagonal)
{
    weft_array *mask = at_or_above(x, weft_dim(x, -2), weft_dim(x, -1), diagonal);
    return weft_where(mask, x, zero_on_device_of(x));
}

weft_array *weft__lower(weft_array *x, int64_t diagonal)
{
    weft_array *mask = at_or_above(x, weft_dim(x, -2), weft_dim(x, -1), diagonal + 1);
    return weft_where(mask, zero_on_device_of(x), x);
}

weft_array *weft__diagonal_of(weft_array *x)
{
    weft_array *kept = weft_where(on_diagonal(x, weft_dim(x, -1)), x, zero_on_device_of(x));
    return weft_sum(kept, WEFT_DIMS(-1), false);
}

weft_array *weft__diagonal_matrix(weft_array *d)
{
    return weft_where(on_diagonal(d, weft_dim(d, -1)), weft_expand_dims(d, -1),
                      zero_on_device_of(d));
}

weft_array *weft__identity(weft_array *like, int64_t n)
{
    weft_dims shape = weft_shape(like);
    shape.at[shape.n - 2] = shape.at[shape.n - 1] = n;
    weft_array *eye = weft_astype(on_diagonal(like, n), weft_dtype_of(like));
    return weft_broadcast_to(eye, shape);
}

weft_array *weft__scale_columns(weft_array *x, weft_array *d)
{
    return weft_multiply(x, weft_expand_dims(d, -2));
}

weft_array *weft__scale_rows(weft_array *d, weft_array *x)
{
    return weft_multiply(weft_expand_dims(d, -1), x);
}

weft_array *weft__matrix_columns(weft_array *x, int64_t from, int64_t to)
{
    return weft_slice_axis(x, -1, from, to);
}

weft_array *weft__matrix_rows(weft_array *x, int64_t from, int64_t to)
{
    return weft_slice_axis(x, -2, from, to);
}

weft_array *weft__plus(weft_array *a, weft_array *b)
{
    return !a ? b : !b ? a : weft_add(a, b);
}

weft_array *weft__largest(weft_array *x)
{
    return weft_max(weft_abs(x), WEFT_DIMS(-1, -2), true);
}

weft_array *weft__differences(weft_array *d)
{
    return weft_subtract(weft_expand_dims(d, -2), weft_expand_dims(d, -1));
}

weft_array *weft__off_diagonal(weft_array *x)
{
    return weft_where(on_diagonal(x, weft_dim(x, -1)), zero_on_device_of(x), x);
}

weft_array *weft__zero_columns(weft_array *x)
{
    return weft_equal_scalar(weft_max(weft_abs(x), WEFT_DIMS(-2), false), 0);
}

weft_array *weft__lost_pairs(weft_array *values, weft_array *unused)
{
    weft_array *pair = weft_logical_and(weft_expand_dims(unused, -1), weft_expand_dims(unused, -2));
    weft_array *same = weft_equal(weft_expand_dims(values, -1), weft_expand_dims(values, -2));
    return weft_logical_not(weft_logical_and(pair, same));
}

static weft_array *at_most(weft_array *x, double factor, weft_array *limit)
{
    return weft_less_equal(weft_abs(x), weft_scale(limit, factor));
}

weft_array *weft__over_gaps(weft_array *x, weft_array *gaps, weft__gap_rules rules)
{
    const double epsilon = weft_dtype_of(x) == WEFT_FLOAT64 ? 0x1p-52 : 0x1p-23;
    weft_array *zero = zero_on_device_of(x), *one = weft_ones_like(zero);
    weft_array *nan = weft_divide(zero, zero);
    weft_array *none = at_most(gaps, 16 * epsilon, rules.spread);
    weft_array *noise = weft_logical_and(at_most(gaps, sqrt(epsilon), rules.spread),
                                         at_most(x, 256 * epsilon, rules.size));
    if (rules.lost) {
        noise = weft_logical_and(noise, weft_logical_not(rules.lost));
    }
    weft_array *kept =
        weft_where(weft_logical_or(none, noise), one, weft_astype(gaps, weft_dtype_of(x)));
    weft_array *ratio = weft_where(none, nan, weft_divide(x, kept));
    return weft_where(noise, zero, ratio);
}

weft_array *weft__fold_lower(weft_array *g)
{
    weft_array *both = weft_add(weft__lower(g, -1), weft__lower(weft__adjoint(g), -1));
    weft_array *diagonal = weft__real_part(weft__diagonal_of(g));
    return weft_add(both, weft_astype(weft__diagonal_matrix(diagonal), weft_dtype_of(g)));
}
