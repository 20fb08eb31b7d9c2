/* tests/ops/test_complex.c -- complex functions: gradients, values on branch cuts and at extremes,
 * real and imaginary parts. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

enum { N = 24 };

typedef weft_array *unary(weft_array *x);

static weft_array *complexes(const weft_complex64 *z, int64_t n)
{
    return weft_from_data(z, WEFT_COMPLEX64, (weft_dims){1, {n}});
}

static void read_complex(weft_array *a, weft_complex64 *out, int64_t n)
{
    CHECK_OK(weft_read(a, WEFT_COMPLEX64, out, n));
}

/* Points off the cuts of every function here, in all four quarters. */
static weft_complex64 point(int i)
{
    float size = 0.3f + 0.1f * (float)(i % 5), angle = 0.35f + 0.78f * (float)i;
    return (weft_complex64){size * cosf(angle), size * sinf(angle)};
}

static weft_array *absolute(weft_array *x)
{
    return weft_astype(weft_abs(x), WEFT_COMPLEX64);
}

static weft_array *imaginary(weft_array *x)
{
    return weft_astype(weft_imag(x), WEFT_COMPLEX64);
}

static weft_array *cube(weft_array *x)
{
    return weft_power_scalar(x, 3);
}

static weft_array *to_own_power(weft_array *x)
{
    return weft_power(x, x);
}

static weft_array *own_quotient(weft_array *x)
{
    return weft_divide(x, weft_add_scalar(weft_square(x), 2));
}

static weft_array *turned(weft_array *x)
{
    return weft_complex(weft_imag(x), weft_real(x));
}

static weft_array *log_sum(weft_array *x)
{
    return weft_logaddexp(x, weft_conjugate(x));
}

static const struct {
    const char *name;
    unary *function;
} functions[] = {
    {"exp", weft_exp},
    {"expm1", weft_expm1},
    {"log", weft_log},
    {"log1p", weft_log1p},
    {"log2", weft_log2},
    {"log10", weft_log10},
    {"sqrt", weft_sqrt},
    {"rsqrt", weft_rsqrt},

    {"sin", weft_sin},
    {"cos", weft_cos},
    {"tan", weft_tan},
    {"arcsin", weft_arcsin},
    {"arccos", weft_arccos},
    {"arctan", weft_arctan},
    {"sinh", weft_sinh},
    {"cosh", weft_cosh},
    {"tanh", weft_tanh},
    {"arcsinh", weft_arcsinh},
    {"arccosh", weft_arccosh},
    {"arctanh", weft_arctanh},
    {"sigmoid", weft_sigmoid},

    {"abs", absolute},
    {"imag", imaginary},
    {"conjugate", weft_conjugate},
    {"cube", cube},
    {"own power", to_own_power},
    {"quotient", own_quotient},
    {"turned", turned},
    {"logaddexp", log_sum},
};

static int call(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = ((unary *const *)context)[0](in[0]);
    return 1;
}

/* The functions at points moved by `step`. */
static void moved(unary *function, weft_complex64 step, weft_complex64 *out)
{
    weft_complex64 z[N];
    for (int i = 0; i < N; i++) {
        z[i] = (weft_complex64){point(i).re + step.re, point(i).im + step.im};
    }
    read_complex(function(complexes(z, N)), out, N);
}

/* dL/d(re z) + i dL/d(im z) of L = sum re(conj(c) f(z)): differences of float32, so not close. */
static void gradient_by_differences(unary *function, const weft_complex64 *c, weft_complex64 *out)
{
    const float h = 4e-3f;
    weft_complex64 right[N], left[N], up[N], down[N];
    moved(function, (weft_complex64){h, 0}, right);
    moved(function, (weft_complex64){-h, 0}, left);
    moved(function, (weft_complex64){0, h}, up);
    moved(function, (weft_complex64){0, -h}, down);
    for (int i = 0; i < N; i++) {
        out[i].re =
            (c[i].re * (right[i].re - left[i].re) + c[i].im * (right[i].im - left[i].im)) / (2 * h);
        out[i].im =
            (c[i].re * (up[i].re - down[i].re) + c[i].im * (up[i].im - down[i].im)) / (2 * h);
    }
}

static void gradients_are_those_of_the_parts(void)
{
    weft_complex64 z[N], c[N], got[N], want[N];
    for (int i = 0; i < N; i++) {
        z[i] = point(i);
        c[i] = (weft_complex64){1 - 0.1f * (float)i, 0.5f + 0.05f * (float)i};
    }
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        unary *function = functions[k].function;
        weft_scope_open();
        weft_array *x = complexes(z, N), *ct = complexes(c, N), *grad = NULL;
        CHECK_OK(weft_vjp(call, &function, &x, 1, &ct, NULL, 1, &grad));
        read_complex(grad, got, N);
        gradient_by_differences(function, c, want);
        for (int i = 0; i < N; i++) {
            float size = 1 + hypotf(want[i].re, want[i].im);
            if (!(hypotf(got[i].re - want[i].re, got[i].im - want[i].im) <= 4e-3f * size)) {
                CHECK_FAIL("%s at (%g, %g): expected (%g, %g), got (%g, %g)", functions[k].name,
                           (double)z[i].re, (double)z[i].im, (double)want[i].re, (double)want[i].im,
                           (double)got[i].re, (double)got[i].im);
                break;
            }
        }
        weft_scope_close(NULL);
    }
}

static weft_array *product_with_i(weft_array *x)
{
    static const weft_complex64 i = {2, 3};
    return weft_multiply(x, weft_from_data(&i, WEFT_COMPLEX64, WEFT_SCALAR));
}

static void real_inputs_get_the_real_part(void)
{
    const float x0 = 1.5f;
    const weft_complex64 one = {1, 4};
    unary *function = product_with_i;
    weft_scope_open();
    weft_array *x = weft_from_data(&x0, WEFT_FLOAT32, WEFT_SCALAR), *grad = NULL;
    weft_array *ct = weft_from_data(&one, WEFT_COMPLEX64, WEFT_SCALAR);
    CHECK_OK(weft_vjp(call, &function, &x, 1, &ct, NULL, 1, &grad));
    CHECK_EQ_INT(weft_dtype_of(grad), WEFT_FLOAT32);
    CHECK_CLOSE(weft_item(grad), 14, 0); /* re((1 + 4i) (2 - 3i)) */
    weft_scope_close(NULL);
}

static int multiply_matrices(void *context, weft_array *const *in, int n_in, weft_array **out,
                             int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_matmul(in[0], in[1]);
    return 1;
}

/* ct b^H and a^H ct */
static void products_of_matrices(void)
{
    const weft_complex64 a[4] = {{1, 2}, {0, -1}, {3, 1}, {2, 0}};
    const weft_complex64 b[4] = {{0, 1}, {2, 2}, {1, -1}, {4, 0}};
    const weft_complex64 c[4] = {{1, 0}, {0, 1}, {1, 1}, {2, -1}};
    weft_dims shape = {2, {2, 2}};
    weft_scope_open();
    weft_array *in[2] = {weft_from_data(a, WEFT_COMPLEX64, shape),
                         weft_from_data(b, WEFT_COMPLEX64, shape)};
    weft_array *ct = weft_from_data(c, WEFT_COMPLEX64, shape), *grads[2] = {NULL};
    CHECK_OK(weft_vjp(multiply_matrices, NULL, in, 2, &ct, NULL, 1, grads));
    weft_complex64 da[4], db[4];
    read_complex(grads[0], da, 4);
    read_complex(grads[1], db, 4);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            weft_complex64 p = {0, 0}, q = {0, 0};
            for (int k = 0; k < 2; k++) {
                weft_complex64 x = c[2 * i + k], y = b[2 * j + k], u = a[2 * k + i],
                               v = c[2 * k + j];
                p.re += x.re * y.re + x.im * y.im;
                p.im += x.im * y.re - x.re * y.im;
                q.re += u.re * v.re + u.im * v.im;
                q.im += u.re * v.im - u.im * v.re;
            }
            CHECK_CLOSE(da[2 * i + j].re, p.re, 1e-6);
            CHECK_CLOSE(da[2 * i + j].im, p.im, 1e-6);
            CHECK_CLOSE(db[2 * i + j].re, q.re, 1e-6);
            CHECK_CLOSE(db[2 * i + j].im, q.im, 1e-6);
        }
    }
    weft_scope_close(NULL);
}

#define INF ((float)INFINITY)
#define PI 3.14159265f

/* Both sides of the cuts, and limits: what C99's annex G says. */
static const struct {
    unary *function;
    weft_complex64 at, value;
} exact[] = {
    {weft_sqrt, {-4, 0.0f}, {0, 2}},
    {weft_sqrt, {-4, -0.0f}, {0, -2}},
    {weft_sqrt, {-INF, 1}, {0, INF}},
    {weft_sqrt, {NAN, INF}, {INF, INF}},
    {weft_log, {-1, 0.0f}, {0, PI}},
    {weft_log, {-1, -0.0f}, {0, -PI}},
    {weft_log, {-0.0f, 0}, {-INF, PI}},
    {weft_log, {INF, NAN}, {INF, NAN}},
    {weft_exp, {-INF, INF}, {0, 0}},
    {weft_exp, {INF, 0}, {INF, 0}},
    {weft_exp, {0, -0.0f}, {1, -0.0f}},
    {weft_arcsin, {2, 0.0f}, {PI / 2, 1.31695795f}},
    {weft_arcsin, {2, -0.0f}, {PI / 2, -1.31695795f}},
    {weft_arccos, {-2, 0.0f}, {PI, -1.31695795f}},
    {weft_arccosh, {-2, -0.0f}, {1.31695795f, -PI}},
    {weft_arctanh, {2, 0.0f}, {0.549306154f, PI / 2}},
    {weft_arctanh, {2, -0.0f}, {0.549306154f, -PI / 2}},
    {weft_arctanh, {1, 0}, {INF, 0}},
    {weft_arctan, {0.0f, 2}, {PI / 2, 0.549306154f}},
    {weft_arctan, {-0.0f, 2}, {-PI / 2, 0.549306154f}},
    {weft_arcsinh, {0.0f, 2}, {1.31695795f, PI / 2}},
    {weft_tanh, {INF, 1}, {1, 0}},
    {weft_tanh, {200, 1}, {1, 0}},
    {weft_sinh, {0, 3}, {-0.0f, 0.141120002f}},
    {weft_round, {2.5f, -3.5f}, {2, -4}},
    {weft_conjugate, {1, 2}, {1, -2}},
};

static bool same(float got, float want)
{
    bool close = got == want || fabsf(got - want) <= 3e-7f * fabsf(want);
    return isnan(want) ? isnan(got) : close && signbit(got) == signbit(want);
}

static void cuts_and_limits(void)
{
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        weft_complex64 got = {0, 0}, want = exact[i].value;
        weft_scope_open();
        read_complex(exact[i].function(complexes(&exact[i].at, 1)), &got, 1);
        if (!same(got.re, want.re) || !same(got.im, want.im)) {
            CHECK_FAIL("case %d: (%g, %g): expected (%.9g, %.9g), got (%.9g, %.9g)", (int)i,
                       (double)exact[i].at.re, (double)exact[i].at.im, (double)want.re,
                       (double)want.im, (double)got.re, (double)got.im);
        }
        CHECK(true);
        weft_scope_close(NULL);
    }
}

/* NumPy's values at signed zeros, infinities, NaN and extreme numbers. */
static const struct {
    const char *name;
    unary *function;
} special[] = {
    {"exp", weft_exp},         {"expm1", weft_expm1},     {"log", weft_log},
    {"log1p", weft_log1p},     {"log2", weft_log2},       {"log10", weft_log10},
    {"sqrt", weft_sqrt},       {"sin", weft_sin},         {"cos", weft_cos},
    {"tan", weft_tan},         {"sinh", weft_sinh},       {"cosh", weft_cosh},
    {"tanh", weft_tanh},       {"arcsin", weft_arcsin},   {"arccos", weft_arccos},
    {"arctan", weft_arctan},   {"arcsinh", weft_arcsinh}, {"arccosh", weft_arccosh},
    {"arctanh", weft_arctanh}, {"abs", absolute},
};

/* C99 leaves the signs of NaN and of directionless infinities open. NumPy's functions that C99
 * lacks lose digits (log1p) or parts of real numbers (expm1). */
static bool agrees(const char *name, weft_complex64 at, weft_complex64 got, weft_complex64 want)
{
    const bool open = isnan(want.re) || isnan(want.im) || !isfinite(at.im);
    if ((strcmp(name, "expm1") == 0 && at.im == 0 && !(at.re < 3e38f)) ||
        (strcmp(name, "log1p") == 0 && at.re == 1e-30f))
        return true;
    if (open)
        return same(fabsf(got.re), fabsf(want.re)) && same(fabsf(got.im), fabsf(want.im));
    return same(got.re, want.re) && same(got.im, want.im);
}

enum { MANY = 200 };

static void special_values(void)
{
    static weft_complex64 at[MANY], got[MANY], want[MANY];
    if (!golden_open("ops/complex_special"))
        return;
    weft_scope_open();
    weft_array *z = golden_get("z");
    const int64_t n = weft_size(z);
    read_complex(z, at, n);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        read_complex(special[i].function(z), got, n);
        read_complex(golden_get(special[i].name), want, n);
        for (int64_t k = 0; k < n; k++) {
            if (!agrees(special[i].name, at[k], got[k], want[k]))
                CHECK_FAIL("%s(%g, %g): expected (%.9g, %.9g), got (%.9g, %.9g)", special[i].name,
                           (double)at[k].re, (double)at[k].im, (double)want[k].re,
                           (double)want[k].im, (double)got[k].re, (double)got[k].im);
        }
        CHECK(true);
    }
    weft_scope_close(NULL);
    golden_close();
}

/* Infinite results must be infinite, in a direction that C99 leaves open. */
static bool power_agrees(weft_complex64 got, weft_complex64 want)
{
    const float size = hypotf(want.re, want.im);
    if (isinf(size))
        return isinf(got.re) || isinf(got.im);
    if (isnan(size))
        return true;
    return hypotf(got.re - want.re, got.im - want.im) <= 1e-6f * size;
}

static void special_powers(void)
{
    enum { BASES = 49, EXPONENTS = 12 };
    static weft_complex64 a[BASES], b[EXPONENTS], got[BASES * EXPONENTS], want[BASES * EXPONENTS];
    if (!golden_open("ops/complex_special"))
        return;
    weft_scope_open();
    weft_array *base = golden_get("base"), *exponent = golden_get("exponent");
    read_complex(base, a, BASES);
    read_complex(exponent, b, EXPONENTS);
    read_complex(weft_power(weft_expand_dims(base, -1), exponent), got, BASES * EXPONENTS);
    read_complex(golden_get("power"), want, BASES * EXPONENTS);
    for (int k = 0; k < BASES * EXPONENTS; k++) {
        const weft_complex64 x = a[k / EXPONENTS], y = b[k % EXPONENTS];
        if (!power_agrees(got[k], want[k]))
            CHECK_FAIL("(%g, %g)^(%g, %g): expected (%.9g, %.9g), got (%.9g, %.9g)", (double)x.re,
                       (double)x.im, (double)y.re, (double)y.im, (double)want[k].re,
                       (double)want[k].im, (double)got[k].re, (double)got[k].im);
    }
    CHECK(true);
    weft_scope_close(NULL);
    golden_close();
}

static int sign_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_sign(in[0]);
    return 1;
}

static void the_gradient_of_sign_at_0_is_0(void)
{
    static const weft_complex64 at[] = {{0, 0}, {-0.0f, 0}, {3, 4}},
                                ones[] = {{1, 1}, {1, 1}, {1, 1}};
    weft_complex64 got[3];
    weft_scope_open();
    weft_array *x = complexes(at, 3), *ct = complexes(ones, 3), *grad = NULL;
    CHECK_OK(weft_vjp(sign_of, NULL, &x, 1, &ct, NULL, 1, &grad));
    read_complex(grad, got, 3);
    for (int i = 0; i < 2; i++)
        CHECK(got[i].re == 0 && got[i].im == 0);
    /* (ct - z Re(conj(z) ct)) / 5 with z = (3 + 4 i) / 5 */
    CHECK_CLOSE(got[2].re, (1 - 0.6 * 1.4) / 5, 1e-7);
    CHECK_CLOSE(got[2].im, (1 - 0.8 * 1.4) / 5, 1e-7);
    weft_scope_close(NULL);
}

static void infinities_of_complex_numbers_have_no_sign(void)
{
    static const weft_complex64 at = {INF, 0};
    weft_scope_open();
    weft_array *x = complexes(&at, 1);
    CHECK_CONTAINS(weft_error(weft_isposinf(x)), "isposinf: unsupported for complex64");
    CHECK_CONTAINS(weft_error(weft_isneginf(x)), "isneginf: unsupported for complex64");
    weft_scope_close(NULL);
}

static void parts_and_order(void)
{
    const weft_complex64 z[3] = {{1, 2}, {1, -3}, {-4, NAN}};
    float re[3], im[3];
    uint8_t truth[3];
    weft_scope_open();
    weft_array *x = complexes(z, 3);
    CHECK_OK(weft_read(weft_real(x), WEFT_FLOAT32, re, 3));
    CHECK_OK(weft_read(weft_imag(x), WEFT_FLOAT32, im, 3));
    CHECK(re[2] == -4 && im[1] == -3 && isnan(im[2]));
    CHECK_OK(weft_read(weft_greater(x, complexes((weft_complex64[3]){{1, 1}, {1, -3}, {0, 0}}, 3)),
                       WEFT_BOOL, truth, 3));
    CHECK(truth[0] == 1 && truth[1] == 0 && truth[2] == 0);
    CHECK_OK(weft_read(weft_isnan(x), WEFT_BOOL, truth, 3));
    CHECK(truth[0] == 0 && truth[2] == 1);
    weft_complex64 back[3];
    const float inf = INF;
    weft_array *far = weft_from_data(&inf, WEFT_FLOAT32, WEFT_SCALAR);
    read_complex(weft_complex(weft_real(x), far), back, 3);
    CHECK(back[0].re == 1 && back[0].im == INF);
    CHECK_EQ_INT(weft_dtype_of(weft_imag(weft_real(x))), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_complex(x, x)), "complex");
    weft_complex64 full[2];
    read_complex(weft_full_complex((weft_dims){1, {2}}, 1, -2), full, 2);
    CHECK(full[1].re == 1 && full[1].im == -2);
    weft_scope_close(NULL);
}

CHECK_MAIN("complex", CHECK_CASE(gradients_are_those_of_the_parts),
           CHECK_CASE(real_inputs_get_the_real_part), CHECK_CASE(products_of_matrices),
           CHECK_CASE(cuts_and_limits), CHECK_CASE(special_values), CHECK_CASE(special_powers),
           CHECK_CASE(the_gradient_of_sign_at_0_is_0),
           CHECK_CASE(infinities_of_complex_numbers_have_no_sign), CHECK_CASE(parts_and_order))
