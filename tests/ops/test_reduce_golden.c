/* tests/ops/test_reduce_golden.c -- reductions, scans, sorts and searches against NumPy, SciPy and
 * JAX in float64, with their derivatives; zeros, infinities, NaN and no elements among the inputs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static const char *format(const char *pattern, const char *a, const char *b, const char *c)
{
    static char name[96];
    snprintf(name, sizeof name, pattern, a, b, c);
    return name;
}

/* ---- reductions ----------------------------------------------------------------------------- */

static weft_array *var0(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft_var(x, axes, keepdims, 0);
}

static weft_array *std1(weft_array *x, weft_dims axes, bool keepdims)
{
    return weft_std(x, axes, keepdims, 1);
}

typedef struct reducer {
    const char *name;
    weft_array *(*apply)(weft_array *x, weft_dims axes, bool keepdims);
} reducer;

static const reducer reducers[] = {
    {"sum", weft_sum}, {"mean", weft_mean},     {"prod", weft_prod},
    {"max", weft_max}, {"min", weft_min},       {"all", weft_all},
    {"any", weft_any}, {"median", weft_median}, {"count_nonzero", weft_count_nonzero},
    {"var0", var0},    {"std1", std1},          {"logsumexp", weft_logsumexp},
};

static void reduce_kind(const char *kind, weft_dtype dtype)
{
    static const char *const labels[] = {"first", "middle", "last", "around", "all"};
    const weft_dims axes[] = {{1, {0}}, {1, {1}}, {1, {2}}, {2, {0, 2}}, {3, {0, 1, 2}}};
    for (size_t f = 0; f < sizeof reducers / sizeof *reducers; f++) {
        for (int a = 0; a < 5; a++) {
            const char *name = format("%s.%s.%s", reducers[f].name, kind, labels[a]);
            if (golden_has(name)) {
                weft_array *x = golden_as(format("x.%s%s%s", kind, "", ""), dtype);
                name = format("%s.%s.%s", reducers[f].name, kind, labels[a]);
                /* A few roundings of sums of up to 72 terms around 1. */
                golden_check(reducers[f].apply(x, axes[a], true), name,
                             dtype == WEFT_FLOAT64 ? 1e-14 : 2e-6);
            }
        }
    }
}

static void reductions_agree(void)
{
    static const char *const kinds[] = {"plain", "zeros", "extreme", "empty"};
    if (!golden_open("ops/reduce")) {
        return;
    }
    weft_scope_open();
    for (int k = 0; k < 4; k++) {
        reduce_kind(kinds[k], WEFT_FLOAT64);
        reduce_kind(kinds[k], WEFT_FLOAT32);
    }
    reduce_kind("large", WEFT_FLOAT64); /* float32 overflows */
    weft_scope_close(NULL);
    golden_close();
}

/* ---- scans ---------------------------------------------------------------------------------- */

typedef weft_array *scan_function(weft_array *x, int axis, bool reverse, bool inclusive);

typedef struct scanner {
    scan_function *apply;
    bool reverse, inclusive;
} scanner;

static int call_scan(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const scanner *s = context;
    (void)n_in;
    (void)room;
    out[0] = s->apply(in[0], 1, s->reverse, s->inclusive);
    return 1;
}

static weft_array *kept(const char *name)
{
    weft_array *a = golden_get(name);
    CHECK_OK(weft_eval(a));
    return a;
}

static void scan_one(const char *name, scanner s, const char *kind)
{
    char label[96], part[112];
    snprintf(label, sizeof label, "%s.%s.%d%d", name, kind, s.reverse, s.inclusive);
    if (!golden_has(label)) {
        return;
    }
    weft_scope_open();
    weft_array *x = kept(format("x.%s%s%s", kind, "", ""));
    golden_check(s.apply(x, 1, s.reverse, s.inclusive), label, 1e-13);
    snprintf(part, sizeof part, "%s.dx", label);
    if (golden_has(part)) {
        weft_array *ct = kept(format("ct.%s%s%s", kind, "", "")), *dx = NULL, *y, *dy;
        CHECK_OK(weft_vjp(call_scan, &s, &x, 1, &ct, &y, 1, &dx));
        golden_check(dx, part, 1e-13);
        weft_array *tangent = kept(format("tangent.%s%s%s", kind, "", ""));
        CHECK_OK(weft_jvp(call_scan, &s, &x, 1, &tangent, &y, 1, &dy));
        snprintf(part, sizeof part, "%s.dy", label);
        golden_check(dy, part, 1e-13);
    }
    weft_scope_close(NULL);
}

static void scans_and_their_derivatives_agree(void)
{
    static const char *const kinds[] = {"plain", "zeros", "empty", "large"};
    static const char *const names[] = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};
    static scan_function *const functions[] = {weft_cumsum, weft_cumprod, weft_cummax, weft_cummin,
                                               weft_logcumsumexp};
    if (!golden_open("ops/reduce")) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        for (int f = 0; f < 5; f++) {
            for (int way = 0; way < 4; way++) {
                scan_one(names[f], (scanner){functions[f], way & 1, way >> 1}, kinds[k]);
            }
        }
    }
    golden_close();
}

/* ---- sorts, searches, diagonals ------------------------------------------------------------- */

static void sorts_and_searches_agree(void)
{
    static const char *const kinds[] = {"plain", "zeros", "extreme"};
    static const char *const axes[] = {"0", "1", "2"};
    if (!golden_open("ops/reduce")) {
        return;
    }
    for (int k = 0; k < 3; k++) {
        weft_scope_open();
        weft_array *x = kept(format("x.%s%s%s", kinds[k], "", ""));
        for (int a = 0; a < 3; a++) {
            golden_check(weft_sort(x, a), format("sort.%s.%s%s", kinds[k], axes[a], ""), 0);
            golden_check(weft_argsort(x, a), format("argsort.%s.%s%s", kinds[k], axes[a], ""), 0);
        }
        golden_check(weft_argmax(x, WEFT_FLATTENED, false),
                     format("argmax.%s%s%s", kinds[k], "", ""), 0);
        golden_check(weft_argmin(x, 1, false), format("argmin.%s%s%s", kinds[k], "", ""), 0);
        golden_check(weft_softmax_axes(x, WEFT_DIMS(0, 2)),
                     format("softmax.%s%s%s", kinds[k], "", ""), 1e-15);
        weft_array *sorted = kept(format("sorted.%s%s%s", kinds[k], "", ""));
        weft_array *values = kept(format("values.%s%s%s", kinds[k], "", ""));
        golden_check(weft_searchsorted(sorted, values, false),
                     format("searchsorted.%s.%s%s", kinds[k], "left", ""), 0);
        golden_check(weft_searchsorted(sorted, values, true),
                     format("searchsorted.%s.%s%s", kinds[k], "right", ""), 0);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void traces_agree(void)
{
    static const int64_t offsets[] = {-6, -2, 0, 3, 7};
    if (!golden_open("ops/reduce")) {
        return;
    }
    weft_scope_open();
    weft_array *x = kept("x.matrix");
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "trace.%d", (int)offsets[i]);
        golden_check(weft_trace(x, offsets[i], 1, 2), name, 1e-15);
    }
    golden_check(weft_trace(x, 1, -1, 0), "trace.other", 1e-15);
    weft_array *bytes = weft_full(WEFT_DIMS(3, 3), 100, WEFT_INT8);
    CHECK_EQ_INT(weft_item_int(weft_trace(bytes, 0, 0, 1)), 300);
    bytes = weft_full(WEFT_DIMS(3, 3), 100, WEFT_INT8);
    CHECK_EQ_INT(weft_dtype_of(weft_trace_as(bytes, 0, 0, 1, WEFT_FLOAT16)), WEFT_FLOAT16);
    CHECK_CONTAINS(weft_error(weft_trace(x, 0, 1, 1)), "expected two different axes");
    weft_scope_close(NULL);
    golden_close();
}

/* ---- partitions ----------------------------------------------------------------------------- */

/* By the definition: the kth of the sorted row in its place, the others where they belong. */
static void partition_one(weft_dtype dtype, int64_t n, int64_t kth)
{
    double x[400], y[400], sorted[400];
    for (int64_t i = 0; i < n; i++) {
        x[i] = (double)(i * 7919 % 37); /* many are equal */
    }
    weft_scope_open();
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(n)), dtype);
    CHECK_OK(weft_eval(a));
    CHECK_OK(weft_read(weft_sort(a, 0), WEFT_FLOAT64, sorted, n));
    CHECK_OK(weft_read(weft_partition(a, kth, 0), WEFT_FLOAT64, y, n));
    kth += kth < 0 ? n : 0;
    bool right = y[kth] == sorted[kth];
    for (int64_t i = 0; i < n; i++) {
        right = right && (i < kth ? y[i] <= y[kth] : y[i] >= y[kth]);
    }
    CHECK(right);
    /* Stable, and nothing lost. */
    CHECK(weft_item_int(weft_array_equal(weft_sort(weft_argpartition(a, kth, 0), 0),
                                         weft_arange(0, (double)n, 1, WEFT_UINT32), false)));
    weft_array *order = weft_astype(weft_argpartition(a, kth, 0), WEFT_INT64);
    CHECK_OK(weft_read(order, WEFT_FLOAT64, y, n));
    for (int64_t i = 1; i < n; i++) {
        right = right && (i == kth || i == kth + 1 || y[i] > y[i - 1]);
    }
    CHECK(right);
    weft_scope_close(NULL);
}

static void partitions_separate_smaller_from_larger_elements(void)
{
    static const weft_dtype dtypes[] = {WEFT_UINT8,   WEFT_INT16,    WEFT_INT32,   WEFT_UINT64,
                                        WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT64};
    for (int d = 0; d < 8; d++) {
        partition_one(dtypes[d], 1, 0);
        partition_one(dtypes[d], 10, 3);
        partition_one(dtypes[d], 400, 0);
        partition_one(dtypes[d], 400, 210);
        partition_one(dtypes[d], 400, -1);
    }
    weft_scope_open();
    CHECK_CONTAINS(weft_error(weft_partition(weft_ones(WEFT_DIMS(3), WEFT_INT8), 3, 0)),
                   "kth is 3 for an axis of size 3");
    weft_scope_close(NULL);
}

static void the_k_largest_and_their_indices(void)
{
    const float x[] = {3, 1, NAN, 5, 2, 4};
    double places[6];
    weft_scope_open();
    weft_array *a = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(2, 3));
    CHECK_OK(weft_eval(a));
    CHECK_OK(weft_read(weft_argtopk(a, 3, WEFT_FLATTENED), WEFT_FLOAT64, places, 3));
    CHECK(places[0] == 2 && places[1] == 3 && places[2] == 5);
    CHECK_OK(weft_read(weft_topk(a, 2, 1), WEFT_FLOAT64, places, 4));
    CHECK(isnan(places[0]) && places[1] == 3 && places[2] == 5 && places[3] == 4);
    CHECK_EQ_INT(weft_ndim(weft_argmax(a, WEFT_FLATTENED, true)), 2);
    CHECK_CONTAINS(weft_error(weft_topk(a, 7, WEFT_FLATTENED)), "k is 7 for an axis of size 6");
    weft_scope_close(NULL);
}

/* ---- comparisons of whole arrays ------------------------------------------------------------ */

static bool truth(weft_array *a)
{
    return CHECK_EQ_INT(weft_ndim(a), 0) && weft_item_int(a) == 1;
}

static void whole_arrays_compare(void)
{
    const float x[] = {1, NAN, INFINITY, -0.0f}, y[] = {1.000001f, NAN, INFINITY, 0};
    weft_scope_open();
    weft_array *a = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(4));
    weft_array *b = weft_from_data(y, WEFT_FLOAT32, WEFT_DIMS(4));
    CHECK_OK(weft_eval(a));
    CHECK_OK(weft_eval(b));
    CHECK(!truth(weft_array_equal(a, a, false)));
    CHECK(truth(weft_array_equal(a, a, true)));
    CHECK(!truth(weft_array_equal(a, b, true)));
    CHECK(!truth(weft_array_equal(a, weft_reshape(a, WEFT_DIMS(2, 2)), true)));
    CHECK(truth(weft_allclose(a, b, 1e-5, 1e-8, true)));
    CHECK(!truth(weft_allclose(a, b, 1e-5, 1e-8, false)));
    CHECK(!truth(weft_allclose(a, b, 1e-7, 0, true)));
    CHECK(!truth(weft_allclose(weft_scalar(INFINITY, WEFT_FLOAT32),
                               weft_scalar(-INFINITY, WEFT_FLOAT32), 1, 1, true)));
    CHECK(!truth(weft_allclose(weft_scalar(5, WEFT_FLOAT32), weft_scalar(INFINITY, WEFT_FLOAT32),
                               1e-5, 1e-8, true)));
    CHECK(truth(weft_array_equal(weft_zeros(WEFT_DIMS(0, 3), WEFT_INT8),
                                 weft_zeros(WEFT_DIMS(0, 3), WEFT_FLOAT32), false)));
    CHECK_CONTAINS(weft_error(weft_allclose(a, weft_ones(WEFT_DIMS(3), WEFT_INT8), 0, 0, false)),
                   "(4,) and (3,)");
    weft_scope_close(NULL);
}

/* Exclusive scans begin with what changes nothing, in every dtype. */
static void exclusive_scans_of_integers(void)
{
    static const struct {
        weft_dtype dtype;
        double least, most;
    } rules[] = {{WEFT_BOOL, 0, 1},       {WEFT_INT8, -128, 127},
                 {WEFT_UINT8, 0, 255},    {WEFT_INT32, -2147483648.0, 2147483647.0},
                 {WEFT_UINT16, 0, 65535}, {WEFT_INT64, -0x1p63, 0x1p63},
                 {WEFT_UINT64, 0, 0x1p64}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        double y[3];
        weft_scope_open();
        weft_array *x = weft_astype(weft_arange(1, 4, 1, WEFT_INT64), rules[i].dtype);
        CHECK_OK(weft_eval(x));
        double last = rules[i].dtype == WEFT_BOOL ? 1 : 2;
        CHECK_OK(weft_read(weft_cummax(x, 0, false, false), WEFT_FLOAT64, y, 3));
        CHECK(y[0] == rules[i].least && y[1] == 1 && y[2] == last);
        CHECK_OK(weft_read(weft_cummin(x, 0, true, false), WEFT_FLOAT64, y, 3));
        CHECK(y[2] == rules[i].most && y[0] == last);
        CHECK_OK(weft_read(weft_cumprod(x, 0, false, false), WEFT_FLOAT64, y, 3));
        CHECK(y[0] == 1 && y[1] == 1 && y[2] == last);
        CHECK_OK(weft_read(weft_cumsum_as(x, 0, false, true, WEFT_FLOAT16), WEFT_FLOAT64, y, 3));
        CHECK(y[2] == (last == 1 ? 3 : 6));
        weft_scope_close(NULL);
    }
}

/* Long rows are cut into parts; the result must not show it. */
static void long_rows_scan_as_short_ones(void)
{
    enum { N = 300000 };
    double *whole = malloc(N * sizeof *whole), *x = malloc(N * sizeof *x);
    static scan_function *const functions[] = {weft_cumsum, weft_cummax, weft_logcumsumexp};
    for (int f = 0; whole && x && f < 3; f++) {
        for (int reverse = 0; reverse < 2; reverse++) {
            double so_far = f == 0 ? 0 : -INFINITY, worst = 0;
            weft_scope_open();
            for (int i = 0; i < N; i++) {
                x[i] = sin(i * 0.37) * 1e-3 * (i % 1000);
            }
            weft_array *a = weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(N));
            CHECK_OK(weft_read(functions[f](a, 0, reverse, true), WEFT_FLOAT64, whole, N));
            for (int k = 0; k < N; k++) {
                int i = reverse ? N - 1 - k : k;
                double larger = fmax(so_far, x[i]);
                so_far = f == 0   ? so_far + x[i]
                         : f == 1 ? larger
                                  : larger + log(exp(so_far - larger) + exp(x[i] - larger));
                worst = fmax(worst, fabs(whole[i] - so_far));
            }
            CHECK_CLOSE(worst, 0, 1e-9);
            weft_scope_close(NULL);
        }
    }
    free(whole);
    free(x);
}

CHECK_MAIN("reduce_golden", CHECK_CASE(reductions_agree),
           CHECK_CASE(scans_and_their_derivatives_agree), CHECK_CASE(sorts_and_searches_agree),
           CHECK_CASE(traces_agree), CHECK_CASE(partitions_separate_smaller_from_larger_elements),
           CHECK_CASE(the_k_largest_and_their_indices), CHECK_CASE(whole_arrays_compare),
           CHECK_CASE(exclusive_scans_of_integers), CHECK_CASE(long_rows_scan_as_short_ones))
