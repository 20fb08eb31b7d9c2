/* ops/linalg/norm.c -- norms of vectors and matrices, composed of other ops. */
#include <math.h>

#include "ops/linalg/linalg.h"

/* s^exponent for s >= 0, with derivative 0 at 0, where the norm is not differentiable. */
static weft_array *root(weft_array *s, double exponent)
{
    weft_array *zero = weft_zeros_like(s), *none = weft_equal(s, zero);
    weft_array *safe = weft_where(none, weft_ones_like(s), s);
    weft_array *power = exponent == 0.5 ? weft_sqrt(safe) : weft_power_scalar(safe, exponent);
    weft_array *at_zero = exponent < 0 ? weft_add_scalar(zero, INFINITY) : zero;
    return weft_where(none, at_zero, power);
}

/* |x|^2, not computed as the square of |x|, which has no second derivative at 0. */
static weft_array *squared(weft_array *x)
{
    if (weft_dtype_of(x) == WEFT_COMPLEX64) {
        return weft_add(weft_square(weft_real(x)), weft_square(weft_imag(x)));
    }
    return weft_square(x);
}

static weft_array *euclidean(weft_array *x, weft_dims axes, bool keepdims)
{
    return root(weft_sum(squared(x), axes, keepdims), 0.5);
}

static weft_array *vector_norm(weft_array *x, double p, weft_dims axes, bool keepdims)
{
    weft_array *size = weft_abs(x);
    if (isinf(p)) {
        return p > 0 ? weft_max(size, axes, keepdims) : weft_min(size, axes, keepdims);
    }
    if (p == 0) {
        weft_array *counted = weft_not_equal(size, weft_zeros_like(size));
        return weft_sum(weft_astype(counted, weft_dtype_of(size)), axes, keepdims);
    }
    if (p == 1) {
        return weft_sum(size, axes, keepdims);
    }
    if (p == 2) {
        return euclidean(x, axes, keepdims);
    }
    return root(weft_sum(weft_power_scalar(size, p), axes, keepdims), 1 / p);
}

/* x with axes[0] and axes[1] moved to the end. */
static weft_array *as_matrices(weft_array *x, const weft_dims *axes)
{
    int n = weft_ndim(x);
    weft_dims order = {0};
    for (int i = 0; i < n; i++) {
        if (i - n != axes->at[0] && i - n != axes->at[1]) {
            order.at[order.n++] = i;
        }
    }
    order.at[order.n++] = axes->at[0] + n;
    order.at[order.n++] = axes->at[1] + n;
    return weft_transpose(x, order);
}

/* Inserts axes of length 1 where the matrix axes were. */
static weft_array *with_axes(weft_array *y, weft_array *x, const weft_dims *axes)
{
    weft_dims shape = weft_shape(x);
    shape.at[shape.n + axes->at[0]] = shape.at[shape.n + axes->at[1]] = 1;
    return weft_reshape(y, shape);
}

static weft_array *matrix_norm(weft_array *x, double p, const weft_dims *axes)
{
    weft_array *matrices = as_matrices(x, axes), *each;
    if (p == 1 || p == -1) {
        each = weft_sum(weft_abs(matrices), WEFT_DIMS(-2), false);
    } else if (isinf(p)) {
        each = weft_sum(weft_abs(matrices), WEFT_DIMS(-1), false);
    } else if (p == 2 || p == -2) {
        each = weft_svdvals(matrices);
    } else {
        return weft_error_array("norm: order %g of matrices: expected 1, -1, 2, -2 or +-infinity",
                                p);
    }
    return p > 0 ? weft_max(each, WEFT_DIMS(-1), false) : weft_min(each, WEFT_DIMS(-1), false);
}

/* Counts the axes from the end, in the given order, and checks them. */
static bool prepare(const char *op, weft_array *x, weft_dims *axes, weft_array **failed)
{
    weft_why why;
    if (!weft_ok(x)) {
        *failed = x;
        return false;
    }
    if (axes->n < 0) {
        axes->n = weft_ndim(x);
        for (int i = 0; i < axes->n; i++) {
            axes->at[i] = i;
        }
    }
    if (!weft__axes_in_order(axes, weft_ndim(x), axes, &why)) {
        *failed = weft_error_array("%s: %s", op, why.text);
        return false;
    }
    return true;
}

weft_array *weft_norm(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    weft_array *failed;
    if (!prepare("norm", x, &axes, &failed)) {
        return weft_scope_close(failed);
    }
    return weft_scope_close(weft__as_given(euclidean(weft__computed(x), axes, keepdims), x));
}

weft_array *weft_norm_p(weft_array *x, double p, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    weft_array *failed;
    if (!prepare("norm", x, &axes, &failed)) {
        return weft_scope_close(failed);
    }
    weft_array *y = weft__computed(x);
    if (isnan(p) || axes.n < 1 || axes.n > 2) {
        return weft_scope_close(
            weft_error_array("norm: order %g over %d axes: expected one axis or two", p, axes.n));
    }
    if (axes.n == 1) {
        return weft_scope_close(weft__as_given(vector_norm(y, p, axes, keepdims), x));
    }
    weft_array *norm = matrix_norm(y, p, &axes);
    return weft_scope_close(weft__as_given(keepdims ? with_axes(norm, x, &axes) : norm, x));
}

weft_array *weft_norm_nuclear(weft_array *x, weft_dims axes, bool keepdims)
{
    weft_scope_open();
    weft_array *failed;
    if (!prepare("norm_nuclear", x, &axes, &failed)) {
        return weft_scope_close(failed);
    }
    if (axes.n != 2) {
        return weft_scope_close(weft_error_array("norm_nuclear: %d axes, expected two", axes.n));
    }
    weft_array *values = weft_svdvals(as_matrices(weft__computed(x), &axes));
    weft_array *norm = weft_sum(values, WEFT_DIMS(-1), false);
    return weft_scope_close(weft__as_given(keepdims ? with_axes(norm, x, &axes) : norm, x));
}
