/* ops/linalg/qr.c -- QR by Householder reflections (Golub & Van Loan, 5.2), with LAPACK's signs. */
#include <math.h>

#include "ops/linalg/linalg.h"

/* The reflection of n numbers at intervals of `step` to a real multiple of the first unit vector,
 * as in LAPACK's larfg: I - tau v v^H with v_0 = 1; the rest of v replaces x. */
static number reflect(number *x, int64_t n, int64_t step)
{
    double tail = 0;
    for (int64_t i = 1; i < n; i++) {
        tail = hypot(tail, cabs(x[i * step]));
    }
    if (tail == 0 && cimag(x[0]) == 0) {
        return 0;
    }
    double beta = -copysign(hypot(cabs(x[0]), tail), creal(x[0]));
    number tau = (beta - x[0]) / beta;
    for (int64_t i = 1; i < n; i++) {
        x[i * step] /= x[0] - beta;
    }
    x[0] = beta;
    return tau;
}

/* c := (I - factor v v^H) c for `columns` columns; v starts at the diagonal of a. */
static void apply_reflection(const number *v, int64_t v_step, int64_t n, number factor, number *c,
                             int64_t c_step, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        number dot = c[j];
        for (int64_t i = 1; i < n; i++) {
            dot += conj(v[i * v_step]) * c[i * c_step + j];
        }
        dot *= factor;
        c[j] -= dot;
        for (int64_t i = 1; i < n; i++) {
            c[i * c_step + j] -= v[i * v_step] * dot;
        }
    }
}

void weft__householder(number *a, int64_t m, int64_t n, number *tau)
{
    for (int64_t k = 0; k < (m < n ? m : n); k++) {
        number *pivot = a + k * n + k;
        tau[k] = reflect(pivot, m - k, n);
        apply_reflection(pivot, n, m - k, conj(tau[k]), pivot + 1, n, n - k - 1);
    }
}

void weft__householder_q(const number *a, int64_t m, int64_t n, const number *tau, number *q,
                         int64_t columns)
{
    for (int64_t i = 0; i < m * columns; i++) {
        q[i] = i / columns == i % columns;
    }
    for (int64_t k = (m < n ? m : n) - 1; k >= 0; k--) {
        apply_reflection(a + k * n + k, n, m - k, tau[k], q + k * columns + k, columns,
                         columns - k);
    }
}

static weft_status qr_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *q_out = &call->out[0], *r_out = &call->out[1];
    int64_t m = weft__rows_of(in), n = weft__columns_of(in), k = weft__columns_of(q_out);
    number *a = weft__room(call, m * n + m * k + m);
    if (!a) {
        return WEFT_MEMORY;
    }
    number *q = a + m * n, *tau = q + m * k;
    for (int64_t b = 0; b < weft__batches(in, 2); b++) {
        weft__load(in, b * m * n, m * n, a);
        if (!weft__all_finite(a, m * n)) {
            weft__store_nan(q_out, b * m * k, m * k);
            weft__store_nan(r_out, b * k * n, k * n);
            continue;
        }
        weft__householder(a, m, n, tau);
        weft__householder_q(a, m, n, tau, q, k);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n && j < i; j++) {
                a[i * n + j] = 0;
            }
        }
        weft__store(q_out, b * m * k, m * k, q);
        weft__store(r_out, b * k * n, k * n, a);
    }
    weft_free(a);
    return WEFT_OK;
}

/* ---- derivative ----------------------------------------------------------------------------- */

/* x r^{-H} for upper triangular r: the adjoint of r^{-1} x^H. */
static weft_array *over_adjoint(weft_array *x, weft_array *r)
{
    return weft__adjoint(weft_solve_triangular(r, weft__adjoint(x), true));
}

/* The strict upper triangle of x plus its adjoint plus the real diagonal: maps the cotangent of an
 * upper triangle to that of a Hermitian matrix. */
static weft_array *hermitian_of_upper(weft_array *x)
{
    weft_array *strict = weft__upper(x, 1);
    weft_array *diagonal = weft__real_part(weft__diagonal_of(x));
    return weft_add(weft_add(strict, weft__adjoint(strict)),
                    weft_astype(weft__diagonal_matrix(diagonal), weft_dtype_of(x)));
}

/* For a = q r where q has as many columns as a: (dq + q herm(triu(dr r^H - q^H dq))) r^{-H}
 * (Walter, Lehmann & Lamour 2010; Seeger et al. 2017). */
static weft_array *tall_gradient(weft_array *q, weft_array *r, weft_array *dq, weft_array *dr)
{
    weft_array *inner = NULL;
    if (dr) {
        inner = weft_matmul(dr, weft__adjoint(r));
    }
    if (dq) {
        inner = weft__plus(inner, weft_negative(weft_matmul(weft__adjoint(q), dq)));
    }
    weft_array *sum = weft__plus(weft_matmul(q, hermitian_of_upper(inner)), dq);
    return over_adjoint(sum, r);
}

/* In a complete q the columns beyond the first n depend on the first: q2^H dq1 = -(q1^H dq2)^H. So
 * the cotangent of q2 is moved to q1; rotations within q2 do not count. */
static weft_array *thin_cotangent(weft_array *q, weft_array *dq, int64_t n)
{
    weft_array *q1 = weft__matrix_columns(q, 0, n),
               *q2 = weft__matrix_columns(q, n, weft_dim(q, -1));
    weft_array *d1 = weft__matrix_columns(dq, 0, n),
               *d2 = weft__matrix_columns(dq, n, weft_dim(q, -1));
    return weft_subtract(d1, weft_matmul(q2, weft_matmul(weft__adjoint(d2), q1)));
}

static void qr_vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *q = weft_pick(node, 0), *r = weft_pick(node, 1);
    weft_array *dq = cts[0], *dr = cts[1];
    int64_t m = weft_dim(a, -2), n = weft_dim(a, -1);
    if (!wanted[0]) {
        return;
    }
    if (m > n && weft_dim(q, -1) > n) {
        dq = dq ? thin_cotangent(q, dq, n) : NULL;
        dr = dr ? weft__matrix_rows(dr, 0, n) : NULL;
        q = weft__matrix_columns(q, 0, n);
        r = weft__matrix_rows(r, 0, n);
    }
    if (m >= n) {
        grads[0] = tall_gradient(q, r, dq, dr);
        return;
    }
    /* a = (x, y) and r = (u, v): x = q u is square, and v = q^H y. */
    weft_array *y = weft__matrix_columns(a, m, n), *u = weft__matrix_columns(r, 0, m), *du = NULL,
               *dy = NULL;
    if (dr) {
        weft_array *dv = weft__matrix_columns(dr, m, n);
        du = weft__matrix_columns(dr, 0, m);
        dq = weft__plus(weft_matmul(y, weft__adjoint(dv)), dq);
        dy = weft_matmul(q, dv);
    } else {
        dy = weft__zeros_on_device_of(y, weft_shape(y), weft_dtype_of(y));
    }
    weft_array *parts[] = {tall_gradient(q, u, dq, du), dy};
    grads[0] = weft_concatenate(parts, 2, -1);
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool qr_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_qr_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_matrix(node, 0, why)) {
        return false;
    }
    int64_t m = shape.at[shape.n - 2], n = shape.at[shape.n - 1];
    int64_t k = p->complete || m < n ? m : n;
    weft_dims q = weft__with_core(&shape, m, k), r = weft__with_core(&shape, k, n);
    return set_spec(&out[0], input_dtype(node, 0), &q) &&
           set_spec(&out[1], input_dtype(node, 0), &r);
}

static const weft_field qr_fields[] = {
    WEFT_FIELD(BOOL, weft_qr_params, complete),
    WEFT_FIELDS_END,
};

static const weft_qr_params complete = {true};
static const weft_case qr_cases[] = {
    {.name = "square", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4), .dominant = true}}},
    {.name = "tall", .n_inputs = 1, .in = {{.shape = DIMS(2, 5, 3)}}},
    {.name = "wide", .n_inputs = 1, .in = {{.shape = DIMS(3, 5), .dominant = true}}},
    {.name = "complete", .n_inputs = 1, .in = {{.shape = DIMS(4, 3)}}, .params = &complete},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 2)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 3, 0)}}},
};

const weft_op weft_op_qr = {
    .name = "qr",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = 2,
    .params_size = sizeof(weft_qr_params),
    .params_fields = qr_fields,
    .infer = qr_infer,
    .vjp = qr_vjp,
    .takes_leading_axis = true,
    .reference = qr_reference,
    .cases = qr_cases,
    .n_cases = sizeof qr_cases / sizeof *qr_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-18, /* conditioning */
};

void weft_qr(weft_array *a, bool with_complete, weft_array **q, weft_array **r)
{
    weft_scope_open();
    weft_qr_params params = {with_complete};
    weft_array *node = apply1(&weft_op_qr, weft__matrix("qr", a, false), &params);
    *q = weft__as_given(weft_pick(node, 0), a);
    *r = weft__as_given(weft_pick(node, 1), a);
    close_with(q, r);
}
