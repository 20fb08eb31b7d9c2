/* ops/linalg/cholesky.c -- Cholesky factorization: the lower triangle L with L L^H = A. */
#include <math.h>

#include "ops/linalg/linalg.h"

/* Factors in place. Returns the order of the first leading minor that is not positive, or 0. */
static int64_t factor(number *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            number sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) {
                sum -= a[i * n + k] * conj(a[j * n + k]);
            }
            if (j < i) {
                a[i * n + j] = sum / creal(a[j * n + j]);
            } else if (creal(sum) > 0) {
                a[i * n + i] = sqrt(creal(sum));
            } else {
                return i + 1;
            }
        }
        for (int64_t j = i + 1; j < n; j++) {
            a[i * n + j] = 0;
        }
    }
    return 0;
}

static weft_status cholesky_reference(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    int64_t n = weft__columns_of(in);
    number *a = weft__room(call, n * n);
    weft_status status = a ? WEFT_OK : WEFT_MEMORY;
    for (int64_t b = 0; status == WEFT_OK && b < weft__batches(in, 2); b++) {
        weft__load(in, b * n * n, n * n, a);
        for (int64_t i = 0; i < n * n; i++) {
            a[i] = i % n > i / n ? 0 : a[i]; /* the upper triangle is not read */
        }
        if (!weft__all_finite(a, n * n)) {
            weft__store_nan(out, b * n * n, n * n);
            continue;
        }
        int64_t minor = factor(a, n);
        if (minor > 0) {
            status = weft_fail(WEFT_INVALID,
                               "cholesky: matrix %lld of the batch is not positive definite: its "
                               "leading minor of order %lld",
                               (long long)b, (long long)minor);
        }
        weft__store(out, b * n * n, n * n, a);
    }
    weft_free(a);
    return status;
}

/* L^{-H} phi(L^H dL) L^{-1}, where phi takes the lower triangle with half the diagonal (Murray
 * 2016), folded into the triangle that the op reads. */
static void cholesky_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                         weft_array **grads)
{
    if (!wanted[0]) {
        return;
    }
    weft_array *up = weft__adjoint(node);
    weft_array *phi = weft_matmul(up, weft__lower(cts[0], 0));
    weft_array *half = weft__diagonal_matrix(weft_scale(weft__diagonal_of(phi), 0.5));
    phi = weft_add(weft__lower(phi, -1), half);
    /* x L^{-1} is the adjoint of L^{-H} x^H. */
    weft_array *left = weft_solve_triangular(up, phi, true);
    weft_array *s = weft__adjoint(weft_solve_triangular(up, weft__adjoint(left), true));
    grads[0] = weft__fold_lower(s);
}

static bool cholesky_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    return weft__expect_square(node, 0, why) && set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case cholesky_cases[] = {
    {.name = "batch", .n_inputs = 1, .in = {{.shape = DIMS(2, 4, 4), .dominant = true}}},
    {.name = "larger", .n_inputs = 1, .in = {{.shape = DIMS(9, 9), .dominant = true}}},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(1, 1), .dominant = true}}},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 3)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 0)}}},
};

const weft_op weft_op_cholesky = {
    .name = "cholesky",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = cholesky_infer,
    .vjp = cholesky_vjp,
    .takes_leading_axis = true,
    .reference = cholesky_reference,
    .cases = cholesky_cases,
    .n_cases = sizeof cholesky_cases / sizeof *cholesky_cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
};

weft_array *weft_cholesky(weft_array *a, bool upper)
{
    weft_scope_open();
    weft_array *x = weft__matrix("cholesky", a, true);
    if (!upper) {
        return weft_scope_close(weft__as_given(apply1(&weft_op_cholesky, x, NULL), a));
    }
    weft_array *l = apply1(&weft_op_cholesky, weft__adjoint(x), NULL);
    return weft_scope_close(weft__as_given(weft__adjoint(l), a));
}

weft_array *weft_cholesky_inv(weft_array *l, bool upper)
{
    weft_scope_open();
    weft_array *inverse = weft_tri_inv(weft__matrix("cholesky_inv", l, true), upper);
    weft_array *adjoint = weft__adjoint(inverse);
    weft_array *y = upper ? weft_matmul(inverse, adjoint) : weft_matmul(adjoint, inverse);
    return weft_scope_close(weft__as_given(y, l));
}
