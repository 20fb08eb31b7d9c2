/* tests/vulkan/test_reduce.c -- reductions, softmax, running sums and sorting on the Vulkan device
 * against the CPU, for sizes and layouts with different kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/ops.h"

typedef weft_array *apply_fn(weft_array *x, weft_dims axes);

static weft_array *sums(weft_array *x, weft_dims axes)
{
    return weft_sum(x, axes, false);
}

static weft_array *means(weft_array *x, weft_dims axes)
{
    return weft_mean(x, axes, true);
}

static weft_array *products(weft_array *x, weft_dims axes)
{
    return weft_prod(x, axes, false);
}

static weft_array *largest(weft_array *x, weft_dims axes)
{
    return weft_max(x, axes, false);
}

static weft_array *smallest(weft_array *x, weft_dims axes)
{
    return weft_min(x, axes, false);
}

static weft_array *all_of(weft_array *x, weft_dims axes)
{
    return weft_all(x, axes, false);
}

static weft_array *any_of(weft_array *x, weft_dims axes)
{
    return weft_any(x, axes, false);
}

static weft_array *logsumexps(weft_array *x, weft_dims axes)
{
    return weft_logsumexp(x, axes, false);
}

/* The op itself on the given axis: the public functions move some axes to the end. */
static weft_array *along(const char *name, weft_array *x, weft_array *y, weft_dims axes)
{
    weft_axis_params params = {.axis = axes.at[0] - weft_ndim(x)};
    weft_array *in[] = {x, y};
    return weft_apply(weft_op_find(name), in, y ? 2 : 1, &params);
}

static weft_array *largest_places(weft_array *x, weft_dims axes)
{
    return along("argmax", x, NULL, axes);
}

static weft_array *smallest_places(weft_array *x, weft_dims axes)
{
    return along("argmin", x, NULL, axes);
}

static weft_array *softmaxes(weft_array *x, weft_dims axes)
{
    return along("softmax", x, NULL, axes);
}

static weft_array *log_softmaxes(weft_array *x, weft_dims axes)
{
    return along("log_softmax", x, NULL, axes);
}

static weft_array *softmax_grads(weft_array *x, weft_dims axes)
{
    return along("softmax_grad", x, x, axes);
}

static weft_array *log_softmax_grads(weft_array *x, weft_dims axes)
{
    return along("log_softmax_grad", x, x, axes);
}

static weft_array *sorted(weft_array *x, weft_dims axes)
{
    return along("sort", x, NULL, axes);
}

static weft_array *sorted_places(weft_array *x, weft_dims axes)
{
    return along("argsort", x, NULL, axes);
}

static weft_array *running(weft_array *x, weft_dims axes)
{
    return weft_cumsum(x, (int)axes.at[0], false, true);
}

static weft_array *running_back(weft_array *x, weft_dims axes)
{
    return weft_cumsum(x, (int)axes.at[0], true, false);
}

/* Factors near 1, some of them times 1e15 or 1e-15: products leave the range of float and
 * return. */
static weft_array *running_products(weft_array *x, weft_dims axes)
{
    weft_array *near_1 = weft_add_scalar(weft_scale(x, 0.25), 1);
    weft_array *large = weft_scale(near_1, 1e15), *small = weft_scale(near_1, 1e-15);
    weft_array *limit = weft_scalar(1.9, weft_dtype_of(x));
    near_1 = weft_where(weft_greater(x, limit), large, near_1);
    near_1 = weft_where(weft_less(x, weft_negative(limit)), small, near_1);
    return weft_cumprod(near_1, (int)axes.at[0], false, true);
}

static weft_array *running_logs(weft_array *x, weft_dims axes)
{
    return weft_logcumsumexp(x, (int)axes.at[0], true, true);
}

static weft_array *running_largest(weft_array *x, weft_dims axes)
{
    return weft_cummax(x, (int)axes.at[0], false, true);
}

static weft_array *running_smallest(weft_array *x, weft_dims axes)
{
    return weft_cummin(x, (int)axes.at[0], true, false);
}

typedef struct named_fn {
    const char *name;
    apply_fn *apply;
    bool exact; /* does not round */
} named_fn;

static const named_fn reductions[] = {
    {"sum", sums, false},      {"mean", means, false},
    {"prod", products, false}, {"logsumexp", logsumexps, false},
    {"max", largest, true},    {"min", smallest, true},
    {"all", all_of, true},     {"any", any_of, true},
};
static const named_fn places[] = {{"argmax", largest_places, true},
                                  {"argmin", smallest_places, true}};
static const named_fn softmax_family[] = {{"softmax", softmaxes, false},
                                          {"log_softmax", log_softmaxes, false},
                                          {"softmax_grad", softmax_grads, false},
                                          {"log_softmax_grad", log_softmax_grads, false}};
static const named_fn scans[] = {{"cumsum", running, false}, {"cumsum back", running_back, false}};
static const named_fn other_scans[] = {{"cumprod", running_products, false},
                                       {"logcumsumexp", running_logs, false},
                                       {"cummax", running_largest, true},
                                       {"cummin back", running_smallest, true}};
static const named_fn sorts[] = {{"sort", sorted, true}, {"argsort", sorted_places, true}};

#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

/* ---- Values --------------------------------------------------------------------------------- */

typedef enum { PLAIN, TURNED, FLIPPED, SPREAD, LAYOUTS } layout;
static const char *const layout_names[] = {"plain", "turned", "flipped", "spread"};

static uint64_t state = 1;

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(state >> 33) * 0x1p-29 - 2;
}

static int64_t size_of(weft_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    return n;
}

/* An array on the CPU whose memory holds `shape` before lay_out. Few different values: ties. */
static weft_array *make(weft_dims shape, weft_dtype dtype, bool specials, bool subnormal)
{
    const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, subnormal ? 0x1p-140 : 0x1p-120};
    int64_t n = size_of(shape);
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    bool real = weft_dtype_is_float(dtype);
    for (int64_t i = 0; x && i < n; i++) {
        x[i] = real ? draw() : floor(draw() * 40);
        x[i] = real && n > 2000 ? floor(x[i] * 256) / 256 : x[i];
        x[i] = weft_dtype_is_signed(dtype) || real ? x[i] : fabs(x[i]);
        if (specials && real && draw() > 1.9)
            x[i] = special[(int)(draw() * 1.49 + 3)];
    }
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT64, shape), dtype);
    CHECK_OK(weft_eval(a));
    free(x);
    return a;
}

/* A view of the logical shape with the axes of `stored`. */
static weft_dims stored_shape(weft_dims shape, layout lie)
{
    weft_dims stored = shape;
    for (int i = 0; i < shape.n; i++) {
        stored.at[i] = lie == TURNED ? shape.at[shape.n - 1 - i] : shape.at[i];
        stored.at[i] = lie == SPREAD ? 2 * shape.at[i] + 1 : stored.at[i];
    }
    return stored;
}

static weft_array *lay_out(weft_array *a, weft_dims shape, layout lie)
{
    weft_dims axes = {.n = shape.n}, starts = axes, stops = axes, steps = axes;
    for (int i = 0; i < shape.n; i++) {
        axes.at[i] = lie == TURNED ? shape.n - 1 - i : i;
        starts.at[i] = lie == FLIPPED ? -1 : 1;
        stops.at[i] = lie == FLIPPED ? -1 - shape.at[i] : 2 * shape.at[i] + 1;
        steps.at[i] = lie == FLIPPED ? -1 : 2;
    }
    if (lie == PLAIN || shape.n == 0)
        return a;
    return lie == TURNED ? weft_transpose(a, axes) : weft_slice(a, axes, starts, stops, steps);
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16  ? 0x1p-7
           : dtype == WEFT_FLOAT16 ? 0x1p-10
           : dtype == WEFT_FLOAT32 ? 4e-6
           : dtype == WEFT_FLOAT64 ? 1e-13
                                   : 0;
}

/* Signs of zeros and payloads of NaN may differ. */
static void compare(weft_array *actual, weft_array *expected, double tolerance, const char *label)
{
    int64_t n = weft_size(expected);
    double *a = malloc(((size_t)n + 1) * sizeof *a), *e = malloc(((size_t)n + 1) * sizeof *e);
    if (CHECK_EQ_INT(weft_size(actual), n) && CHECK_OK(weft_read(expected, WEFT_FLOAT64, e, n)) &&
        CHECK_OK(weft_read(actual, WEFT_FLOAT64, a, n))) {
        int64_t i = 0;
        while (i < n && (a[i] == e[i] || (isnan(a[i]) && isnan(e[i])) ||
                         fabs(a[i] - e[i]) <= tolerance * fmax(1, fabs(e[i]))))
            i++;
        if (i < n)
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label, (long long)i, e[i],
                       a[i]);
    }
    free(a);
    free(e);
}

/* Evaluated, so that it can be used more than once. */
static weft_array *ready(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

static weft_device *vulkan(void)
{
    weft_device *device = weft_device_get("vulkan");
    if (!device)
        check_skip("no Vulkan device");
    return device;
}

static void check_one(const named_fn *f, weft_array *x, weft_dims shape, weft_dims axes, layout lie)
{
    char label[160];
    weft_scope_open();
    weft_array *there = ready(weft_to(x, vulkan()));
    weft_device_reset_counts(vulkan());
    weft_array *expected = f->apply(lay_out(x, shape, lie), axes);
    weft_array *actual = f->apply(lay_out(there, shape, lie), axes);
    snprintf(label, sizeof label, "%s %s %s %lldx%lldx... axis %lld", f->name,
             weft_dtype_name(weft_dtype_of(x)), layout_names[lie], (long long)shape.at[0],
             (long long)shape.at[shape.n - 1], (long long)axes.at[0]);
    if (CHECK_OK(weft_eval(actual))) {
        weft_counts counts = weft_device_counts(vulkan());
        if (!CHECK(counts.rows == 1 && counts.references == 0 && counts.copies == 0))
            CHECK_FAIL("%s: not by its kernel", label);
        compare(actual, expected, f->exact ? 0 : rounding(weft_dtype_of(actual)), label);
    }
    weft_scope_close(NULL);
}

static void check_all(const named_fn *functions, int n, weft_dims shape, weft_dims axes,
                      weft_dtype dtype, bool specials)
{
    if (!vulkan())
        return;
    bool real = weft_dtype_is_float(dtype);
    for (layout lie = PLAIN; lie < LAYOUTS; lie++) {
        weft_scope_open();
        /* Devices may take subnormal numbers for 0 when they compute, but not when they copy. */
        weft_array *x = make(stored_shape(shape, lie), dtype, specials, functions[0].exact);
        for (int i = 0; i < n; i++)
            if (real || (functions[i].apply != means && functions[i].apply != logsumexps))
                check_one(&functions[i], x, shape, axes, lie);
        weft_scope_close(NULL);
    }
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static const weft_dtype narrow[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
static const weft_dtype others[] = {WEFT_FLOAT64, WEFT_INT32, WEFT_INT64, WEFT_UINT64,
                                    WEFT_UINT8,   WEFT_INT8,  WEFT_INT16, WEFT_BOOL};

static void reductions_of_rows(void)
{
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(3, 20), WEFT_DIMS(1), WEFT_FLOAT32, false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(37, 61), WEFT_DIMS(1), WEFT_FLOAT32, false);
    for (int d = 0; d < LENGTH(narrow); d++)
        check_all(reductions, LENGTH(reductions), WEFT_DIMS(7, 999), WEFT_DIMS(1), narrow[d],
                  false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(2, 9001), WEFT_DIMS(1), WEFT_FLOAT32,
              false);
}

static void reductions_of_columns(void)
{
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(9, 3000), WEFT_DIMS(0), WEFT_FLOAT32,
              false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(3001, 70), WEFT_DIMS(0), WEFT_FLOAT16,
              false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(5, 300, 33), WEFT_DIMS(1), WEFT_FLOAT32,
              false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(5, 37, 130), WEFT_DIMS(0, 2), WEFT_BFLOAT16,
              false);
}

static void reductions_of_everything(void)
{
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(50001), WEFT_DIMS(0), WEFT_FLOAT32, false);
    check_all(reductions, LENGTH(reductions), WEFT_DIMS(50, 3, 301), WEFT_DIMS(0, 1, 2),
              WEFT_FLOAT16, false);
}

static void reductions_of_other_dtypes(void)
{
    for (int d = 0; d < LENGTH(others); d++) {
        check_all(reductions, LENGTH(reductions), WEFT_DIMS(41, 200), WEFT_DIMS(1), others[d],
                  false);
        check_all(reductions, LENGTH(reductions), WEFT_DIMS(9000), WEFT_DIMS(0), others[d], false);
    }
}

static void many_rows(void)
{
    if (!vulkan())
        return;
    weft_scope_open();
    weft_array *row = weft_to(weft_arange(0, 1100, 1, WEFT_FLOAT32), vulkan());
    weft_array *all = weft_broadcast_to(row, WEFT_DIMS(70000, 1100));
    weft_array *sum = ready(weft_sum(all, WEFT_DIMS(1), false));
    float got[3] = {0};
    CHECK_OK(weft_read(weft_slice_axis(sum, 0, 69998, 70000), WEFT_FLOAT32, got, 2));
    CHECK_CLOSE(got[0], 604450, 0);
    CHECK_CLOSE(got[1], 604450, 0);
    CHECK_OK(weft_read(weft_mean(sum, WEFT_ALL_AXES, false), WEFT_FLOAT32, got, 1));
    CHECK_RELATIVE(got[0], 604450, 1e-6);
    weft_scope_close(NULL);
}

/* More axes than a kernel supports: the array is copied, after which the kernel can compute it. */
static void many_axes(void)
{
    if (!vulkan())
        return;
    weft_scope_open();
    weft_dims shape = WEFT_DIMS(2, 3, 2, 3, 2, 3, 2, 3, 2, 3), order = {.n = 10};
    for (int i = 0; i < 10; i++)
        order.at[i] = 9 - i;
    weft_array *stored = make(shape, WEFT_FLOAT32, false, false);
    weft_array *x = ready(weft_transpose(stored, order));
    weft_array *there = ready(weft_transpose(ready(weft_to(stored, vulkan())), order));
    weft_dims some = WEFT_DIMS(1, 2, 5, 6, 9), every_other = WEFT_DIMS(0, 2, 4, 6, 8);
    compare(weft_sum(there, some, false), weft_sum(x, some, false), 1e-6, "few runs");
    compare(weft_sum(there, every_other, false), weft_sum(x, every_other, false), 1e-6, "many");
    compare(along("softmax", there, NULL, WEFT_DIMS(4)), along("softmax", x, NULL, WEFT_DIMS(4)),
            1e-6, "softmax");
    compare(along("sort", there, NULL, WEFT_DIMS(4)), along("sort", x, NULL, WEFT_DIMS(4)), 0,
            "sort");
    weft_scope_close(NULL);
}

static void sums_are_accurate(void)
{
    if (!vulkan())
        return;
    enum { N = 1 << 20 };
    float *x = malloc(N * sizeof *x);
    double exact = 0, got;
    for (int i = 0; x && i < N; i++) {
        x[i] = (float)(draw() + 2.1);
        exact += (double)x[i];
    }
    weft_scope_open();
    weft_array *a = ready(weft_to(weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(N)), vulkan()));
    CHECK_OK(weft_read(weft_sum(a, WEFT_ALL_AXES, false), WEFT_FLOAT64, &got, 1));
    CHECK_RELATIVE(got, exact, 1e-6);
    CHECK_OK(weft_read(weft_slice_axis(weft_cumsum(a, 0, false, true), 0, N - 1, N), WEFT_FLOAT64,
                       &got, 1));
    CHECK_RELATIVE(got, exact, 1e-6);
    weft_array *column = weft_reshape(a, WEFT_DIMS(N / 4, 4));
    CHECK_OK(weft_read(weft_sum(weft_sum(column, WEFT_DIMS(0), false), WEFT_DIMS(0), false),
                       WEFT_FLOAT64, &got, 1));
    CHECK_RELATIVE(got, exact, 1e-6);
    weft_scope_close(NULL);
    free(x);
}

static void nothing_to_reduce(void)
{
    if (!vulkan())
        return;
    weft_scope_open();
    weft_array *none = ready(weft_to(weft_zeros(WEFT_DIMS(3, 0), WEFT_FLOAT32), vulkan()));
    float got[3];
    CHECK_OK(weft_read(weft_sum(none, WEFT_DIMS(1), false), WEFT_FLOAT32, got, 3));
    CHECK_CLOSE(got[2], 0, 0);
    CHECK_OK(weft_read(weft_prod(none, WEFT_DIMS(1), false), WEFT_FLOAT32, got, 3));
    CHECK_CLOSE(got[2], 1, 0);
    CHECK_OK(weft_read(weft_logsumexp(none, WEFT_DIMS(1), false), WEFT_FLOAT32, got, 3));
    CHECK(isinf(got[2]) && got[2] < 0);
    CHECK_OK(weft_read(weft_mean(none, WEFT_DIMS(1), false), WEFT_FLOAT32, got, 3));
    CHECK(isnan(got[0]) && isnan(got[2]));
    CHECK(weft_item(weft_all(none, WEFT_ALL_AXES, false)) == 1);
    CHECK(weft_item(weft_any(none, WEFT_ALL_AXES, false)) == 0);
    weft_scope_close(NULL);
}

static void reductions_of_nan(void)
{
    static const named_fn those[] = {
        {"logsumexp", logsumexps, false},
        {"max", largest, true},
        {"min", smallest, true},
        {"all", all_of, true},
        {"any", any_of, true},
        {"sum", sums, false},
    };
    for (int d = 0; d < LENGTH(narrow); d++) {
        check_all(those, LENGTH(those), WEFT_DIMS(200, 9), WEFT_DIMS(1), narrow[d], true);
        check_all(places, LENGTH(places), WEFT_DIMS(200, 30), WEFT_DIMS(1), narrow[d], true);
        check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(200, 9), WEFT_DIMS(1),
                  narrow[d], true);
        check_all(sorts, LENGTH(sorts), WEFT_DIMS(9, 200), WEFT_DIMS(1), narrow[d], true);
        check_all(scans, LENGTH(scans), WEFT_DIMS(30, 100), WEFT_DIMS(1), narrow[d], true);
    }
    check_all(sorts, LENGTH(sorts), WEFT_DIMS(9, 200), WEFT_DIMS(1), WEFT_FLOAT64, true);
    check_all(places, LENGTH(places), WEFT_DIMS(9, 200), WEFT_DIMS(1), WEFT_FLOAT64, true);
}

static void rows_without_a_number(void)
{
    if (!vulkan())
        return;
    float x[4][3] = {{-INFINITY, -INFINITY, -INFINITY},
                     {1, INFINITY, INFINITY},
                     {NAN, NAN, NAN},
                     {-INFINITY, 5, NAN}};
    weft_scope_open();
    weft_array *a = ready(weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(4, 3)));
    weft_array *b = ready(weft_to(a, vulkan()));
    for (int i = 0; i < LENGTH(softmax_family); i++)
        compare(softmax_family[i].apply(b, WEFT_DIMS(1)), softmax_family[i].apply(a, WEFT_DIMS(1)),
                0, softmax_family[i].name);
    compare(logsumexps(b, WEFT_DIMS(1)), logsumexps(a, WEFT_DIMS(1)), 0, "logsumexp");
    compare(largest(b, WEFT_DIMS(1)), largest(a, WEFT_DIMS(1)), 0, "max");
    weft_scope_close(NULL);
}

static void indices_of_extremes(void)
{
    for (int d = 0; d < LENGTH(narrow); d++) {
        check_all(places, LENGTH(places), WEFT_DIMS(2, 30001), WEFT_DIMS(1), narrow[d], false);
        check_all(places, LENGTH(places), WEFT_DIMS(20, 500, 40), WEFT_DIMS(1), narrow[d], false);
    }
    for (int d = 0; d < LENGTH(others); d++)
        check_all(places, LENGTH(places), WEFT_DIMS(40, 300), WEFT_DIMS(1), others[d], false);
}

static void softmaxes_agree(void)
{
    for (int d = 0; d < LENGTH(narrow); d++) {
        check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(65, 40), WEFT_DIMS(1),
                  narrow[d], false);
        check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(7, 1025), WEFT_DIMS(1),
                  narrow[d], false);
    }
    check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(70, 35, 64), WEFT_DIMS(1),
              WEFT_FLOAT32, false);
    check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(70, 5, 64), WEFT_DIMS(0),
              WEFT_FLOAT32, false);
    check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(20, 90), WEFT_DIMS(1), WEFT_FLOAT64,
              false);
    check_all(softmax_family, LENGTH(softmax_family), WEFT_DIMS(2, 8200), WEFT_DIMS(1),
              WEFT_FLOAT64, false);
    check_all(softmax_family, 2, WEFT_DIMS(2, 150000), WEFT_DIMS(1), WEFT_FLOAT32, false);
}

static void scans_agree(void)
{
    for (int d = 0; d < LENGTH(narrow); d++)
        check_all(scans, LENGTH(scans), WEFT_DIMS(3, 3001), WEFT_DIMS(1), narrow[d], false);
    for (int d = 0; d < LENGTH(others); d++) {
        check_all(scans, LENGTH(scans), WEFT_DIMS(3, 70), WEFT_DIMS(1), others[d], false);
        check_all(scans, LENGTH(scans), WEFT_DIMS(2, 17001), WEFT_DIMS(1), others[d], false);
    }
    check_all(scans, LENGTH(scans), WEFT_DIMS(2, 80000), WEFT_DIMS(1), WEFT_FLOAT32, false);
    check_all(scans, LENGTH(scans), WEFT_DIMS(100, 70, 64), WEFT_DIMS(1), WEFT_FLOAT32, false);
    check_all(scans, LENGTH(scans), WEFT_DIMS(3, 400, 5), WEFT_DIMS(1), WEFT_FLOAT32, false);
}

static void other_scans_agree(void)
{
    check_all(other_scans, LENGTH(other_scans), WEFT_DIMS(5, 3000), WEFT_DIMS(1), WEFT_FLOAT32,
              false);
    check_all(other_scans, LENGTH(other_scans), WEFT_DIMS(3, 100, 7), WEFT_DIMS(1), WEFT_FLOAT32,
              false);
    check_all(other_scans, LENGTH(other_scans), WEFT_DIMS(40, 9), WEFT_DIMS(0), WEFT_FLOAT32,
              false);
}

static void sorts_agree(void)
{
    static const int64_t lengths[] = {1, 2, 3, 511, 513, 2048, 2049};
    for (int i = 0; i < LENGTH(lengths); i++)
        check_all(sorts, LENGTH(sorts), WEFT_DIMS(3, lengths[i]), WEFT_DIMS(1), WEFT_FLOAT32,
                  false);
    for (int d = 0; d < LENGTH(others); d++) {
        check_all(sorts, LENGTH(sorts), WEFT_DIMS(40, 33), WEFT_DIMS(1), others[d], false);
        check_all(sorts, LENGTH(sorts), WEFT_DIMS(2, 5000), WEFT_DIMS(1), others[d], false);
    }
    check_all(sorts, LENGTH(sorts), WEFT_DIMS(3, 300, 5), WEFT_DIMS(1), WEFT_BFLOAT16, false);
    check_all(sorts, LENGTH(sorts), WEFT_DIMS(5000, 3), WEFT_DIMS(0), WEFT_FLOAT16, false);
    check_all(sorts, LENGTH(sorts), WEFT_DIMS(1, 60001), WEFT_DIMS(1), WEFT_FLOAT32, true);
}

CHECK_MAIN("vulkan_reduce", CHECK_CASE(reductions_of_rows), CHECK_CASE(reductions_of_columns),
           CHECK_CASE(reductions_of_everything), CHECK_CASE(reductions_of_other_dtypes),
           CHECK_CASE(many_rows), CHECK_CASE(many_axes), CHECK_CASE(sums_are_accurate),
           CHECK_CASE(nothing_to_reduce), CHECK_CASE(reductions_of_nan),
           CHECK_CASE(rows_without_a_number), CHECK_CASE(indices_of_extremes),
           CHECK_CASE(softmaxes_agree), CHECK_CASE(scans_agree), CHECK_CASE(other_scans_agree),
           CHECK_CASE(sorts_agree))
