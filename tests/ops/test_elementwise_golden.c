/* tests/ops/test_elementwise_golden.c -- elementwise functions against NumPy's in float64 and
 * complex128, over ordinary and extreme inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"

typedef weft_array *unary(weft_array *x);
typedef weft_array *binary(weft_array *a, weft_array *b);

static const struct {
    const char *name;
    unary *function;
} functions[] = {
    {"sqrt", weft_sqrt},
    {"exp", weft_exp},
    {"expm1", weft_expm1},
    {"log", weft_log},
    {"log1p", weft_log1p},
    {"log2", weft_log2},
    {"log10", weft_log10},
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
    {"degrees", weft_degrees},
    {"radians", weft_radians},
    {"square", weft_square},
    {"reciprocal", weft_reciprocal},
    {"floor", weft_floor},
    {"ceil", weft_ceil},
    {"trunc", weft_trunc},
    {"round", weft_round},
    {"sign", weft_sign},
    {"abs", weft_abs},
    {"negative", weft_negative},
};

static const struct {
    const char *name;
    binary *function;
} pairs[] = {
    {"power", weft_power},       {"arctan2", weft_arctan2},   {"logaddexp", weft_logaddexp},
    {"maximum", weft_maximum},   {"minimum", weft_minimum},   {"remainder", weft_remainder},
    {"divide", weft_divide},     {"multiply", weft_multiply}, {"add", weft_add},
    {"subtract", weft_subtract},
};

static const float *floats(weft_array *x, int64_t n)
{
    float *out = malloc((size_t)n * sizeof *out + 1);
    return out && CHECK_OK(weft_read(x, WEFT_FLOAT32, out, n)) ? out : NULL;
}

static double *doubles(const char *name, int64_t *n)
{
    weft_array *a = golden_get(name);
    *n = a ? weft_size(a) : 0;
    double *out = malloc((size_t)*n * sizeof *out + 1);
    return a && CHECK_OK(weft_read(a, WEFT_FLOAT64, out, *n)) ? out : NULL;
}

/* The distance between neighbors of float at x. */
static double ulp(double x)
{
    int e;
    frexp(x, &e);
    return ldexp(1, e > -125 ? e - 24 : -149);
}

/* In units in the last place, a zero's sign included; infinite where one is NaN or beyond float and
 * the other is not. */
static double distance(double got, double want)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    }
    if (fabs(want) >= 0x1.ffffffp127) { /* what rounds to infinity */
        return isinf(got) && (got > 0) == (want > 0) ? 0 : (double)INFINITY;
    }
    if (want == 0) {
        return got == 0 && signbit(got) == signbit(want) ? 0 : (double)INFINITY;
    }
    return fabs(got - want) / ulp(want);
}

/* Of an operand (NULL: none): the numbers that a device may take for zeros. */
static bool *flushed(weft_array *operand, int64_t n)
{
    bool *out = calloc((size_t)n + 1, sizeof *out);
    if (operand == NULL || out == NULL || weft_dtype_of(operand) == WEFT_COMPLEX64)
        return out;
    float *x = malloc((size_t)n * sizeof *x + 1);
    if (x && CHECK_OK(weft_read(operand, WEFT_FLOAT32, x, n))) {
        for (int64_t i = 0; i < n; i++)
            out[i] = check_may_be_flushed((double)x[i]);
    }
    free(x);
    return out;
}

/* `least`: smaller results are held to the ulp of this. */
static void check_real(weft_array *actual, weft_array *const in[2], const char *group,
                       const char *name, double least)
{
    char tensor[96];
    snprintf(tensor, sizeof tensor, "%s/%s/out0", group, name);
    int64_t n;
    double *want = doubles(tensor, &n), worst = 0;
    const float *got = floats(actual, n);
    bool *skip_a = flushed(in[0], n), *skip_b = flushed(in[1], n);
    int64_t at = 0;
    for (int64_t i = 0; got && want && skip_a && skip_b && i < n; i++) {
        if (skip_a[i] || skip_b[i] || check_may_be_flushed(want[i]))
            continue;
        double d = distance((double)got[i], want[i]);
        d = fabs(want[i]) < least ? fabs((double)got[i] - want[i]) / ulp(least) : d;
        at = d > worst ? i : at;
        worst = d > worst ? d : worst;
    }
    if (!(worst <= 4)) {
        CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g: %.3g ulp", tensor, (long long)at,
                   want[at], (double)got[at], worst);
    } else {
        CHECK(got && want && n > 0);
    }
    free(skip_a);
    free(skip_b);
    free(want);
    free((void *)got);
}

static void real_functions(void)
{
    if (!golden_open("ops/elementwise")) {
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char tensor[96];
        snprintf(tensor, sizeof tensor, "real/%s/in0", functions[i].name);
        weft_scope_open();
        weft_array *x = golden_get(tensor);
        check_real(functions[i].function(x), (weft_array *[2]){x}, "real", functions[i].name, 0);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void real_functions_of_two(void)
{
    if (!golden_open("ops/elementwise")) {
        return;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        weft_scope_open();
        weft_array *a = golden_get("binary/in0"), *b = golden_get("binary/in1");
        /* A sum of exponentials near 1: its logarithm is what is left of two terms that cancel. */
        bool cancels = strcmp(pairs[i].name, "logaddexp") == 0;
        check_real(pairs[i].function(a, b), (weft_array *[2]){a, b}, "binary", pairs[i].name,
                   cancels ? 0.5 : 0);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* The error as a vector, in ulps of the larger part; zeros by their signs: the cuts need them. */
static void check_complex(weft_array *actual, const char *name)
{
    char re[96], im[96];
    snprintf(re, sizeof re, "%s/re", name);
    snprintf(im, sizeof im, "%s/im", name);
    int64_t n, m;
    double *x = doubles(re, &n), *y = doubles(im, &m);
    weft_complex64 *got = malloc((size_t)n * sizeof *got + 1);
    bool read = got && CHECK_OK(weft_read(actual, WEFT_COMPLEX64, got, n));
    for (int64_t i = 0; read && x && y && i < n; i++) {
        double size = hypot(x[i], y[i]), a = (double)got[i].re, b = (double)got[i].im;
        if (!(size < 0x1p127) || check_may_be_flushed(size)) {
            continue; /* infinite, undefined or nearly so: the cases below */
        }
        double error = hypot(a - x[i], b - y[i]) / ulp(size);
        if (!(error <= 4)) {
            CHECK_FAIL("%s: element %lld: expected (%.9g, %.9g), got (%.9g, %.9g): %.3g ulp", name,
                       (long long)i, x[i], y[i], a, b, error);
            break;
        }
    }
    CHECK(read && x && y && n > 0);
    free(x);
    free(y);
    free(got);
}

static void complex_functions(void)
{
    if (!golden_open("ops/elementwise")) {
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char name[96];
        snprintf(name, sizeof name, "complex/%s", functions[i].name);
        char tensor[112];
        snprintf(tensor, sizeof tensor, "%s/re", name);
        if (golden_has(tensor)) {
            weft_scope_open();
            check_complex(functions[i].function(golden_get("complex/in0")), name);
            weft_scope_close(NULL);
        }
    }
    weft_scope_open();
    check_real(weft_abs(golden_get("complex/in0")), (weft_array *[2]){NULL}, "complex", "abs", 0);
    weft_array *z = golden_get("complex/in0"), *w = golden_get("complex/in1");
    check_complex(weft_power(z, w), "complex2/power");
    check_complex(weft_divide(z, w), "complex2/divide");
    check_complex(weft_multiply(z, w), "complex2/multiply");
    weft_scope_close(NULL);
    golden_close();
}

static void windows_and_even_distances(void)
{
    if (!golden_open("ops/elementwise")) {
        return;
    }
    weft_scope_open();
    /* Near their ends windows are differences of numbers near 1: an absolute error. */
    golden_check(weft_hanning(7), "window/hanning7", 1e-7);
    golden_check(weft_hanning(1000), "window/hanning1000", 1e-7);
    golden_check(weft_hamming(8), "window/hamming8", 1e-7);
    golden_check(weft_blackman(9), "window/blackman9", 1e-7);
    golden_check(weft_bartlett(10), "window/bartlett10", 1e-7);
    golden_check(weft_linspace(-1.5, 0, 37, true, WEFT_FLOAT64), "linspace/a", 1e-15);
    golden_check(weft_linspace(3, -7, 12, false, WEFT_FLOAT64), "linspace/b", 1e-14);
    golden_check(weft_linspace(-1.5, 0, 37, true, WEFT_FLOAT32), "linspace/a", 0x1p-24);
    weft_scope_close(NULL);
    golden_close();
}

CHECK_MAIN("elementwise_golden", CHECK_CASE(real_functions), CHECK_CASE(real_functions_of_two),
           CHECK_CASE(complex_functions), CHECK_CASE(windows_and_even_distances))
