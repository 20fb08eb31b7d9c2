/* ops/products/products.c -- products composed of matmul: addmm, tensordot, outer, inner, vecdot,
 * kron. */
#include "ops/kernel.h"

weft_array *weft_addmm(weft_array *c, weft_array *a, weft_array *b, double alpha, double beta)
{
    weft_scope_open();
    weft_array *product = weft_matmul(a, b);
    product = alpha == 1 ? product : weft_scale(product, alpha);
    return weft_scope_close(weft_add(product, beta == 1 ? c : weft_scale(c, beta)));
}

/* ---- tensordot ------------------------------------------------------------------------------ */

/* An operand as a matrix, with its kept axes before its summed axes (or after them). */
typedef struct factor {
    weft_dims order, kept, matrix;
} factor;

static void arrange(const weft_dims *shape, const weft_dims *axes, bool sum_first, factor *f)
{
    bool summed[WEFT_MAX_DIMS] = {false};
    int64_t kept = 1, terms = 1;
    for (int i = 0; i < axes->n; i++) {
        summed[axes->at[i]] = true;
        terms *= shape->at[axes->at[i]];
    }
    *f = (factor){0};
    int first_kept = sum_first ? axes->n : 0, first_summed = sum_first ? 0 : shape->n - axes->n;
    for (int i = 0; i < shape->n; i++) {
        if (!summed[i]) {
            f->order.at[first_kept + f->kept.n] = i;
            f->kept.at[f->kept.n++] = shape->at[i];
            kept *= shape->at[i];
        }
    }
    for (int i = 0; i < axes->n; i++) {
        f->order.at[first_summed + i] = axes->at[i];
    }
    f->order.n = shape->n;
    f->matrix = sum_first ? WEFT_DIMS(terms, kept) : WEFT_DIMS(kept, terms);
}

/* Counts the axes from the front; they must be distinct and in range. */
static bool front_axes(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why)
{
    if (!weft__axes_in_order(axes, ndim, out, why)) {
        return false;
    }
    for (int i = 0; i < out->n; i++) {
        out->at[i] += ndim;
    }
    return true;
}

static bool check_pairs(weft_array *a, weft_array *b, const weft_dims *a_axes,
                        const weft_dims *b_axes, weft_why *why)
{
    if (a_axes->n != b_axes->n) {
        return weft_because(why, "%d axes of a and %d of b", a_axes->n, b_axes->n);
    }
    for (int i = 0; i < a_axes->n; i++) {
        int64_t a_size = weft_dim(a, (int)a_axes->at[i]), b_size = weft_dim(b, (int)b_axes->at[i]);
        if (a_size != b_size) {
            return weft_because(why, "axis %lld of a has %lld elements, axis %lld of b %lld",
                                (long long)a_axes->at[i], (long long)a_size,
                                (long long)b_axes->at[i], (long long)b_size);
        }
    }
    int rank = weft_ndim(a) + weft_ndim(b) - 2 * a_axes->n;
    return rank <= WEFT_MAX_DIMS ||
           weft_because(why, "the result has rank %d, more than %d", rank, WEFT_MAX_DIMS);
}

static weft_array *as_matrix(weft_array *x, const factor *f)
{
    return weft_reshape(weft_transpose(x, f->order), f->matrix);
}

weft_array *weft_tensordot(weft_array *a, weft_array *b, weft_dims a_axes, weft_dims b_axes)
{
    weft_scope_open();
    weft_why why;
    weft_dims a_front, b_front;
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_scope_close(weft_ok(a) ? b : a);
    }
    if (!front_axes(&a_axes, weft_ndim(a), &a_front, &why) ||
        !front_axes(&b_axes, weft_ndim(b), &b_front, &why) ||
        !check_pairs(a, b, &a_front, &b_front, &why)) {
        return weft_scope_close(weft_error_array("tensordot: %s", why.text));
    }
    weft_dims a_shape = weft_shape(a), b_shape = weft_shape(b);
    factor left, right;
    arrange(&a_shape, &a_front, false, &left);
    arrange(&b_shape, &b_front, true, &right);
    weft_array *product = weft_matmul(as_matrix(a, &left), as_matrix(b, &right));
    weft_dims shape = left.kept;
    for (int i = 0; i < right.kept.n; i++) {
        shape.at[shape.n++] = right.kept.at[i];
    }
    return weft_scope_close(weft_reshape(product, shape));
}

weft_array *weft_tensordot_n(weft_array *a, weft_array *b, int n)
{
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_ok(a) ? b : a;
    }
    if (n < 0 || n > weft_ndim(a) || n > weft_ndim(b)) {
        return weft_error_array("tensordot: %d axes of operands of rank %d and %d", n, weft_ndim(a),
                                weft_ndim(b));
    }
    weft_dims a_axes = {.n = n}, b_axes = {.n = n};
    for (int i = 0; i < n; i++) {
        a_axes.at[i] = i - n;
        b_axes.at[i] = i;
    }
    return weft_tensordot(a, b, a_axes, b_axes);
}

/* ---- The others ----------------------------------------------------------------------------- */

weft_array *weft_outer(weft_array *a, weft_array *b)
{
    weft_scope_open();
    return weft_scope_close(
        weft_multiply(weft_reshape(a, WEFT_DIMS(-1, 1)), weft_reshape(b, WEFT_DIMS(1, -1))));
}

weft_array *weft_inner(weft_array *a, weft_array *b)
{
    weft_scope_open();
    if (!weft_ok(a) || !weft_ok(b) || weft_ndim(a) == 0 || weft_ndim(b) == 0) {
        return weft_scope_close(weft_multiply(a, b));
    }
    return weft_scope_close(weft_tensordot(a, b, WEFT_DIMS(-1), WEFT_DIMS(-1)));
}

/* Moves the axis to the end and adds an axis of length 1: (..., 1, K) or (..., K, 1). */
static weft_array *as_vectors(weft_array *x, int axis, int other)
{
    weft_dims order = {.n = weft_ndim(x)};
    int front = weft__axis_front(axis, order.n), n = 0;
    for (int i = 0; i < order.n; i++) {
        if (i != front) {
            order.at[n++] = i;
        }
    }
    order.at[n] = front;
    return weft_expand_dims(weft_transpose(x, order), other);
}

weft_array *weft_vecdot(weft_array *a, weft_array *b, int axis)
{
    weft_scope_open();
    weft_array *failed;
    int64_t unused;
    if (!weft__axis_from_end("vecdot", a, axis, &unused, &failed) ||
        !weft__axis_from_end("vecdot", b, axis, &unused, &failed)) {
        return weft_scope_close(failed);
    }
    a = weft_conjugate(a); /* as NumPy */
    weft_array *y = weft_matmul(as_vectors(a, axis, -2), as_vectors(b, axis, -1));
    return weft_scope_close(weft_squeeze(weft_squeeze(y, -1), -1));
}

weft_array *weft_kron(weft_array *a, weft_array *b)
{
    weft_scope_open();
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_scope_close(weft_ok(a) ? b : a);
    }
    int a_rank = weft_ndim(a), b_rank = weft_ndim(b), rank = a_rank > b_rank ? a_rank : b_rank;
    if (2 * rank > WEFT_MAX_DIMS) {
        return weft_scope_close(weft_error_array("kron: ranks %d and %d: at most %d", a_rank,
                                                 b_rank, WEFT_MAX_DIMS / 2));
    }
    weft_dims wide_a = {.n = 2 * rank}, wide_b = {.n = 2 * rank}, shape = {.n = rank};
    for (int i = 0; i < rank; i++) {
        int in_a = i - rank + a_rank, in_b = i - rank + b_rank;
        int64_t m = in_a < 0 ? 1 : weft_dim(a, in_a), n = in_b < 0 ? 1 : weft_dim(b, in_b);
        wide_a.at[2 * i] = m;
        wide_a.at[2 * i + 1] = 1;
        wide_b.at[2 * i] = 1;
        wide_b.at[2 * i + 1] = n;
        shape.at[i] = m * n;
    }
    return weft_scope_close(
        weft_reshape(weft_multiply(weft_reshape(a, wide_a), weft_reshape(b, wide_b)), shape));
}
