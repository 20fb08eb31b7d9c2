/* ops/linalg/inverse.c -- inverses and pseudo-inverses. */
#include "ops/linalg/linalg.h"

weft_array *weft_inv(weft_array *a)
{
    weft_scope_open();
    weft_array *x = weft__matrix("inv", a, true);
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    return weft_scope_close(weft__as_given(weft_solve(x, weft__identity(x, weft_dim(x, -1))), a));
}

weft_array *weft_tri_inv(weft_array *a, bool upper)
{
    weft_scope_open();
    weft_array *x = weft__matrix("tri_inv", a, true);
    if (!weft_ok(x)) {
        return weft_scope_close(x);
    }
    weft_array *eye = weft__identity(x, weft_dim(x, -1));
    return weft_scope_close(weft__as_given(weft_solve_triangular(x, eye, upper), a));
}

/* ---- pseudo-inverse ------------------------------------------------------------------------- */

/* v diag(1 / s) u^H over the singular values that are not 0 up to rounding. */
static void pinv_expand(weft_array *node, weft_array **outs)
{
    weft_array *a = weft_node_input(node, 0), *u, *s, *vh;
    int64_t m = weft_dim(a, -2), n = weft_dim(a, -1);
    if (m == 0 || n == 0) {
        outs[0] = weft__zeros_on_device_of(a, weft_node_spec(node, 0)->shape, weft_dtype_of(a));
        return;
    }
    weft_svd(a, false, &u, &s, &vh);
    double epsilon = weft_dtype_of(a) == WEFT_FLOAT64 ? 0x1p-52 : 0x1p-23;
    weft_array *largest = weft_max(s, WEFT_DIMS(-1), true);
    weft_array *cut = weft_scale(largest, epsilon * (double)(m > n ? m : n));
    weft_array *counts = weft_greater(s, cut);
    weft_array *one = weft_ones_like(s), *zero = weft_zeros_like(s);
    weft_array *inverse = weft_divide(one, weft_where(counts, s, one));
    /* NaN for matrices with NaN, since comparisons with NaN are false. */
    weft_array *rest = weft_where(weft_isnan(s), s, zero);
    weft_array *scaled = weft__scale_columns(weft__adjoint(vh), weft_where(counts, inverse, rest));
    outs[0] = weft_matmul(scaled, weft__adjoint(u));
}

/* dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P (Golub & Pereyra 1973), valid where
 * the rank is locally constant; equal singular values cause no problem. */
static void pinv_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *p = node, *dp = cts[0];
    if (!wanted[0]) {
        return;
    }
    weft_array *ph = weft__adjoint(p), *dh = weft__adjoint(dp);
    weft_array *first = weft_matmul(ph, weft_matmul(dp, ph));
    weft_array *second = weft_matmul(weft_matmul(dh, p), ph);
    second = weft_subtract(second, weft_matmul(a, weft_matmul(p, second)));
    weft_array *third = weft_matmul(ph, weft_matmul(p, dh));
    third = weft_subtract(third, weft_matmul(weft_matmul(third, p), a));
    grads[0] = weft_subtract(weft_add(second, third), first);
}

static bool pinv_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_matrix(node, 0, why)) {
        return false;
    }
    shape = weft__with_core(&shape, shape.at[shape.n - 1], shape.at[shape.n - 2]);
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case pinv_cases[] = {
    {.name = "square", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4), .dominant = true}}},
    {.name = "tall", .n_inputs = 1, .in = {{.shape = DIMS(2, 5, 3)}}},
    {.name = "wide", .n_inputs = 1, .in = {{.shape = DIMS(3, 6)}}},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 2)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 3)}}},
};

const weft_op weft_op_pinv = {
    .name = "pinv",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .infer = pinv_infer,
    .vjp = pinv_vjp,
    .takes_leading_axis = true,
    .expand = pinv_expand,
    .cases = pinv_cases,
    .n_cases = sizeof pinv_cases / sizeof *pinv_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-18, /* conditioning */
};

weft_array *weft_pinv(weft_array *a)
{
    weft_scope_open();
    return weft_scope_close(
        weft__as_given(apply1(&weft_op_pinv, weft__matrix("pinv", a, false), NULL), a));
}
