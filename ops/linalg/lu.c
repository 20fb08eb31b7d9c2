/* ops/linalg/lu.c -- LU factorization with partial pivoting: P A = L U for any matrix, including
 * singular ones. */
#include <math.h>

#include "ops/linalg/linalg.h"

/* The magnitude by which LAPACK selects pivots. */
static double magnitude(number z)
{
    return fabs(creal(z)) + fabs(cimag(z));
}

int64_t weft__lu(number *a, int64_t m, int64_t n, int64_t *pivots)
{
    int64_t zero = 0;
    for (int64_t k = 0; k < (m < n ? m : n); k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < m; i++) {
            best = magnitude(a[i * n + k]) > magnitude(a[best * n + k]) ? i : best;
        }
        pivots[k] = best;
        for (int64_t j = 0; j < n; j++) {
            number swap = a[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = swap;
        }
        if (a[k * n + k] == 0) {
            zero = zero ? zero : k + 1;
            continue;
        }
        for (int64_t i = k + 1; i < m; i++) {
            number factor = a[i * n + k] /= a[k * n + k];
            for (int64_t j = k + 1; j < n; j++) {
                a[i * n + j] -= factor * a[k * n + j];
            }
        }
    }
    return zero;
}

/* Stores for each row of A its row in L U: the row exchanges applied to the identity, last one
 * first. */
static void store_rows(const weft_tensor *out, int64_t b, int64_t m, const int64_t *pivots,
                       int64_t k, int64_t *rows)
{
    for (int64_t i = 0; i < m; i++) {
        rows[i] = i;
    }
    for (int64_t i = k - 1; i >= 0; i--) {
        int64_t swap = rows[i];
        rows[i] = rows[pivots[i]];
        rows[pivots[i]] = swap;
    }
    for (int64_t i = 0; i < m; i++) {
        weft_tensor_set_int(out, b * m + i, rows[i]);
    }
}

static weft_status lu_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    int64_t m = weft__rows_of(in), n = weft__columns_of(in), k = m < n ? m : n;
    number *a = weft__room(call, m * n + m + k);
    if (!a) {
        return WEFT_MEMORY;
    }
    int64_t *pivots = (int64_t *)(void *)(a + m * n), *rows = pivots + k;
    for (int64_t b = 0; b < weft__batches(in, 2); b++) {
        weft__load(in, b * m * n, m * n, a);
        if (weft__all_finite(a, m * n)) {
            weft__lu(a, m, n, pivots);
            weft__store(&call->out[0], b * m * n, m * n, a);
        } else {
            for (int64_t i = 0; i < k; i++) {
                pivots[i] = i;
            }
            weft__store_nan(&call->out[0], b * m * n, m * n);
        }
        for (int64_t i = 0; i < k; i++) {
            weft_tensor_set_int(&call->out[1], b * k + i, pivots[i]);
        }
        store_rows(&call->out[2], b, m, pivots, k, rows);
    }
    weft_free(a);
    return WEFT_OK;
}

/* ---- derivative ----------------------------------------------------------------------------- */

/* L (..., M, K) and U (..., K, N) of the packed factors. */
static weft_array *lower_of(weft_array *packed)
{
    int64_t m = weft_dim(packed, -2), n = weft_dim(packed, -1), k = m < n ? m : n;
    weft_array *left = weft__matrix_columns(packed, 0, k);
    weft_array *eye = weft__matrix_rows(weft__identity(packed, m), 0, m);
    return weft_add(weft__lower(left, -1), weft__matrix_columns(eye, 0, k));
}

static weft_array *upper_of(weft_array *packed)
{
    int64_t m = weft_dim(packed, -2), n = weft_dim(packed, -1);
    return weft__upper(weft__matrix_rows(packed, 0, m < n ? m : n), 0);
}

/* x u^{-H} */
static weft_array *over_adjoint(weft_array *x, weft_array *u)
{
    return weft__adjoint(weft_solve_triangular(u, weft__adjoint(x), true));
}

/* Reorders rows as in A: row i of the result is row rows[i] of x. */
static weft_array *unpermute(weft_array *x, weft_array *rows)
{
    weft_array *places = weft_astype(rows, WEFT_INT32);
    weft_array *spread = weft_broadcast_to(weft_expand_dims(places, -1), weft_shape(x));
    return weft_take_along_axis(x, spread, -2);
}

/* If A is not square, L = (L1; L2) or U = (U1, U2) with square L1 and U1. L2 = A2 U1^{-1} and U2 =
 * L1^{-1} P A2 contribute their gradients, whose effects on L1 and U1 are added to the gradient of
 * P A1 = L1 U1. */
static void lu_vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    if (!wanted[0] || !cts[0]) {
        return;
    }
    weft_array *packed = weft_pick(node, 0), *d = cts[0];
    int64_t m = weft_dim(packed, -2), n = weft_dim(packed, -1), k = m < n ? m : n;
    weft_array *l = lower_of(packed), *u = upper_of(packed);
    weft_array *l1 = weft__matrix_rows(l, 0, k), *u1 = weft__matrix_columns(u, 0, k);
    weft_array *d1 = weft__matrix_columns(weft__matrix_rows(d, 0, k), 0, k);
    weft_array *below = weft_matmul(weft__adjoint(l1), weft__lower(d1, -1));
    weft_array *above = weft_matmul(weft__upper(d1, 0), weft__adjoint(u1));
    weft_array *parts[2];
    if (n > k) {
        parts[1] = weft__matrix_columns(d, k, n);
        weft_array *u2 = weft__matrix_columns(u, k, n);
        below = weft_subtract(below, weft_matmul(parts[1], weft__adjoint(u2)));
    }
    if (m > k) {
        weft_array *l2 = weft__matrix_rows(l, k, m), *d2 = weft__matrix_rows(d, k, m);
        above = weft_subtract(above, weft_matmul(weft__adjoint(l2), d2));
        parts[1] = over_adjoint(d2, u1);
    }
    parts[0] = over_adjoint(weft_add(weft__lower(below, -1), weft__upper(above, 0)), u1);
    weft_array *up = weft__adjoint(l1), *g;
    if (m > k) {
        parts[0] = weft_solve_triangular(up, parts[0], true);
        g = weft_concatenate(parts, 2, -2);
    } else {
        g = n > k ? weft_concatenate(parts, 2, -1) : parts[0];
        g = weft_solve_triangular(up, g, true);
    }
    grads[0] = unpermute(g, weft_pick(node, 2));
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool lu_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_matrix(node, 0, why)) {
        return false;
    }
    int64_t m = shape.at[shape.n - 2], n = shape.at[shape.n - 1];
    weft_dims pivots = weft__with_core(&shape, m < n ? m : n, -1);
    weft_dims rows = weft__with_core(&shape, m, -1);
    return set_spec(&out[0], input_dtype(node, 0), &shape) &&
           set_spec(&out[1], WEFT_UINT32, &pivots) && set_spec(&out[2], WEFT_UINT32, &rows);
}

static const weft_case lu_cases[] = {
    {.name = "square", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4)}}},
    {.name = "tall", .n_inputs = 1, .in = {{.shape = DIMS(5, 3)}}},
    {.name = "wide", .n_inputs = 1, .in = {{.shape = DIMS(2, 3, 5)}}},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 3)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 3)}}},
};

const weft_op weft_op_lu = {
    .name = "lu",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = 3,
    .infer = lu_infer,
    .vjp = lu_vjp,
    .takes_leading_axis = true,
    .reference = lu_reference,
    .cases = lu_cases,
    .n_cases = sizeof lu_cases / sizeof *lu_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-18, /* conditioning */
};

static weft_array *apply(const char *op, weft_array *a)
{
    return apply1(&weft_op_lu, weft__matrix(op, a, false), NULL);
}

void weft_lu(weft_array *a, weft_array **p, weft_array **l, weft_array **u)
{
    weft_scope_open();
    weft_array *node = apply("lu", a);
    if (!weft_ok(node)) {
        *p = *l = *u = weft_scope_close(node);
        return;
    }
    *p = weft_pick(node, 2);
    *l = weft__as_given(lower_of(weft_pick(node, 0)), a);
    *u = weft__as_given(upper_of(weft_pick(node, 0)), a);
    close_with_three(p, l, u);
}

void weft_lu_factor(weft_array *a, weft_array **packed, weft_array **pivots)
{
    weft_scope_open();
    weft_array *node = apply("lu_factor", a);
    *packed = weft__as_given(weft_pick(node, 0), a);
    *pivots = weft_pick(node, 1);
    close_with(packed, pivots);
}
