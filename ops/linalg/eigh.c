/* ops/linalg/eigh.c -- eigenvalues and eigenvectors of Hermitian matrices. */
#include <math.h>

#include "ops/linalg/linalg.h"

enum { MAX_SWEEPS = 60 };

/* Rotates columns p and q of x (n, columns), or rows when `step` is 1: p := c p - s w q, q := s p +
 * c w q. */
static void rotate(number *x, int64_t n, int64_t stride, int64_t p, int64_t q, double c, double s,
                   number w)
{
    for (int64_t i = 0; i < n; i++) {
        number a = x[i * stride + p], b = w * x[i * stride + q];
        x[i * stride + p] = c * a - s * b;
        x[i * stride + q] = s * a + c * b;
    }
}

static void rotate_rows(number *x, int64_t n, int64_t p, int64_t q, double c, double s, number w)
{
    for (int64_t j = 0; j < n; j++) {
        number a = x[p * n + j], b = w * x[q * n + j];
        x[p * n + j] = c * a - s * b;
        x[q * n + j] = s * a + c * b;
    }
}

/* Cosine and sine of the rotation that makes ((alpha, size), (size, beta)) diagonal. */
static void rotation(double alpha, double beta, double size, double *c, double *s)
{
    double theta = (beta - alpha) / (2 * size);
    double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1));
    *c = 1 / hypot(t, 1);
    *s = t * *c;
}

/* One sweep over all pairs; returns whether any was rotated. */
static bool sweep(number *a, int64_t n, number *v)
{
    bool any = false;
    for (int64_t p = 0; p < n; p++) {
        for (int64_t q = p + 1; q < n; q++) {
            double size = cabs(a[p * n + q]), c, s;
            double alpha = creal(a[p * n + p]), beta = creal(a[q * n + q]);
            if (size <= 1e-17 * (fabs(alpha) + fabs(beta)) || size < 1e-300) {
                continue;
            }
            any = true;
            number w = conj(a[p * n + q]) / size;
            rotation(alpha, beta, size, &c, &s);
            rotate(a, n, n, p, q, c, s, w);
            rotate_rows(a, n, p, q, c, s, conj(w));
            a[p * n + q] = a[q * n + p] = 0;
            rotate(v, n, n, p, q, c, s, w);
        }
    }
    return any;
}

/* Sorts eigenvalues and their columns. */
static void sort_columns(double *w, number *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++) {
            best = w[j] < w[best] ? j : best;
        }
        double swap = w[i];
        w[i] = w[best];
        w[best] = swap;
        for (int64_t r = 0; r < n; r++) {
            number x = v[r * n + i];
            v[r * n + i] = v[r * n + best];
            v[r * n + best] = x;
        }
    }
}

bool weft__jacobi(number *a, int64_t n, double *w, number *v)
{
    for (int64_t i = 0; i < n; i++) {
        a[i * n + i] = creal(a[i * n + i]);
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = j > i ? conj(a[j * n + i]) : a[i * n + j];
            v[i * n + j] = i == j;
        }
    }
    int sweeps = 0;
    while (sweep(a, n, v)) {
        if (++sweeps == MAX_SWEEPS) {
            return false;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        w[i] = creal(a[i * n + i]);
    }
    sort_columns(w, v, n);
    for (int64_t i = 0; i < n; i++) {
        weft__fix_phase(v + i, n, n);
    }
    return true;
}

static weft_status eigh_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    int64_t n = weft__columns_of(in);
    number *a = weft__room(call, 2 * n * n + 2 * n);
    if (!a) {
        return WEFT_MEMORY;
    }
    weft_status status = WEFT_OK;
    number *v = a + n * n, *values = v + n * n;
    double *w = (double *)(values + n);
    for (int64_t b = 0; status == WEFT_OK && b < weft__batches(in, 2); b++) {
        weft__load(in, b * n * n, n * n, a);
        for (int64_t i = 0; i < n * n; i++) {
            a[i] = i % n > i / n ? 0 : a[i]; /* the upper triangle is not read */
        }
        if (!weft__all_finite(a, n * n)) {
            weft__store_nan(&call->out[0], b * n, n);
            if (call->n_outputs > 1) {
                weft__store_nan(&call->out[1], b * n * n, n * n);
            }
            continue;
        }
        if (!weft__jacobi(a, n, w, v)) {
            status = weft_fail(WEFT_INVALID, "eigh: matrix %lld of the batch does not converge",
                               (long long)b);
        }
        for (int64_t i = 0; i < n; i++) {
            values[i] = w[i];
        }
        weft__store(&call->out[0], b * n, n, values);
        if (call->n_outputs > 1) {
            weft__store(&call->out[1], b * n * n, n * n, v);
        }
    }
    weft_free(a);
    return status;
}

static void factors_of(weft_array *node, weft_array **w, weft_array **v)
{
    const weft_vectors_params *p = weft_node_params(node);
    if (p->vectors) {
        *w = weft_pick(node, 0);
        *v = weft_pick(node, 1);
    } else {
        weft_eigh(weft_node_input(node, 0), false, w, v);
    }
}

/* v (diag(dw) + f o (v^H dv - dv^H v) / 2) v^H with f_ij = 1 / (w_j - w_i) (Giles 2008), folded
 * into the triangle that the op reads. */
static void eigh_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const weft_vectors_params *p = weft_node_params(node);
    if (!wanted[0] || weft_size(node) == 0) {
        return;
    }
    weft_array *w, *v, *dv = p->vectors ? cts[1] : NULL, *inner = NULL;
    factors_of(node, &w, &v);
    if (cts[0]) {
        inner = weft__diagonal_matrix(weft_astype(cts[0], weft_dtype_of(v)));
    }
    if (dv) {
        weft_array *x = weft_matmul(weft__adjoint(v), dv);
        weft__gap_rules rules = {.spread = weft__largest(weft_expand_dims(w, -1)),
                                 .size = weft__largest(x)};
        if (cts[0]) {
            rules.lost = weft__off_diagonal(weft__lost_pairs(cts[0], weft__zero_columns(dv)));
        }
        x = weft_scale(weft_subtract(x, weft__adjoint(x)), 0.5);
        inner =
            weft__plus(inner, weft__over_gaps(weft__off_diagonal(x), weft__differences(w), rules));
    }
    weft_array *g = weft_matmul(v, weft_matmul(inner, weft__adjoint(v)));
    grads[0] = weft__fold_lower(g);
}

/* With p = v^H a' v: w' = diag(p), v' = v (f o p). A tangent that mixes vectors of equal
 * eigenvalues gives NaN. */
static void eigh_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_vectors_params *params = weft_node_params(node);
    weft_array *da = tangents[0], *w, *v;
    if (weft_size(node) == 0) {
        return;
    }
    factors_of(node, &w, &v);
    weft_array *lower = weft__lower(da, -1);
    weft_array *diagonal = weft__real_part(weft__diagonal_of(da));
    diagonal = weft__diagonal_matrix(weft_astype(diagonal, weft_dtype_of(v)));
    da = weft_add(weft_add(lower, weft__adjoint(lower)), diagonal);
    weft_array *p = weft_matmul(weft__adjoint(v), weft_matmul(da, v));
    out[0] = weft__real_part(weft__diagonal_of(p));
    if (params->vectors) {
        weft__gap_rules rules = {.spread = weft__largest(weft_expand_dims(w, -1)),
                                 .size = weft__largest(p)};
        out[1] =
            weft_matmul(v, weft__over_gaps(weft__off_diagonal(p), weft__differences(w), rules));
    }
}

static bool eigh_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_vectors_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_square(node, 0, why)) {
        return false;
    }
    weft_dims values = weft__with_core(&shape, shape.at[shape.n - 1], -1);
    set_spec(&out[0], weft__real_dtype(input_dtype(node, 0)), &values);
    set_spec(&out[1], input_dtype(node, 0), &shape);
    end_outputs(out, p->vectors ? 2 : 1);
    return true;
}

const weft_field weft__vectors_fields[] = {
    WEFT_FIELD(BOOL, weft_vectors_params, vectors),
    WEFT_FIELDS_END,
};

static const weft_vectors_params with = {true};
const weft_case weft__eigen_cases[EIGEN_CASES] = {
    {.name = "batch", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4)}}, .params = &with},
    {.name = "larger", .n_inputs = 1, .in = {{.shape = DIMS(7, 7)}}, .params = &with},
    {.name = "values", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4)}}},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(1, 1)}}, .params = &with},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 3)}}, .params = &with},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 0)}}, .params = &with},
};

const weft_op weft_op_eigh = {
    .name = "eigh",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = -4,
    .params_size = sizeof(weft_vectors_params),
    .params_fields = weft__vectors_fields,
    .infer = eigh_infer,
    .vjp = eigh_vjp,
    .jvp = eigh_jvp,
    .takes_leading_axis = true,
    .reference = eigh_reference,
    .cases = weft__eigen_cases,
    .n_cases = EIGEN_CASES,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-17, /* amplified by small gaps between eigenvalues */
};

/* The upper triangle of a is the lower triangle of its adjoint. */
static weft_array *apply(const char *op, weft_array *a, bool upper, bool vectors)
{
    weft_vectors_params params = {vectors};
    weft_array *x = weft__matrix(op, a, true);
    return apply1(&weft_op_eigh, upper ? weft__adjoint(x) : x, &params);
}

void weft_eigh(weft_array *a, bool upper, weft_array **values, weft_array **vectors)
{
    weft_scope_open();
    weft_array *node = apply("eigh", a, upper, true);
    *values = weft__as_given(weft_pick(node, 0), a);
    *vectors = weft__as_given(weft_pick(node, 1), a);
    close_with(values, vectors);
}

weft_array *weft_eigvalsh(weft_array *a, bool upper)
{
    weft_scope_open();
    return weft_scope_close(weft__as_given(weft_pick(apply("eigvalsh", a, upper, false), 0), a));
}
