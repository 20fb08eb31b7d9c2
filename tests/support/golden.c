/* tests/support/golden.c -- reference arrays computed by other libraries. */
#include "tests/support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "weft/elementwise.h"
#include "weft/io.h"

static weft_safetensors *opened;
static char opened_name[128];

bool golden_open(const char *name)
{
    char file[192];
    golden_close();
    snprintf(opened_name, sizeof opened_name, "%s", name);
    snprintf(file, sizeof file, "%s.safetensors", name);
    return CHECK_OK(weft_safetensors_open(check_fixture(file), &opened));
}

void golden_close(void)
{
    weft_safetensors_close(opened);
    opened = NULL;
}

bool golden_has(const char *tensor)
{
    return opened && weft_safetensors_find(opened, tensor) >= 0;
}

weft_array *golden_get(const char *tensor)
{
    if (!golden_has(tensor)) {
        CHECK_FAIL("tests/golden/%s.safetensors: no tensor %s", opened_name, tensor);
        return NULL;
    }
    return weft_to(weft_safetensors_get(opened, tensor), weft_default_device());
}

weft_array *golden_as(const char *tensor, weft_dtype dtype)
{
    weft_array *a = golden_get(tensor);
    return a ? weft_astype(a, dtype) : NULL;
}

/* The distance of neighboring numbers of the dtype around a value. */
static double spacing(weft_dtype dtype, double value)
{
    int digits, lowest, exponent;
    switch (dtype) {
    case WEFT_FLOAT16:
        digits = 11, lowest = -24;
        break;
    case WEFT_BFLOAT16:
        digits = 8, lowest = -133;
        break;
    case WEFT_FLOAT64:
        digits = 53, lowest = -1074;
        break;
    default:
        digits = 24, lowest = -149;
        break;
    }
    frexp(value, &exponent);
    return ldexp(1, exponent - digits > lowest ? exponent - digits : lowest);
}

static bool elements_agree(double a, double e, double tolerance, double ulps, weft_dtype dtype)
{
    if (isnan(e) || isnan(a)) {
        return isnan(e) && isnan(a);
    }
    if (a == e) {
        return true;
    }
    if (isinf(e) || isinf(a)) {
        return false;
    }
    double limit = ulps > 0 ? ulps * spacing(dtype, e) : tolerance * fmax(1, fabs(e));
    return fabs(a - e) <= limit;
}

/* The elements as doubles, complex64 as pairs. */
static double *read_all(weft_array *a, int64_t *n)
{
    bool complex_ = weft_dtype_of(a) == WEFT_COMPLEX64;
    *n = weft_size(a) * (complex_ ? 2 : 1);
    double *out = calloc((size_t)*n + 1, sizeof *out);
    weft_complex64 *pairs = complex_ ? calloc((size_t)*n + 1, sizeof *pairs) : NULL;
    weft_status status = weft_read(a, complex_ ? WEFT_COMPLEX64 : WEFT_FLOAT64,
                                   complex_ ? (void *)pairs : (void *)out, weft_size(a));
    for (int64_t i = 0; complex_ && i < *n / 2; i++) {
        out[2 * i] = (double)pairs[i].re;
        out[2 * i + 1] = (double)pairs[i].im;
    }
    free(pairs);
    if (status != WEFT_OK) {
        free(out);
        return NULL;
    }
    return out;
}

static bool same_shape(weft_array *a, weft_array *b)
{
    weft_dims s = weft_shape(a), t = weft_shape(b);
    bool same = s.n == t.n;
    for (int i = 0; same && i < s.n; i++) {
        same = s.at[i] == t.at[i];
    }
    return same;
}

static bool check(weft_array *actual, const char *tensor, double tolerance, double ulps)
{
    weft_array *expected = golden_get(tensor);
    if (!expected) {
        return false;
    }
    if (!actual || !weft_ok(actual)) {
        return CHECK_FAIL("%s: %s", tensor, actual ? weft_error(actual) : "NULL");
    }
    if (!same_shape(actual, expected)) {
        return CHECK_FAIL("%s: shapes differ: rank %d, %lld elements; expected rank %d, %lld",
                          tensor, weft_ndim(actual), (long long)weft_size(actual),
                          weft_ndim(expected), (long long)weft_size(expected));
    }
    if (weft_dtype_of(actual) == WEFT_COMPLEX64) {
        expected = weft_astype(expected, WEFT_COMPLEX64);
    }
    int64_t n = 0, m = 0;
    double *a = read_all(actual, &n), *e = read_all(expected, &m);
    bool held = a && e && n == m;
    if (!held) {
        CHECK_FAIL("%s: %s", tensor, weft_error_message());
    }
    for (int64_t i = 0; held && i < n; i++) {
        if (!elements_agree(a[i], e[i], tolerance, ulps, weft_dtype_of(actual))) {
            held = CHECK_FAIL("%s: element %lld: expected %.17g, got %.17g", tensor, (long long)i,
                              e[i], a[i]);
        }
    }
    free(a);
    free(e);
    return held && CHECK(held);
}

bool golden_check(weft_array *actual, const char *tensor, double tolerance)
{
    return check(actual, tensor, tolerance, 0);
}

bool golden_check_ulp(weft_array *actual, const char *tensor, double ulps)
{
    return check(actual, tensor, 0, ulps);
}
