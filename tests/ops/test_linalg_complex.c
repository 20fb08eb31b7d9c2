/* tests/ops/test_linalg_complex.c -- gradients of linear algebra on complex matrices, against
 * PyTorch's in complex128. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/weft.h"

/* sum of (1, 2, ...) |x|^2: every element has its own weight, and phases do not matter. */
static weft_array *weigh(weft_array *x)
{
    weft_array *c = weft_arange(1, (double)weft_size(x) + 1, 1, WEFT_FLOAT32);
    weft_array *squares = weft_square(weft_abs(x));
    c = weft_astype(weft_reshape(c, weft_shape(x)), weft_dtype_of(squares));
    return weft_sum(weft_multiply(c, squares), WEFT_ALL_AXES, false);
}

static weft_array *gram(weft_array *x)
{
    return weft_matmul(x, weft_conjugate(weft_swapaxes(x, -1, -2)));
}

static weft_array *of_solve(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_solve(in[0], in[1]));
}

static weft_array *of_inv(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_inv(in[0]));
}

static weft_array *of_det(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_det(in[0]));
}

static weft_array *of_slogdet(void *context, weft_array *const *in, int n)
{
    weft_array *sign, *logarithm;
    const weft_complex64 factor = {2, -3};
    (void)context, (void)n;
    weft_slogdet(in[0], &sign, &logarithm);
    sign = weft_multiply(sign, weft_from_data(&factor, WEFT_COMPLEX64, WEFT_SCALAR));
    return weft_add(weft_real(sign), weft_scale(logarithm, 2));
}

static weft_array *of_qr(void *context, weft_array *const *in, int n)
{
    weft_array *q, *r;
    (void)context, (void)n;
    weft_qr(in[0], false, &q, &r);
    return weft_add(weigh(q), weigh(r));
}

static weft_array *of_svd(void *context, weft_array *const *in, int n)
{
    weft_array *u, *s, *vh;
    (void)context, (void)n;
    weft_svd(in[0], false, &u, &s, &vh);
    weft_array *product = weft_matmul(weft_multiply(u, weft_sqrt(s)), vh);
    return weft_add(weft_add(weigh(u), weigh(vh)), weft_add(weigh(s), weigh(product)));
}

static weft_array *of_pinv(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_pinv(in[0]));
}

static weft_array *of_lu(void *context, weft_array *const *in, int n)
{
    weft_array *p, *l, *u;
    (void)context, (void)n;
    weft_lu(in[0], &p, &l, &u);
    return weft_add(weigh(l), weigh(u));
}

static weft_array *of_eigvals(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_eigvals(in[0]));
}

static weft_array *of_eig(void *context, weft_array *const *in, int n)
{
    weft_array *w, *v;
    (void)context, (void)n;
    weft_eig(in[0], &w, &v);
    return weft_add(weigh(v), weigh(w));
}

static weft_array *of_eigh(void *context, weft_array *const *in, int n)
{
    weft_array *w, *v;
    (void)context, (void)n;
    weft_eigh(gram(in[0]), true, &w, &v);
    return weft_add(weigh(v), weigh(w));
}

static weft_array *of_cholesky(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weigh(weft_cholesky(gram(in[0]), false));
}

static void gradients_equal_pytorch(void)
{
    static const struct {
        const char *name;
        weft_loss_function *fn;
        int n;
    } cases[] = {{"solve", of_solve, 2},
                 {"inv", of_inv, 1},
                 {"det", of_det, 1},
                 {"slogdet", of_slogdet, 1},
                 {"qr", of_qr, 1},
                 {"qr_tall", of_qr, 1},
                 {"qr_wide", of_qr, 1},
                 {"svd", of_svd, 1},
                 {"svd_tall", of_svd, 1},
                 {"svd_wide", of_svd, 1},
                 {"pinv", of_pinv, 1},
                 {"lu", of_lu, 1},
                 {"eigvals", of_eigvals, 1},
                 {"eig", of_eig, 1},
                 {"eig_real", of_eig, 1},
                 {"eigh", of_eigh, 1},
                 {"cholesky", of_cholesky, 1}};
    golden_open("ops/linalg");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_array *in[2], *grads[2];
        char tensor[48];
        weft_scope_open();
        for (int k = 0; k < cases[i].n; k++) {
            snprintf(tensor, sizeof tensor, "grad_%s/in%d", cases[i].name, k);
            in[k] = golden_get(tensor);
        }
        weft_array *value = weft_value_and_grad(cases[i].fn, NULL, in, cases[i].n, grads);
        CHECK_OK(weft_eval_n(grads, cases[i].n));
        snprintf(tensor, sizeof tensor, "grad_%s/out0", cases[i].name);
        golden_check(weft_real(value), tensor, 2e-5);
        for (int k = 0; k < cases[i].n; k++) {
            snprintf(tensor, sizeof tensor, "grad_%s/out%d", cases[i].name, k + 1);
            /* The rounding of complex64 divided by the gaps of these matrices. */
            golden_check(grads[k], tensor, 2e-4);
        }
        weft_scope_close(NULL);
    }
    golden_close();
}

static void other_triangles_are_conjugates(void)
{
    golden_open("ops/linalg");
    weft_scope_open();
    weft_array *p = golden_get("cholesky_complex/in0");
    weft_array *l = weft_keep(weft_cholesky(p, false));
    weft_array *u = weft_keep(weft_cholesky(p, true));
    golden_check(weft_conjugate(weft_swapaxes(u, -1, -2)), "cholesky_complex/out0", 5e-5);
    golden_check(weft_cholesky_inv(l, false), "cholesky_complex/out1", 5e-5);
    golden_check(weft_cholesky_inv(u, true), "cholesky_complex/out1", 5e-5);
    golden_check(weft_eigvalsh(p, true), "eigh_complex/out0", 5e-5);
    golden_check(weft_pinv(golden_get("pinv_complex_2x7x4/in0")), "pinv_complex_2x7x4/out0", 5e-5);
    weft_drop(l);
    weft_drop(u);
    weft_scope_close(NULL);
    golden_close();
}

CHECK_MAIN("linalg_complex", CHECK_CASE(gradients_equal_pytorch),
           CHECK_CASE(other_triangles_are_conjugates))
