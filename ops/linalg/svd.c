/* ops/linalg/svd.c -- singular values and vectors. */
#include <math.h>

#include "ops/linalg/linalg.h"

enum { MAX_SWEEPS = 60 };

/* a_p^H a_q of columns of a (m, n). */
static number dot(const number *a, int64_t m, int64_t n, int64_t p, int64_t q)
{
    number sum = 0;
    for (int64_t i = 0; i < m; i++) {
        sum += conj(a[i * n + p]) * a[i * n + q];
    }
    return sum;
}

static void rotate(number *x, int64_t rows, int64_t n, int64_t p, int64_t q, double t, number w)
{
    double c = 1 / hypot(t, 1), s = t * c;
    for (int64_t i = 0; i < rows; i++) {
        number a = x[i * n + p], b = w * x[i * n + q];
        x[i * n + p] = c * a - s * b;
        x[i * n + q] = s * a + c * b;
    }
}

/* One sweep that makes pairs of columns orthogonal (Hestenes 1958); returns whether any was
 * rotated. */
static bool sweep(number *a, int64_t m, int64_t n, number *v)
{
    bool any = false;
    for (int64_t p = 0; p < n; p++) {
        for (int64_t q = p + 1; q < n; q++) {
            double alpha = creal(dot(a, m, n, p, p)), beta = creal(dot(a, m, n, q, q));
            number gamma = dot(a, m, n, p, q);
            double size = cabs(gamma);
            if (size <= 1e-15 * sqrt(alpha) * sqrt(beta) || size == 0) {
                continue;
            }
            any = true;
            double zeta = (beta - alpha) / (2 * size);
            double t = copysign(1, zeta) / (fabs(zeta) + hypot(zeta, 1));
            rotate(a, m, n, p, q, t, conj(gamma) / size);
            rotate(v, n, n, p, q, t, conj(gamma) / size);
        }
    }
    return any;
}

static void swap_columns(number *x, int64_t rows, int64_t n, int64_t p, int64_t q)
{
    for (int64_t i = 0; i < rows; i++) {
        number swap = x[i * n + p];
        x[i * n + p] = x[i * n + q];
        x[i * n + q] = swap;
    }
}

/* Makes column j of u, for a singular value of 0: a unit vector orthogonal to the previous columns.
 */
static void complete(number *u, int64_t m, int64_t n, int64_t j)
{
    for (int64_t unit = 0; unit < m; unit++) {
        for (int64_t i = 0; i < m; i++) {
            u[i * n + j] = i == unit;
        }
        for (int twice = 0; twice < 2; twice++) {
            for (int64_t p = 0; p < j; p++) {
                number along = dot(u, m, n, p, j);
                for (int64_t i = 0; i < m; i++) {
                    u[i * n + j] -= along * u[i * n + p];
                }
            }
        }
        double size = sqrt(creal(dot(u, m, n, j, j)));
        if (size > 0.5 / sqrt((double)m)) {
            for (int64_t i = 0; i < m; i++) {
                u[i * n + j] /= size;
            }
            return;
        }
    }
}

bool weft__hestenes(number *a, int64_t m, int64_t n, double *s, number *v)
{
    for (int64_t i = 0; i < n * n; i++) {
        v[i] = i / n == i % n;
    }
    int sweeps = 0;
    while (sweep(a, m, n, v)) {
        if (++sweeps == MAX_SWEEPS) {
            return false;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        s[j] = sqrt(creal(dot(a, m, n, j, j)));
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t k = j + 1; k < n; k++) {
            best = s[k] > s[best] ? k : best;
        }
        double swap = s[j];
        s[j] = s[best];
        s[best] = swap;
        swap_columns(a, m, n, j, best);
        swap_columns(v, n, n, j, best);
    }
    for (int64_t j = 0; j < n; j++) {
        if (s[j] > 1e-15 * s[0]) {
            for (int64_t i = 0; i < m; i++) {
                a[i * n + j] /= s[j];
            }
        } else {
            complete(a, m, n, j);
        }
    }
    return true;
}

/* The data of a reference call: a (m, n), transposed if necessary so that m >= n. */
typedef struct job {
    const weft_call *call;
    int64_t m, n, k;
    bool wide;
    number *a, *u, *v, *turned;
    double *s;
} job;

static void store(const job *j, int64_t b)
{
    const weft_call *call = j->call;
    number *u = j->wide ? j->v : j->u, *v = j->wide ? j->u : j->v;
    for (int64_t i = 0; i < j->k; i++) {
        number factor = weft__fix_phase(u + i, j->m, j->k);
        for (int64_t r = 0; r < j->n; r++) {
            v[r * j->k + i] *= factor;
        }
        j->turned[i] = j->s[i];
    }
    weft__store(&call->out[call->n_outputs > 1 ? 1 : 0], b * j->k, j->k, j->turned);
    if (call->n_outputs > 1) {
        weft__store(&call->out[0], b * j->m * j->k, j->m * j->k, u);
        weft__adjoint_of(v, j->n, j->k, j->turned);
        weft__store(&call->out[2], b * j->k * j->n, j->k * j->n, j->turned);
    }
}

static weft_status svd_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0];
    job j = {.call = call, .m = weft__rows_of(in), .n = weft__columns_of(in)};
    int64_t size = j.m * j.n;
    j.wide = j.m < j.n;
    j.k = j.wide ? j.m : j.n;
    j.a = weft__room(call, 3 * size + j.k * j.k + 2 * j.k);
    if (!j.a) {
        return WEFT_MEMORY;
    }
    j.u = j.a + size;
    j.turned = j.u + size;
    j.v = j.turned + size + j.k;
    j.s = (double *)(j.v + j.k * j.k);
    weft_status status = WEFT_OK;
    for (int64_t b = 0; status == WEFT_OK && b < weft__batches(in, 2); b++) {
        weft__load(in, b * size, size, j.a);
        if (!weft__all_finite(j.a, size)) {
            for (int i = 0; i < call->n_outputs; i++) {
                int64_t each = weft_tensor_size(&call->out[i]) / weft__batches(in, 2);
                weft__store_nan(&call->out[i], b * each, each);
            }
            continue;
        }
        if (j.wide) {
            weft__adjoint_of(j.a, j.m, j.n, j.u);
        } else {
            memcpy(j.u, j.a, (size_t)size * sizeof *j.u);
        }
        if (!weft__hestenes(j.u, j.wide ? j.n : j.m, j.k, j.s, j.v)) {
            status = weft_fail(WEFT_INVALID, "svd: matrix %lld of the batch does not converge",
                               (long long)b);
        }
        store(&j, b);
    }
    weft_free(j.a);
    return status;
}

/* ---- derivative ----------------------------------------------------------------------------- */

/* Derivatives of the factors. With a' for the tangent of a and p = u^H a' v,
 *     s' = Re(diag(p)),    u' = u (d + e) / 2 + beyond(u, a' v) / s,
 *                          v' = v (d - e) / 2 + beyond(v, a'^H u) / s,
 *     d_ij = (p + p^H)_ij / (s_j - s_i), e_ij = (p - p^H)_ij / (s_i + s_j)
 * (Townsend 2016). Only d, which turns u and v together, needs different singular values. Its
 * diagonal is 0: rotating both vectors by one phase changes nothing. */

/* (1 - q q^H) x: the part of x outside the column space of q. */
static weft_array *beyond(weft_array *q, weft_array *x)
{
    return weft_subtract(x, weft_matmul(q, weft_matmul(weft__adjoint(q), x)));
}

static weft_array *half_skew(weft_array *x)
{
    return weft_scale(weft_subtract(x, weft__adjoint(x)), 0.5);
}

/* s_i + s_j */
static weft_array *sums(weft_array *s)
{
    return weft_add(weft_expand_dims(s, -2), weft_expand_dims(s, -1));
}

static void factors_of(weft_array *node, weft_array **u, weft_array **s, weft_array **vh)
{
    const weft_vectors_params *p = weft_node_params(node);
    if (p->vectors) {
        *u = weft_pick(node, 0), *s = weft_pick(node, 1), *vh = weft_pick(node, 2);
    } else {
        weft_svd(weft_node_input(node, 0), false, u, s, vh);
    }
}

/* The factors and their cotangents. */
typedef struct factors {
    weft_array *u, *s, *v;
    weft_array *du, *ds, *dv; /* cotangents; NULL: none */
    weft_array *spread;       /* the largest singular value (..., 1, 1) */
    weft_array *unused;       /* bool (..., K): vectors whose cotangents are 0 */
} factors;

static weft_array *unused_vectors(const factors *f)
{
    weft_array *u = f->du ? weft__zero_columns(f->du) : NULL;
    weft_array *v = f->dv ? weft__zero_columns(f->dv) : NULL;
    return !u ? v : !v ? u : weft_logical_and(u, v);
}

/* The cotangent of p from those of the vectors. */
static weft_array *inner_of(const factors *f)
{
    weft_array *w = f->du ? weft_matmul(weft__adjoint(f->u), f->du) : NULL;
    weft_array *z = f->dv ? weft_matmul(weft__adjoint(f->v), f->dv) : NULL;
    weft_array *size = weft__plus(w ? weft__largest(w) : NULL, z ? weft__largest(z) : NULL);
    weft_array *minus = z ? weft_negative(half_skew(z)) : NULL;
    w = w ? half_skew(w) : NULL;
    weft_array *turn = weft__off_diagonal(weft__plus(w, z ? half_skew(z) : NULL));
    weft_array *apart = weft__plus(w, minus);
    weft__gap_rules rules = {.spread = f->spread, .size = size}, both = rules;
    if (f->ds) {
        weft_array *lost = weft__lost_pairs(f->ds, f->unused);
        rules.lost = weft__off_diagonal(lost);
        both.lost = weft_dtype_of(f->u) == WEFT_COMPLEX64 ? lost : rules.lost;
    }
    return weft_add(weft__over_gaps(turn, weft__differences(f->s), rules),
                    weft__over_gaps(apart, sums(f->s), both));
}

/* The cotangent of the part of a' v outside u, divided by s; also for v and a'^H u. */
static weft_array *outside(const factors *f, weft_array *q, weft_array *dq)
{
    weft__gap_rules rules = {.spread = f->spread, .size = weft__largest(dq)};
    if (f->ds) {
        weft_array *none = weft_logical_and(f->unused, weft_equal_scalar(f->ds, 0));
        rules.lost = weft_expand_dims(weft_logical_not(none), -2);
    }
    return weft__over_gaps(beyond(q, dq), weft_expand_dims(f->s, -2), rules);
}

static weft_array *from_vectors(factors *f)
{
    const int64_t m = weft_dim(f->u, -2), n = weft_dim(f->v, -2);
    weft_array *g = NULL;
    f->spread = weft__largest(weft_expand_dims(f->s, -1));
    f->unused = unused_vectors(f);
    if (f->du && m > n) {
        g = weft_matmul(outside(f, f->u, f->du), weft__adjoint(f->v));
    }
    if (f->dv && n > m) {
        g = weft__plus(g, weft_matmul(f->u, weft__adjoint(outside(f, f->v, f->dv))));
    }
    return weft__plus(weft_matmul(f->u, weft_matmul(inner_of(f), weft__adjoint(f->v))), g);
}

static void svd_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    const weft_vectors_params *p = weft_node_params(node);
    weft_array *a = weft_node_input(node, 0), *vh, *g = NULL;
    if (!wanted[0] || weft_size(a) == 0) {
        return;
    }
    factors f = {.ds = cts[p->vectors ? 1 : 0], .du = p->vectors ? cts[0] : NULL};
    f.dv = p->vectors && cts[2] ? weft__adjoint(cts[2]) : NULL;
    factors_of(node, &f.u, &f.s, &vh);
    f.v = weft__adjoint(vh);
    if (f.du || f.dv) {
        g = from_vectors(&f);
    }
    if (f.ds) {
        weft_array *ds = weft_astype(f.ds, weft_dtype_of(a));
        g = weft__plus(g, weft_matmul(weft__scale_columns(f.u, ds), vh));
    }
    grads[0] = g;
}

/* A tangent that mixes vectors of equal singular values gives NaN. */
static void svd_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_vectors_params *params = weft_node_params(node);
    weft_array *a = weft_node_input(node, 0), *da = tangents[0], *u, *s, *vh;
    const int64_t m = weft_dim(a, -2), n = weft_dim(a, -1);
    if (weft_size(a) == 0) {
        return;
    }
    factors_of(node, &u, &s, &vh);
    weft_array *uh = weft__adjoint(u), *v = weft__adjoint(vh), *dav = weft_matmul(da, v);
    weft_array *p = weft_matmul(uh, dav), *ph = weft__adjoint(p);
    out[params->vectors ? 1 : 0] = weft__real_part(weft__diagonal_of(p));
    if (!params->vectors) {
        return;
    }
    weft__gap_rules rules = {.spread = weft__largest(weft_expand_dims(s, -1)),
                             .size = weft__largest(p)};
    weft_array *d =
        weft__over_gaps(weft__off_diagonal(weft_add(p, ph)), weft__differences(s), rules);
    weft_array *e = weft__over_gaps(weft_subtract(p, ph), sums(s), rules);
    weft_array *du = weft_matmul(u, weft_scale(weft_add(d, e), 0.5));
    weft_array *dv = weft_matmul(v, weft_scale(weft_subtract(d, e), 0.5));
    if (m > n) {
        rules.size = weft__largest(dav);
        du = weft_add(du, weft__over_gaps(beyond(u, dav), weft_expand_dims(s, -2), rules));
    }
    if (n > m) {
        weft_array *dau = weft_matmul(weft__adjoint(da), u);
        rules.size = weft__largest(dau);
        dv = weft_add(dv, weft__over_gaps(beyond(v, dau), weft_expand_dims(s, -2), rules));
    }
    out[0] = du;
    out[2] = weft__adjoint(dv);
}

/* ---- the op --------------------------------------------------------------------------------- */

static bool svd_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_vectors_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_matrix(node, 0, why)) {
        return false;
    }
    int64_t m = shape.at[shape.n - 2], n = shape.at[shape.n - 1], k = m < n ? m : n;
    weft_dims u = weft__with_core(&shape, m, k), vh = weft__with_core(&shape, k, n);
    weft_dims s = weft__with_core(&shape, k, -1);
    set_spec(&out[0], input_dtype(node, 0), &u);
    set_spec(&out[p->vectors ? 1 : 0], weft__real_dtype(input_dtype(node, 0)), &s);
    set_spec(&out[2], input_dtype(node, 0), &vh);
    end_outputs(out, p->vectors ? 3 : 1);
    return true;
}

static const weft_vectors_params with = {true};
static const weft_case cases[] = {
    {.name = "square", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4)}}, .params = &with},
    {.name = "tall", .n_inputs = 1, .in = {{.shape = DIMS(2, 5, 3)}}, .params = &with},
    {.name = "wide", .n_inputs = 1, .in = {{.shape = DIMS(3, 6)}}, .params = &with},
    {.name = "values", .n_inputs = 1, .in = {{.shape = DIMS(2, 3, 5)}}},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 2)}}, .params = &with},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 3)}}, .params = &with},
};

const weft_op weft_op_svd = {
    .name = "svd",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = -4,
    .params_size = sizeof(weft_vectors_params),
    .params_fields = weft__vectors_fields,
    .infer = svd_infer,
    .vjp = svd_vjp,
    .jvp = svd_jvp,
    .takes_leading_axis = true,
    .reference = svd_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-17, /* amplified by small gaps between the singular values */
};

/* Completes (..., M, K) with orthonormal columns to (..., M, M). */
static weft_array *completed(weft_array *u)
{
    weft_array *q, *r;
    int64_t m = weft_dim(u, -2), k = weft_dim(u, -1);
    if (!weft_ok(u) || m == k) {
        return u;
    }
    weft_qr(u, true, &q, &r);
    weft_array *parts[] = {u, weft__matrix_columns(q, k, m)};
    return weft_concatenate(parts, 2, -1);
}

void weft_svd(weft_array *a, bool full, weft_array **u, weft_array **s, weft_array **vh)
{
    weft_scope_open();
    weft_array *node = apply1(&weft_op_svd, weft__matrix("svd", a, false), &with);
    weft_array *left = weft_pick(node, 0), *right = weft_pick(node, 2);
    if (full) {
        left = completed(left);
        right = weft_swapaxes(completed(weft_swapaxes(right, -1, -2)), -1, -2);
    }
    *u = weft__as_given(left, a);
    *s = weft__as_given(weft_pick(node, 1), a);
    *vh = weft__as_given(right, a);
    close_with_three(u, s, vh);
}

weft_array *weft_svdvals(weft_array *a)
{
    weft_scope_open();
    weft_array *node = apply1(&weft_op_svd, weft__matrix("svdvals", a, false), NULL);
    return weft_scope_close(weft__as_given(weft_pick(node, 0), a));
}
