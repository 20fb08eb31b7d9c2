/* ops/matrices.c -- diagonals, triangles and grids, which depend on the position of an element. */
#include "ops/kernel.h"

/* 0, 1, ..., n - 1 along `axis` (-2: a column, -1: a row), plus k. */
static weft_array *places(int64_t n, int axis, int64_t k)
{
    weft_dtype dtype = k >= INT32_MIN && k + n <= INT32_MAX ? WEFT_INT32 : WEFT_INT64;
    weft_array *along = weft_arange_int(k, k + n, 1, dtype);
    return axis == -1 ? along : weft_expand_dims(along, -1);
}

/* Clamps k to the range that makes a difference: none or all columns are past the diagonal. */
static int64_t within(int64_t k, int64_t rows, int64_t columns)
{
    return k > columns ? columns : k < -rows ? -rows : k;
}

/* Whether row + k equals the column, as bool (rows, columns). */
static weft_array *on_diagonal(int64_t rows, int64_t columns, int64_t k)
{
    k = within(k, rows, columns);
    return weft_equal(places(rows, -2, k), places(columns, -1, 0));
}

/* Whether the column is at most row + k. */
static weft_array *below_diagonal(int64_t rows, int64_t columns, int64_t k)
{
    k = within(k, rows, columns);
    return weft_greater_equal(places(rows, -2, k), places(columns, -1, 0));
}

/* False: *result is an error array, or the empty matrix. */
static bool has_elements(const char *op, int64_t rows, int64_t columns, weft_dtype dtype,
                         weft_array **result)
{
    int64_t size;
    if (rows < 0 || columns < 0 || __builtin_mul_overflow(rows, columns, &size) ||
        size > INT64_MAX / 8) {
        *result = weft_error_array("%s: expected lengths of at least 0 with fewer than 2^60 "
                                   "elements, got %lld and %lld",
                                   op, (long long)rows, (long long)columns);
        return false;
    }
    *result = size == 0 ? weft_zeros(WEFT_DIMS(rows, columns), dtype) : NULL;
    return size > 0;
}

weft_array *weft_eye(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype)
{
    weft_array *done;
    if (!has_elements("eye", rows, columns, dtype, &done)) {
        return done;
    }
    weft_scope_open();
    return weft_scope_close(weft_astype(on_diagonal(rows, columns, k), dtype));
}

weft_array *weft_identity(int64_t n, weft_dtype dtype)
{
    return weft_eye(n, n, 0, dtype);
}

weft_array *weft_tri(int64_t rows, int64_t columns, int64_t k, weft_dtype dtype)
{
    weft_array *done;
    if (!has_elements("tri", rows, columns, dtype, &done)) {
        return done;
    }
    weft_scope_open();
    return weft_scope_close(weft_astype(below_diagonal(rows, columns, k), dtype));
}

/* x where the column is at most row + k (lower), or elsewhere (not lower); 0 in the other
 * positions. */
static weft_array *triangle(const char *op, weft_array *x, int64_t k, bool lower)
{
    if (!weft_ok(x)) {
        return x;
    }
    if (weft_ndim(x) < 2) {
        return weft_error_array("%s: expected at least 2 axes, got %d", op, weft_ndim(x));
    }
    if (weft_size(x) == 0) {
        return x;
    }
    weft_scope_open();
    weft_array *below = below_diagonal(weft_dim(x, -2), weft_dim(x, -1), k);
    weft_array *zero = weft_scalar(0, weft_dtype_of(x));
    return weft_scope_close(lower ? weft_where(below, x, zero) : weft_where(below, zero, x));
}

weft_array *weft_tril(weft_array *x, int64_t k)
{
    return triangle("tril", x, k, true);
}

weft_array *weft_triu(weft_array *x, int64_t k)
{
    return triangle("triu", x, k > INT64_MIN ? k - 1 : k, false);
}

/* ---- diagonals ------------------------------------------------------------------------------ */

/* In row-major order the diagonal of rows of N elements is every (N + 1)th element. */
weft_array *weft_diagonal(weft_array *x, int64_t offset, int axis1, int axis2)
{
    if (!weft_ok(x)) {
        return x;
    }
    int ndim = weft_ndim(x), a = axis1 < 0 ? axis1 + ndim : axis1;
    int b = axis2 < 0 ? axis2 + ndim : axis2;
    if (a < 0 || a >= ndim || b < 0 || b >= ndim || a == b) {
        return weft_error_array("diagonal: expected two different axes of %d, got %d and %d", ndim,
                                axis1, axis2);
    }
    weft_dims order = {.n = ndim};
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (i != a && i != b) {
            order.at[n++] = i;
        }
    }
    order.at[n] = a;
    order.at[n + 1] = b;
    int64_t rows = weft_dim(x, a), columns = weft_dim(x, b);
    offset = within(offset, rows, columns);
    int64_t down = offset < 0 ? -offset : 0, along = offset > 0 ? offset : 0;
    int64_t length = rows - down < columns - along ? rows - down : columns - along;
    int64_t first = length > 0 ? down * columns + along : 0;
    int64_t stop = length > 0 ? first + (length - 1) * (columns + 1) + 1 : 0;
    weft_scope_open();
    weft_array *flat = weft_flatten(weft_transpose(x, order), -2, -1);
    return weft_scope_close(
        weft_slice(flat, WEFT_DIMS(-1), WEFT_DIMS(first), WEFT_DIMS(stop), WEFT_DIMS(columns + 1)));
}

/* Pads the vector with zeros: row i gets element i - down, if that exists. */
weft_array *weft_diag(weft_array *x, int64_t k)
{
    if (weft_ok(x) && weft_ndim(x) == 2) {
        return weft_diagonal(x, k, 0, 1);
    }
    if (!weft_ok(x) || weft_ndim(x) != 1) {
        return weft_ok(x) ? weft_error_array("diag: expected 1 or 2 axes, got %d", weft_ndim(x))
                          : x;
    }
    int64_t most = INT64_C(1) << 30; /* a matrix of 2^60 elements */
    if (k < -most || k > most) {
        return weft_error_array("diag: expected a diagonal from -2^30 to 2^30, got %lld",
                                (long long)k);
    }
    int64_t down = k < 0 ? -k : 0, along = k > 0 ? k : 0, n = weft_size(x) + down + along;
    weft_scope_open();
    weft_array *rows = weft_expand_dims(weft_pad(x, 0, down, along, 0), -1);
    weft_array *zero = weft_scalar(0, weft_dtype_of(x));
    return weft_scope_close(weft_where(on_diagonal(n, n, k), rows, zero));
}

/* ---- grids ---------------------------------------------------------------------------------- */

void weft_meshgrid(weft_array *const *arrays, int n, bool sparse, bool matrix_order,
                   weft_array **out)
{
    if (n > WEFT_MAX_DIMS) {
        weft_array *failed =
            weft_error_array("meshgrid: expected at most %d arrays, got %d", WEFT_MAX_DIMS, n);
        for (int i = 0; i < n; i++) {
            out[i] = failed;
        }
        return;
    }
    weft_dims full = {.n = n};
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        int axis = !matrix_order && n > 1 && i < 2 ? 1 - i : i;
        weft_dims shape = {.n = n};
        for (int d = 0; d < n; d++) {
            shape.at[d] = 1;
        }
        shape.at[axis] = full.at[axis] = weft_size(arrays[i]);
        out[i] = weft_reshape(arrays[i], shape);
    }
    for (int i = 0; i < n && !sparse; i++) {
        out[i] = weft_broadcast_to(out[i], full);
    }
    weft_scope_close_n(out, n);
}
