/* tests/ops/test_linalg.c -- linear algebra against NumPy, SciPy and PyTorch, reconstruction from
 * factors, and failures. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/weft.h"

static char tensor[96];

static const char *named(const char *prefix, const char *name, const char *which)
{
    snprintf(tensor, sizeof tensor, "%s_%s/%s", prefix, name, which);
    return tensor;
}

/* ---- norms and cross products --------------------------------------------------------------- */

static void norms_equal_numpy(void)
{
    static const struct {
        const char *name;
        double p;
    } vectors[] = {{"inf", INFINITY}, {"minf", -INFINITY}, {"zero", 0},  {"one", 1},
                   {"two", 2},        {"half", 0.5},       {"three", 3}, {"mtwo", -2}},
      matrices[] = {{"inf", INFINITY}, {"minf", -INFINITY}, {"one", 1},
                    {"mone", -1},      {"two", 2},          {"mtwo", -2}};
    golden_open("ops/linalg");
    weft_scope_open();
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        weft_array *x = golden_get(named("vnorm", vectors[i].name, "in0"));
        weft_array *y = weft_norm_p(x, vectors[i].p, WEFT_DIMS(1), false);
        golden_check(y, named("vnorm", vectors[i].name, "out0"), 1e-14);
    }
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        weft_array *x = golden_get(named("mnorm", matrices[i].name, "in0"));
        weft_array *y = weft_norm_p(x, matrices[i].p, WEFT_DIMS(0, 2), true);
        golden_check(y, named("mnorm", matrices[i].name, "out0"), 1e-14);
    }
    weft_array *x = golden_get("norm_fro/in0");
    golden_check(weft_norm(x, WEFT_DIMS(0, 2), false), "norm_fro/out0", 1e-14);
    golden_check(weft_norm_nuclear(x, WEFT_DIMS(0, 2), false), "norm_nuc/out0", 1e-14);
    golden_check(weft_norm(x, WEFT_ALL_AXES, false), "norm_all/out0", 1e-14);
    weft_array *z = golden_get("norm_complex/in0");
    golden_check(weft_norm(z, WEFT_DIMS(-1), false), "norm_complex/out0", 1e-6);
    weft_scope_close(NULL);
    golden_close();
}

static weft_array *norm_of(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weft_norm(in[0], WEFT_ALL_AXES, false);
}

static void the_norm_of_zero_has_gradient_zero(void)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32), *grad;
    weft_value_and_grad(norm_of, NULL, &x, 1, &grad);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(grad), WEFT_ALL_AXES, false)), 0, 0);
    weft_scope_close(NULL);
}

static void cross_products_equal_numpy(void)
{
    static const struct {
        const char *name;
        int axis;
    } cases[] = {{"cross3", -1}, {"cross_first", 0}, {"cross23", -1}, {"cross22", -1}};
    golden_open("ops/linalg");
    weft_scope_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[48], b[48], y[48];
        snprintf(a, sizeof a, "%s/in0", cases[i].name);
        snprintf(b, sizeof b, "%s/in1", cases[i].name);
        snprintf(y, sizeof y, "%s/out0", cases[i].name);
        golden_check(weft_cross(golden_get(a), golden_get(b), cases[i].axis), y, 1e-14);
    }
    weft_scope_close(NULL);
    golden_close();
}

/* ---- values --------------------------------------------------------------------------------- */

/* complex64 results are rounded to 24 bits and computed so; 1e3: conditioning and sums. */
static double tolerance(const weft_array *x)
{
    return weft_dtype_of(x) == WEFT_FLOAT64 ? 1e-12 : 5e-5;
}

static void factors_of(const char *shape)
{
    weft_array *q, *r, *p, *l, *u, *s, *vh, *lu, *pivots;
    weft_array *a = golden_get(named("qr", shape, "in0"));
    weft_qr(a, false, &q, &r);
    golden_check(q, named("qr", shape, "out0"), tolerance(a));
    golden_check(r, named("qr", shape, "out1"), tolerance(a));
    weft_qr(golden_get(named("qrc", shape, "in0")), true, &q, &r);
    golden_check(r, named("qrc", shape, "out0"), tolerance(a));
    weft_svd(golden_get(named("svd", shape, "in0")), false, &u, &s, &vh);
    golden_check(s, named("svd", shape, "out0"), tolerance(a));
    a = golden_get(named("lu", shape, "in0"));
    weft_lu_factor(a, &lu, &pivots);
    golden_check(lu, named("lu", shape, "out0"), tolerance(a));
    golden_check(weft_astype(pivots, WEFT_INT32), named("lu", shape, "out1"), 0);
    weft_lu(a, &p, &l, &u);
    weft_dims spread = weft_shape(a);
    weft_array *rows = weft_broadcast_to(weft_expand_dims(weft_astype(p, WEFT_INT32), -1), spread);
    if (weft_dtype_of(a) == WEFT_FLOAT64) { /* a = (l u)[p] */
        weft_array *rest = weft_subtract(a, weft_take_along_axis(weft_matmul(l, u), rows, -2));
        CHECK_CLOSE(weft_item(weft_max(weft_abs(rest), WEFT_ALL_AXES, false)), 0, 1e-14);
    }
}

static void factors_equal_lapack(void)
{
    static const char *const shapes[] = {"real_6x6",    "real_2x7x4",    "real_3x6",
                                         "complex_6x6", "complex_2x7x4", "complex_3x6"};
    golden_open("ops/linalg");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        weft_scope_open();
        factors_of(shapes[i]);
        weft_array *a = golden_get(named("pinv", shapes[i], "in0"));
        if (weft_dtype_of(a) == WEFT_FLOAT64) {
            golden_check(weft_pinv(a), named("pinv", shapes[i], "out0"), 10 * tolerance(a));
        }
        weft_scope_close(NULL);
    }
    weft_scope_open();
    golden_check(weft_pinv(golden_get("pinv_rank2/in0")), "pinv_rank2/out0", 1e-12);
    weft_scope_close(NULL);
    golden_close();
}

static void square_matrices(const char *kind)
{
    weft_array *w, *v, *sign, *logarithm;
    weft_array *p = golden_get(named("cholesky", kind, "in0"));
    double close = 10 * tolerance(p);
    weft_array *l = weft_cholesky(p, false);
    golden_check(l, named("cholesky", kind, "out0"), close);
    if (weft_dtype_of(p) == WEFT_FLOAT64) {
        golden_check(weft_cholesky_inv(l, false), named("cholesky", kind, "out1"), close);
        golden_check(weft_eigvalsh(p, true), named("eigh", kind, "out0"), close);
    }
    weft_eigh(golden_get(named("eigh", kind, "in0")), false, &w, &v);
    golden_check(w, named("eigh", kind, "out0"), close);
    w = weft_eigvals(golden_get(named("eig", kind, "in0")));
    golden_check(w, named("eig", kind, "out0"), 5e-5); /* complex64 for every input dtype */
    weft_array *a = golden_get(named("solve", kind, "in0"));
    weft_array *b = golden_get(named("solve", kind, "in1"));
    golden_check(weft_solve(a, b), named("solve", kind, "out0"), 100 * tolerance(a));
    golden_check(weft_inv(a), named("solve", kind, "out1"), 100 * tolerance(a));
    a = golden_get(named("det", kind, "in0"));
    golden_check(weft_det(a), named("det", kind, "out0"), close);
    weft_slogdet(a, &sign, &logarithm);
    golden_check(sign, named("det", kind, "out1"), close);
    golden_check(logarithm, named("det", kind, "out2"), close);
    weft_array *u = golden_get(named("triangular", kind, "in0"));
    b = golden_get(named("triangular", kind, "in1"));
    golden_check(weft_solve_triangular(u, b, true), named("triangular", kind, "out0"), close);
}

static void systems_and_eigenvalues_equal_numpy(void)
{
    golden_open("ops/linalg");
    weft_scope_open();
    square_matrices("real");
    square_matrices("complex");
    weft_scope_close(NULL);
    golden_close();
}

/* ---- what factors reconstruct --------------------------------------------------------------- */

/* Evaluated by name, so that it stays readable. */
static weft_array *ready(weft_array *x)
{
    CHECK_OK(weft_eval(x));
    return x;
}

/* (2, m, n) of numbers in (-1, 1). */
static weft_array *random_matrices(int64_t m, int64_t n, weft_dtype dtype, uint64_t seed)
{
    weft_array *x =
        weft_random_uniform(weft_random_key(seed), WEFT_DIMS(2, m, n), -1, 1, WEFT_FLOAT32);
    return ready(weft_astype(x, dtype));
}

/* The largest |x - y| relative to the largest |y|, in units of n epsilon. */
static void hold_close(weft_array *x, weft_array *y, int64_t n, double units, const char *what)
{
    CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
    double epsilon = weft_dtype_of(y) == WEFT_FLOAT64 ? 0x1p-53 : 0x1p-24;
    double size = weft_item(weft_max(weft_abs(y), WEFT_ALL_AXES, false));
    double error = weft_item(weft_max(weft_abs(weft_subtract(x, y)), WEFT_ALL_AXES, false));
    if (!(error <= units * (double)(n + 4) * epsilon * size)) {
        CHECK_FAIL("%s, n = %lld, %s: off by %g", what, (long long)n,
                   weft_dtype_name(weft_dtype_of(y)), error);
    }
    CHECK(true);
}

static weft_array *turned(weft_array *x)
{
    return weft_swapaxes(x, -1, -2);
}

static weft_array *identity(weft_array *like, int64_t n)
{
    weft_array *i = weft_arange(0, (double)n, 1, WEFT_INT32);
    weft_array *eye = weft_astype(weft_equal(i, weft_expand_dims(i, -1)), weft_dtype_of(like));
    return weft_broadcast_to(eye, WEFT_DIMS(2, n, n));
}

static void reconstruct(int64_t m, int64_t n, weft_dtype dtype)
{
    weft_array *q, *r, *u, *s, *vh;
    int64_t k = m < n ? m : n, large = m < n ? n : m;
    weft_scope_open();
    /* Not row-major: the transpose of what was drawn. */
    weft_array *a = ready(turned(random_matrices(n, m, dtype, (uint64_t)(m * 1000 + n))));
    weft_qr(a, true, &q, &r);
    CHECK_OK(weft_eval_n((weft_array *[]){q, r}, 2));
    hold_close(weft_matmul(q, r), a, large, 4, "q r");
    hold_close(weft_matmul(turned(q), q), identity(a, m), large, 4, "q^T q");
    weft_svd(a, true, &u, &s, &vh);
    CHECK_OK(weft_eval_n((weft_array *[]){u, s, vh}, 3));
    weft_array *us = weft_multiply(weft_slice_axis(u, -1, 0, k), weft_expand_dims(s, -2));
    hold_close(weft_matmul(us, weft_slice_axis(vh, -2, 0, k)), a, large, 8, "u s v");
    hold_close(weft_matmul(turned(u), u), identity(a, m), large, 8, "u^T u");
    hold_close(weft_matmul(vh, turned(vh)), identity(a, n), large, 8, "v^T v");
    weft_scope_close(NULL);
}

static void reconstruct_square(int64_t n, weft_dtype dtype)
{
    weft_array *w, *v;
    weft_scope_open();
    weft_array *a = random_matrices(n, n, dtype, (uint64_t)n);
    weft_array *both = ready(weft_scale(weft_add(a, turned(a)), 0.5));
    weft_eigh(both, false, &w, &v);
    CHECK_OK(weft_eval_n((weft_array *[]){w, v}, 2));
    weft_array *vw = weft_multiply(v, weft_expand_dims(w, -2));
    hold_close(weft_matmul(vw, turned(v)), both, n, 8, "v w v^T");
    weft_array *spd = ready(weft_add(weft_matmul(a, turned(a)), identity(a, n)));
    weft_array *l = ready(weft_cholesky(spd, false)), *upper = ready(weft_cholesky(spd, true));
    hold_close(weft_matmul(l, turned(l)), spd, n, 4, "l l^T");
    hold_close(weft_matmul(turned(upper), upper), spd, n, 4, "u^T u");
    hold_close(weft_matmul(weft_inv(spd), spd), identity(a, n), n, 100, "inverse"); /* condition */
    weft_eig(a, &w, &v);
    CHECK_OK(weft_eval_n((weft_array *[]){w, v}, 2));
    vw = weft_multiply(v, weft_expand_dims(w, -2));
    hold_close(weft_matmul(weft_astype(a, WEFT_COMPLEX64), v), vw, n, 16, "a v");
    weft_scope_close(NULL);
}

static void factors_reconstruct(void)
{
    static const int64_t sizes[] = {1, 2, 5, 33, 70};
    for (int d = 0; d < 2; d++) {
        weft_dtype dtype = d ? WEFT_FLOAT64 : WEFT_FLOAT32;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            reconstruct(sizes[i], sizes[i], dtype);
            reconstruct(sizes[i] + 3, sizes[i], dtype);
            reconstruct(sizes[i], sizes[i] + 2, dtype);
            reconstruct_square(sizes[i], dtype);
        }
    }
}

/* ---- failures ------------------------------------------------------------------------------- */

static void fails(weft_array *y, const char *expected)
{
    weft_status status = weft_eval(y);
    const char *message = weft_ok(y) ? weft_error_message() : weft_error(y);
    if (status == WEFT_OK || !strstr(message, expected)) {
        CHECK_FAIL("expected \"%s\", got \"%s\"", expected, status == WEFT_OK ? "" : message);
    }
    CHECK(true);
}

static void bad_matrices_are_refused(void)
{
    weft_scope_open();
    weft_array *wide = ready(weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32)), *l, *p, *u;
    weft_array *ones = ready(weft_ones(WEFT_DIMS(2, 3, 3), WEFT_FLOAT64));
    fails(weft_inv(wide), "inv: expected square matrices (..., N, N), got (2, 3)");
    fails(weft_det(weft_ones(WEFT_DIMS(3), WEFT_FLOAT32)), "det: expected square");
    fails(weft_solve(ones, weft_ones(WEFT_DIMS(4, 1), WEFT_FLOAT64)),
          "solve: expected (..., N, N)");
    fails(weft_norm_p(wide, 3, WEFT_DIMS(0, 1), false), "order 3 of matrices");
    fails(weft_cross(wide, weft_ones(WEFT_DIMS(2, 4), WEFT_FLOAT32), -1), "expected 2 or 3");
    weft_lu(weft_ones(WEFT_DIMS(3), WEFT_FLOAT32), &p, &l, &u);
    fails(u, "lu: expected (..., M, N), got (3,)");
    fails(weft_inv(ones), "solve: matrix 0 of the batch is singular: pivot 2 is 0");
    fails(weft_tri_inv(weft_zeros(WEFT_DIMS(2, 2), WEFT_FLOAT32), true),
          "solve_triangular: matrix 0 of the batch is singular: pivot 1 is 0");
    weft_array *parts[] = {identity(ones, 3), weft_negative(ones)};
    fails(weft_cholesky(weft_concatenate(parts, 2, 0), false),
          "cholesky: matrix 2 of the batch is not positive definite");
    CHECK_CLOSE(weft_item(weft_sum(weft_det(ones), WEFT_ALL_AXES, false)), 0, 0);
    weft_scope_close(NULL);
}

static bool all_nan(weft_array *x)
{
    weft_array *nan = weft_isnan(weft_dtype_of(x) == WEFT_COMPLEX64 ? weft_abs(x) : x);
    return weft_item(weft_all(nan, WEFT_ALL_AXES, false)) == 1;
}

static void nan_and_infinity_give_nan(void)
{
    static const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
        weft_array *a = ready(weft_full(WEFT_DIMS(4, 4), bad[i], WEFT_FLOAT32));
        weft_array *x, *y, *z, *b = ready(weft_ones(WEFT_DIMS(4, 1), WEFT_FLOAT32));
        weft_qr(a, false, &x, &y);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
        CHECK(all_nan(x) && all_nan(y));
        weft_svd(a, false, &x, &y, &z);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y, z}, 3));
        CHECK(all_nan(x) && all_nan(y) && all_nan(z));
        weft_eigh(a, false, &x, &y);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
        CHECK(all_nan(x) && all_nan(y));
        weft_eig(a, &x, &y);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
        CHECK(all_nan(x) && all_nan(y));
        weft_slogdet(a, &x, &y);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
        CHECK(all_nan(x) && all_nan(y) && all_nan(weft_det(a)));
        weft_lu_factor(a, &x, &y);
        CHECK_OK(weft_eval_n((weft_array *[]){x, y}, 2));
        CHECK(all_nan(x) && all_nan(weft_pinv(a)) && all_nan(weft_cholesky(a, false)));
        CHECK(all_nan(weft_solve(a, b)) && all_nan(weft_solve_triangular(a, b, true)));
        weft_scope_close(NULL);
    }
}

static void sixteen_bits_are_rounded_once(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
        weft_array *a = weft_astype(random_matrices(3, 3, WEFT_FLOAT32, 5), dtypes[i]);
        weft_array *y = weft_inv(a);
        CHECK_EQ_INT(weft_dtype_of(y), dtypes[i]);
        weft_array *want = weft_astype(weft_inv(weft_astype(a, WEFT_FLOAT32)), dtypes[i]);
        CHECK_EQ_INT((int64_t)weft_item(weft_all(weft_equal(y, want), WEFT_ALL_AXES, false)), 1);
        weft_scope_close(NULL);
    }
}

/* ---- derivatives of the compositions -------------------------------------------------------- */

static int smooth(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *a = in[0], *p, *u, *s, *vh;
    weft_array *spd = weft_add(weft_matmul(a, turned(a)), identity(a, weft_dim(a, -1)));
    out[0] = weft_add(weft_inv(spd), weft_tri_inv(spd, true));
    out[1] = weft_cholesky_inv(weft_cholesky(spd, true), true);
    weft_lu(a, &p, &s, &u);
    out[2] = weft_add(weft_multiply(s, s), u);
    out[3] = weft_norm_p(a, 2, WEFT_DIMS(-2, -1), false);
    out[4] = weft_norm_nuclear(a, WEFT_DIMS(-2, -1), true);
    out[5] = weft_norm_p(a, 3, WEFT_DIMS(-1), false);
    weft_array *rows = weft_slice_axis(a, -2, 0, 2); /* of 3: one column is added to v */
    weft_svd(rows, true, &u, &s, &vh);
    out[6] = weft_square(vh);
    out[7] = weft_cross(a, turned(a), -1);
    return 8;
}

static void compositions_have_derivatives(void)
{
    weft_scope_open();
    weft_array *a = random_matrices(3, 3, WEFT_FLOAT64, 77);
    weft_gradcheck_options options = {
        .tolerance = 1e-5, .seed = 3, .forward = true, .second = true};
    if (weft_gradcheck(smooth, NULL, &a, 1, &options) != WEFT_OK) {
        CHECK_FAIL("%s", weft_error_message());
    }
    CHECK(true);
    weft_scope_close(NULL);
}

/* ---- OpenBLAS ------------------------------------------------------------------------------- */

/* A program that calls OpenBLAS itself keeps its own number of threads. */
static void threads_of_the_program_are_not_changed(void)
{
    const int before = openblas_get_num_threads();
    for (int threads = 1; threads <= 2; threads++) {
        openblas_set_num_threads(threads);
        const int expected = openblas_get_num_threads(); /* a serial OpenBLAS has one */
        weft_scope_open();
        weft_array *a = random_matrices(3, 3, WEFT_FLOAT64, 5), *p, *s, *u;
        CHECK_OK(weft_eval(weft_matmul(a, a)));
        CHECK_EQ_INT(openblas_get_num_threads(), expected);
        weft_lu(a, &p, &s, &u);
        CHECK_OK(weft_eval(u));
        CHECK_EQ_INT(openblas_get_num_threads(), expected);
        weft_scope_close(NULL);
    }
    openblas_set_num_threads(before);
}

CHECK_MAIN("linalg", CHECK_CASE(norms_equal_numpy), CHECK_CASE(the_norm_of_zero_has_gradient_zero),
           CHECK_CASE(cross_products_equal_numpy), CHECK_CASE(factors_equal_lapack),
           CHECK_CASE(systems_and_eigenvalues_equal_numpy), CHECK_CASE(factors_reconstruct),
           CHECK_CASE(bad_matrices_are_refused), CHECK_CASE(nan_and_infinity_give_nan),
           CHECK_CASE(sixteen_bits_are_rounded_once), CHECK_CASE(compositions_have_derivatives),
           CHECK_CASE(threads_of_the_program_are_not_changed))
