/* tests/vulkan/both.c -- one graph on the CPU and on the Vulkan device. */
#include "tests/vulkan/both.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/backend.h"

static uint64_t state;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / 0x1p31;
}

bool both_there(void)
{
    bool there = weft_device_get("vulkan") != NULL;
    if (!there) {
        check_skip("%s", weft_error_message());
    }
    return there;
}

static int64_t product(weft_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    return n;
}

weft_array *both_list(const double *values, weft_dims shape, weft_dtype dtype)
{
    weft_device *device = weft_default_device();
    weft_set_default_device(weft_device_get("cpu"));
    weft_array *a = weft_astype(weft_from_data(values, WEFT_FLOAT64, shape), dtype);
    CHECK_OK(weft_eval(a));
    weft_set_default_device(device);
    return weft_to(a, device);
}

weft_array *both_draw(weft_dims shape, weft_dtype dtype, double lo, double hi)
{
    int64_t n = product(shape);
    double *values = malloc(((size_t)n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = lo + draw() * (hi - lo);
        values[i] = weft_dtype_is_float(dtype) ? values[i] : floor(values[i]);
    }
    weft_array *a = both_list(values, shape, dtype);
    free(values);
    return a;
}

/* A copy of the elements, as doubles or in their dtype. NULL: a failure was reported. */
static void *run(const char *name, both_make *make, const void *context, bool bits, int64_t *bytes,
                 const char *label)
{
    void *out = NULL;
    state = 1;
    weft_set_default_device(weft_device_get(name));
    weft_scope_open();
    weft_array *a = make(context);
    weft_device_reset_counts(weft_default_device());
    weft_dtype dtype = bits ? weft_dtype_of(a) : WEFT_FLOAT64;
    *bytes = weft_ok(a) ? weft_size(a) * (int64_t)weft_dtype_size(dtype) : 0;
    out = calloc((size_t)*bytes + 1, 1);
    if (weft_eval(a) != WEFT_OK) {
        CHECK_FAIL("%s on %s: %s", label, name, weft_error_message());
        free(out);
        out = NULL;
    }
    weft_counts c = weft_device_counts(weft_default_device());
    if (out && strcmp(name, "vulkan") == 0 && c.references + c.expansions > 0) {
        CHECK_FAIL("%s: %lld by reference, %lld by expansion", label, (long long)c.references,
                   (long long)c.expansions);
    }
    if (out && weft_read(a, dtype, out, weft_size(a)) != WEFT_OK) {
        CHECK_FAIL("%s on %s: %s", label, name, weft_error_message());
    }
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
    return out;
}

static void compare(const double *actual, const double *expected, int64_t n, double tolerance,
                    const char *label)
{
    for (int64_t i = 0; i < n; i++) {
        double bound = tolerance * fmax(1, fabs(expected[i]));
        bool same = (isnan(actual[i]) && isnan(expected[i])) || actual[i] == expected[i] ||
                    fabs(actual[i] - expected[i]) <= bound;
        if (!same) {
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label, (long long)i,
                       expected[i], actual[i]);
            return;
        }
    }
}

/* Equal bits, except that NaNs may differ. */
static bool same_bits(const void *a, const void *b, int64_t bytes)
{
    const double *x = a, *y = b;
    int64_t n = bytes / (int64_t)sizeof *x, i = 0;
    while (i < n && (memcmp(x + i, y + i, sizeof *x) == 0 || (isnan(x[i]) && isnan(y[i])))) {
        i++;
    }
    return memcmp(a, b, (size_t)bytes) == 0 || (i == n && bytes == n * (int64_t)sizeof *x);
}

void both_same(both_make *make, const void *context, double tolerance, const char *label)
{
    int64_t a_bytes, b_bytes;
    void *a = run("cpu", make, context, tolerance == 0, &a_bytes, label);
    void *b = run("vulkan", make, context, tolerance == 0, &b_bytes, label);
    if (a && b && CHECK_EQ_INT(b_bytes, a_bytes)) {
        if (tolerance == 0) {
            check_that(same_bits(a, b, a_bytes), __FILE__, __LINE__, "%s: bits differ", label);
        } else {
            compare(b, a, a_bytes / (int64_t)sizeof(double), tolerance, label);
        }
    }
    free(a);
    free(b);
}

static void expect_failure(const char *device, both_make *make, const void *context,
                           const char *message)
{
    state = 1;
    weft_set_default_device(weft_device_get(device));
    weft_scope_open();
    CHECK_STATUS(weft_eval(make(context)), WEFT_INVALID);
    if (message) {
        CHECK_CONTAINS(weft_error_message(), message);
    }
    weft_scope_close(NULL);
}

void both_fail(both_make *make, const void *context, const char *message)
{
    expect_failure("cpu", make, context, NULL);
    expect_failure("vulkan", make, context, message);
    weft_scope_open();
    CHECK_EQ_INT(weft_item_int(weft_full(WEFT_SCALAR, 7, WEFT_INT32)), 7);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

int64_t both_fused(void)
{
    return weft_device_counts(weft_default_device()).fused;
}

bool both_few(void)
{
    return !check_exhaustive() &&
           strstr(weft_device_description(weft_device_get("vulkan")), "in software") != NULL;
}

int64_t both_commands_on_cores(void)
{
    weft_counter all[16];
    const int n = weft_device_counters(weft_device_get("vulkan"), all, 16);
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].name, "commands on matrix cores") == 0) {
            return all[i].value;
        }
    }
    return -1;
}

bool both_on_cores(weft_dtype dtype)
{
    weft_device *device = weft_default_device();
    weft_set_default_device(weft_device_get("vulkan"));
    weft_scope_open();
    weft_array *a = weft_ones(WEFT_DIMS(32, 32), dtype);
    const int64_t before = both_commands_on_cores();
    const bool there = CHECK_OK(weft_eval(weft_matmul(a, a))) && both_commands_on_cores() > before;
    weft_scope_close(NULL);
    weft_set_default_device(device);
    return there;
}

weft_array *both_apart(weft_array *a, bool one_by_one)
{
    if (one_by_one) {
        CHECK_OK(weft_eval(weft_keep(a)));
        weft_drop(a);
    }
    return a;
}

bool both_equal(weft_array *a, weft_array *b)
{
    const weft_dtype dtype = weft_dtype_of(a);
    const int64_t n = weft_size(a);
    const size_t bytes = (size_t)n * weft_dtype_size(dtype);
    void *x = calloc(2, bytes), *y = (char *)x + bytes;
    const bool same = x && n == weft_size(b) && weft_dtype_of(b) == dtype &&
                      CHECK_OK(weft_read(a, dtype, x, n)) && CHECK_OK(weft_read(b, dtype, y, n)) &&
                      memcmp(x, y, bytes) == 0;
    free(x);
    return same;
}
