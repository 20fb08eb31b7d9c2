/* tests/ops/test_linalg_equal.c -- derivatives of svd, eigh and eig where singular values or
 * eigenvalues are equal, nearly equal or 0: against finite differences, or NaN. */
#include "tests/check.h"
#include "weft/weft.h"

static weft_array *ready(weft_array *x)
{
    CHECK_OK(weft_eval(x));
    return x;
}

static weft_array *turned(weft_array *x)
{
    return weft_swapaxes(x, -1, -2);
}

static weft_array *spread(weft_array *x, weft_array *d)
{
    return weft_multiply(x, weft_expand_dims(d, -2));
}

/* Functions of a that do not depend on the choice of vectors. */
static weft_array *polar(weft_array *a)
{
    weft_array *u, *s, *vh;
    weft_svd(a, false, &u, &s, &vh);
    return weft_matmul(u, vh);
}

static weft_array *symmetric(weft_array *a)
{
    return weft_scale(weft_add(a, turned(a)), 0.5);
}

static weft_array *first_two(weft_array *a)
{
    weft_array *w, *v;
    weft_eigh(symmetric(a), false, &w, &v);
    v = weft_slice_axis(v, -1, 0, 2);
    return weft_matmul(v, turned(v));
}

static weft_array *nuclear(weft_array *a)
{
    return weft_norm_nuclear(a, WEFT_DIMS(-2, -1), false);
}

static weft_array *log_det(weft_array *a)
{
    return weft_sum(weft_log(weft_svdvals(a)), WEFT_DIMS(-1), false);
}

static weft_array *trace_exp(weft_array *a)
{
    return weft_sum(weft_exp(weft_eigvalsh(symmetric(a), false)), WEFT_DIMS(-1), false);
}

static weft_array *exponential(weft_array *a)
{
    weft_array *w, *v;
    weft_eigh(symmetric(a), false, &w, &v);
    return weft_matmul(spread(v, weft_exp(w)), turned(v));
}

static weft_array *root(weft_array *a)
{
    weft_array *w, *v;
    weft_eigh(symmetric(a), false, &w, &v);
    return weft_matmul(spread(v, weft_sqrt(w)), turned(v));
}

static weft_array *squares(weft_array *a)
{
    weft_array *u, *s, *vh;
    weft_svd(a, false, &u, &s, &vh);
    return weft_matmul(spread(u, weft_square(s)), vh);
}

static weft_array *largest_part(weft_array *a)
{
    weft_array *u, *s, *vh;
    weft_svd(a, false, &u, &s, &vh);
    u = spread(weft_slice_axis(u, -1, 0, 1), weft_slice_axis(s, -1, 0, 1));
    return weft_matmul(u, weft_slice_axis(vh, -2, 0, 1));
}

typedef weft_array *of_matrix(weft_array *a);

static int apply(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    of_matrix *const *function = context;
    (void)n_in, (void)room;
    out[0] = (*function)(in[0]);
    return 1;
}

/* (2, m, n) with these singular values, of which the first matrix is diagonal. */
static weft_array *with_values(int64_t m, int64_t n, const double *values)
{
    const int64_t k = m < n ? m : n;
    weft_array *q, *p, *r, *d = weft_from_data(values, WEFT_FLOAT64, WEFT_DIMS(k));
    weft_array *middle =
        weft_multiply(weft_eye(m, n, 0, WEFT_FLOAT64), n > k ? weft_pad(d, -1, 0, n - k, 0) : d);
    weft_qr(weft_random_normal(weft_random_key(4), WEFT_DIMS(m, m), 0, 1, WEFT_FLOAT64), false, &q,
            &r);
    weft_qr(weft_random_normal(weft_random_key(5), WEFT_DIMS(n, n), 0, 1, WEFT_FLOAT64), false, &p,
            &r);
    p = m == n ? turned(q) : p; /* symmetric where it can be */
    weft_array *both[] = {middle, weft_matmul(q, weft_matmul(middle, p))};
    return ready(weft_stack(both, 2, 0));
}

static const struct {
    const char *name;
    of_matrix *function;
    int64_t m, n;
    double values[3];
    bool second;
} determined[] = {
    {"polar", polar, 3, 3, {2, 2, 2}, false},
    {"polar, pair", polar, 3, 3, {2, 2, 1}, false},
    {"polar, near", polar, 3, 3, {2 + 1e-9, 2, 1}, false},
    {"polar, tall", polar, 4, 3, {2, 2, 1}, false},
    {"polar, wide", polar, 3, 5, {2, 1, 1}, false},
    {"projection", first_two, 3, 3, {3, 1, 1}, false},
    {"projection, near", first_two, 3, 3, {3, 1 + 1e-9, 1}, false},
    {"nuclear norm", nuclear, 3, 3, {2, 2, 2}, true},
    {"nuclear norm, tall", nuclear, 4, 3, {2, 1, 1}, true},
    {"log det", log_det, 3, 3, {2, 2, 1}, false},
    {"trace of exp", trace_exp, 3, 3, {1, 1, 1}, false},
    {"exp, near", exponential, 3, 3, {2 + 1e-9, 2, 1}, false},
    {"sqrt, near", root, 3, 3, {2 + 1e-9, 2, 1}, false},
    {"squares, near", squares, 4, 3, {2 + 1e-9, 2, 1}, false},
    {"largest part", largest_part, 4, 3, {2, 0, 0}, false},
    {"largest part, pair", largest_part, 3, 3, {2, 1, 1}, false},
};

static void determined_derivatives_at_equal_values(void)
{
    for (size_t i = 0; i < sizeof determined / sizeof *determined; i++) {
        weft_scope_open();
        weft_array *a = with_values(determined[i].m, determined[i].n, determined[i].values);
        weft_gradcheck_options options = {
            .tolerance = 1e-5, .seed = 3, .second = determined[i].second};
        of_matrix *function = determined[i].function;
        if (weft_gradcheck(apply, &function, &a, 1, &options) != WEFT_OK)
            CHECK_FAIL("%s: %s", determined[i].name, weft_error_message());
        CHECK(true);
        weft_scope_close(NULL);
    }
}

static weft_array *vectors(weft_array *a)
{
    weft_array *w, *v;
    weft_eigh(symmetric(a), false, &w, &v);
    return v;
}

static weft_array *left_vectors(weft_array *a)
{
    weft_array *u, *s, *vh;
    weft_svd(a, false, &u, &s, &vh);
    return u;
}

static weft_array *general_vectors(weft_array *a)
{
    weft_array *w, *v;
    weft_eig(a, &w, &v);
    return v;
}

/* The cotangents do not determine the gradient: NaN, in the matrix concerned only. */
static const struct {
    const char *name;
    of_matrix *function;
    double values[3];
} undetermined[] = {
    {"vectors", vectors, {2, 2, 1}},
    {"left vectors", left_vectors, {2, 2, 1}},
    {"left vectors, 0", left_vectors, {2, 0, 0}},
    {"eig", general_vectors, {2, 2, 1}},
    {"sqrt", root, {2, 2, 1}},
    {"squares", squares, {2, 2, 1}},
    {"polar, 0", polar, {2, 0, 0}},
};

static weft_array *weighed(void *context, weft_array *const *in, int n)
{
    of_matrix *const *function = context;
    (void)n;
    weft_array *y = (*function)(in[0]);
    y = weft_dtype_of(y) == WEFT_COMPLEX64 ? weft_add(weft_real(y), weft_imag(y)) : y;
    weft_array *c =
        weft_reshape(weft_arange(1, (double)weft_size(y) + 1, 1, weft_dtype_of(y)), weft_shape(y));
    return weft_sum(weft_multiply(y, weft_sin(c)), WEFT_ALL_AXES, false);
}

static void undetermined_derivatives_are_nan(void)
{
    static const double different[] = {2.5, 1.5, 0.5};
    for (size_t i = 0; i < sizeof undetermined / sizeof *undetermined; i++) {
        weft_scope_open();
        weft_array *in[] = {weft_slice_axis(with_values(3, 3, undetermined[i].values), 0, 0, 1),
                            with_values(3, 3, different)};
        weft_array *a = ready(weft_concatenate(in, 2, 0)), *grad;
        of_matrix *function = undetermined[i].function;
        CHECK_OK(weft_eval(weft_value_and_grad(weighed, &function, &a, 1, &grad)));
        CHECK_OK(weft_eval(grad));
        weft_array *nan = weft_any(weft_isnan(grad), WEFT_DIMS(-1, -2), false);
        if (weft_item(weft_slice_axis(nan, 0, 0, 1)) != 1)
            CHECK_FAIL("%s: no NaN", undetermined[i].name);
        if (weft_item(weft_any(weft_slice_axis(nan, 0, 1, 3), WEFT_ALL_AXES, false)) != 0)
            CHECK_FAIL("%s: NaN at different values", undetermined[i].name);
        CHECK(true);
        weft_scope_close(NULL);
    }
}

/* Complex matrices, of which gradcheck knows none: a = 2 q with q unitary has the polar factor q,
 * and the gradient of Re <g, polar(a)> is q (q^H g - g^H q) / 4. */
static weft_array *real_product(void *context, weft_array *const *in, int n)
{
    (void)n;
    weft_array *g = context, *y = polar(in[0]);
    return weft_sum(weft_add(weft_multiply(weft_real(y), weft_real(g)),
                             weft_multiply(weft_imag(y), weft_imag(g))),
                    WEFT_ALL_AXES, false);
}

static weft_array *adjoint(weft_array *x)
{
    return weft_conjugate(turned(x));
}

static weft_array *draw(uint64_t seed)
{
    weft_array *key = weft_random_key(seed);
    weft_array *x = weft_random_normal(key, WEFT_DIMS(2, 3, 3), 0, 1, WEFT_FLOAT32);
    return weft_complex(weft_slice_axis(x, 0, 0, 1), weft_slice_axis(x, 0, 1, 2));
}

static void complex_polar_factor(void)
{
    weft_array *q, *r, *grad;
    weft_scope_open();
    weft_qr(draw(1), false, &q, &r);
    q = ready(q);
    weft_array *g = ready(draw(2)), *a = ready(weft_scale(q, 2));
    CHECK_OK(weft_eval(weft_value_and_grad(real_product, g, &a, 1, &grad)));
    weft_array *x = weft_matmul(adjoint(q), g);
    weft_array *want = weft_scale(weft_matmul(q, weft_subtract(x, adjoint(x))), 0.25);
    weft_array *rest = weft_max(weft_abs(weft_subtract(grad, want)), WEFT_ALL_AXES, false);
    CHECK_CLOSE(weft_item(rest), 0, 1e-5);
    CHECK(weft_item(weft_max(weft_abs(want), WEFT_ALL_AXES, false)) > 0.1);
    weft_scope_close(NULL);
}

CHECK_MAIN("linalg_equal", CHECK_CASE(determined_derivatives_at_equal_values),
           CHECK_CASE(undetermined_derivatives_are_nan), CHECK_CASE(complex_polar_factor))
