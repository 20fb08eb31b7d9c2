/* tests/ops/test_reduce.c -- reductions, softmax, running sums and sorting against plain loops, for
 * sizes and layouts with different CPU kernels; and their other guarantees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* An array, and its elements in row-major order. */
typedef struct sample {
    weft_array *a;
    weft_dims shape;
    double *x;
} sample;

static uint64_t state = 1;

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(state >> 33) * 0x1p-29 - 2;
}

static int64_t size_of(const weft_dims *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->n; i++) {
        n *= shape->at[i];
    }
    return n;
}

/* Random elements; with `turned`, an array whose memory has the axes in the other order. */
static sample make(weft_dims shape, weft_dtype dtype, bool turned)
{
    weft_dims stored = shape, axes = {.n = shape.n};
    for (int i = 0; i < shape.n; i++) {
        axes.at[i] = turned ? shape.n - 1 - i : i;
        stored.at[i] = shape.at[axes.at[i]];
    }
    int64_t n = size_of(&shape);
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    for (int64_t i = 0; x && i < n; i++) {
        x[i] = draw();
    }
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT64, stored), dtype);
    a = weft_transpose(a, axes);
    CHECK_OK(weft_read(a, WEFT_FLOAT64, x, n));
    return (sample){a, shape, x};
}

/* Compares with `expected`, relative to 1 or the value; frees both buffers. */
static void expect(weft_array *actual, double *expected, int64_t n, double tolerance,
                   const char *label)
{
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    if (CHECK_OK(weft_read(actual, WEFT_FLOAT64, x, n))) {
        for (int64_t i = 0; i < n; i++) {
            bool same = x[i] == expected[i] || (isnan(x[i]) && isnan(expected[i]));
            if (!same && !(fabs(x[i] - expected[i]) <= tolerance * fmax(1, fabs(expected[i])))) {
                CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label, (long long)i,
                           expected[i], x[i]);
                break;
            }
        }
    }
    free(x);
    free(expected);
}

/* Evaluated by name, so that it can be used more than once. */
static weft_array *ready(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 0x1p-8 : dtype == WEFT_FLOAT16 ? 0x1p-11 : 1e-6;
}

static const weft_dtype narrow[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
static const char *const names[] = {"float32", "bfloat16", "float16"};

/* ---- sum, mean, max, min -------------------------------------------------------------------- */

typedef enum { SUM, MEAN, MAX, MIN } kind;

static double *reduce_by_loops(const sample *s, const weft_dims *axes, kind k, int64_t *n)
{
    bool reduced[WEFT_MAX_DIMS] = {false};
    int64_t outputs = 1;
    for (int i = 0; i < axes->n; i++) {
        reduced[axes->at[i]] = true;
    }
    for (int i = 0; i < s->shape.n; i++) {
        outputs *= reduced[i] ? 1 : s->shape.at[i];
    }
    double *out = malloc(((size_t)outputs + 1) * sizeof *out);
    for (int64_t o = 0; o < outputs; o++) {
        out[o] = k == MAX ? -INFINITY : k == MIN ? INFINITY : 0;
    }
    int64_t size = size_of(&s->shape);
    for (int64_t i = 0; i < size; i++) {
        int64_t rest = i, o = 0, stride = 1;
        for (int d = s->shape.n - 1; d >= 0; d--) {
            if (!reduced[d]) {
                o += rest % s->shape.at[d] * stride;
                stride *= s->shape.at[d];
            }
            rest /= s->shape.at[d];
        }
        double x = s->x[i];
        out[o] = k == MAX   ? (x > out[o] ? x : out[o])
                 : k == MIN ? (x < out[o] ? x : out[o])
                 : k == SUM ? out[o] + x
                            : out[o] + x / (double)(size / outputs);
    }
    *n = outputs;
    return out;
}

static void reduce_one(weft_dims shape, weft_dims axes, int d, bool turned)
{
    static weft_array *(*const functions[])(weft_array *, weft_dims, bool) = {weft_sum, weft_mean,
                                                                              weft_max, weft_min};
    weft_scope_open();
    sample s = make(shape, narrow[d], turned);
    for (int k = SUM; k <= MIN; k++) {
        int64_t n;
        double *expected = reduce_by_loops(&s, &axes, (kind)k, &n);
        double tolerance = k >= MAX ? 0 : rounding(narrow[d]);
        expect(functions[k](s.a, axes, k % 2), expected, n, tolerance, names[d]);
    }
    free(s.x);
    weft_scope_close(NULL);
}

static void reductions_agree_with_loops(void)
{
    for (int d = 0; d < 3; d++) {
        for (int turned = 0; turned < 2; turned++) {
            reduce_one(WEFT_DIMS(1), WEFT_DIMS(0), d, turned);
            reduce_one(WEFT_DIMS(3, 1000), WEFT_DIMS(1), d, turned);
            reduce_one(WEFT_DIMS(3, 1000), WEFT_DIMS(0), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(0), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(1), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(2), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(0, 2), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(0, 1), d, turned);
            reduce_one(WEFT_DIMS(5, 37, 130), WEFT_DIMS(0, 1, 2), d, turned);
            reduce_one(WEFT_DIMS(5000, 70), WEFT_DIMS(0), d, turned);
            reduce_one(WEFT_DIMS(2, 700, 3), WEFT_DIMS(1), d, turned);
            reduce_one(WEFT_DIMS(200000), WEFT_DIMS(0), d, turned);
        }
    }
}

static void sixteen_bits_accumulate_in_more(void)
{
    weft_scope_open();
    weft_array *ones = ready(weft_ones(WEFT_DIMS(70000), WEFT_BFLOAT16));
    CHECK_CLOSE(weft_item(weft_sum(ones, WEFT_ALL_AXES, false)), 70144, 0); /* 70000, rounded */
    CHECK_CLOSE(weft_item(weft_mean(ones, WEFT_ALL_AXES, false)), 1, 0);
    weft_array *tenth = weft_full(WEFT_DIMS(1 << 22), 0.1, WEFT_FLOAT32);
    CHECK_RELATIVE(weft_item(weft_sum(tenth, WEFT_ALL_AXES, false)), (1 << 22) * (double)0.1f,
                   6e-8);
    weft_array *half =
        weft_full(WEFT_DIMS(4096, 1), 100, WEFT_FLOAT16); /* the sum would overflow */
    CHECK_CLOSE(weft_item(weft_mean(half, WEFT_ALL_AXES, false)), 100, 0);
    weft_scope_close(NULL);
}

static void results_do_not_depend_on_the_threads(void)
{
    static float one[70], many[70], whole[2];
    weft_scope_open();
    sample s = make(WEFT_DIMS(5000, 70), WEFT_FLOAT32, false);
    int before = weft_threads();
    weft_set_threads(1);
    CHECK_OK(weft_read(weft_sum(s.a, WEFT_DIMS(0), false), WEFT_FLOAT32, one, 70));
    CHECK_OK(weft_read(weft_sum(s.a, WEFT_ALL_AXES, false), WEFT_FLOAT32, whole, 1));
    weft_set_threads(3);
    CHECK_OK(weft_read(weft_sum(s.a, WEFT_DIMS(0), false), WEFT_FLOAT32, many, 70));
    CHECK_OK(weft_read(weft_sum(s.a, WEFT_ALL_AXES, false), WEFT_FLOAT32, whole + 1, 1));
    weft_set_threads(before);
    CHECK_BYTES(many, one, sizeof one);
    CHECK_BYTES(whole + 1, whole, sizeof *whole);
    free(s.x);
    weft_scope_close(NULL);
}

static void dtypes_of_results(void)
{
    static const struct {
        weft_dtype from, sum, mean, scan;
    } rules[] = {
        {WEFT_BOOL, WEFT_INT32, WEFT_FLOAT32, WEFT_INT32},
        {WEFT_UINT8, WEFT_UINT32, WEFT_FLOAT32, WEFT_UINT8},
        {WEFT_UINT16, WEFT_UINT32, WEFT_FLOAT32, WEFT_UINT16},
        {WEFT_UINT32, WEFT_UINT32, WEFT_FLOAT32, WEFT_UINT32},
        {WEFT_UINT64, WEFT_UINT64, WEFT_FLOAT32, WEFT_UINT64},
        {WEFT_INT8, WEFT_INT32, WEFT_FLOAT32, WEFT_INT8},
        {WEFT_INT16, WEFT_INT32, WEFT_FLOAT32, WEFT_INT16},
        {WEFT_INT32, WEFT_INT32, WEFT_FLOAT32, WEFT_INT32},
        {WEFT_INT64, WEFT_INT64, WEFT_FLOAT32, WEFT_INT64},
        {WEFT_FLOAT16, WEFT_FLOAT16, WEFT_FLOAT16, WEFT_FLOAT16},
        {WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_BFLOAT16},
        {WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32},
        {WEFT_FLOAT64, WEFT_FLOAT64, WEFT_FLOAT64, WEFT_FLOAT64},
    };
    weft_scope_open();
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        weft_array *x = weft_ones(WEFT_DIMS(3, 200), rules[i].from);
        weft_array *sum = weft_sum(x, WEFT_DIMS(-1), false);
        weft_array *mean = weft_mean(x, WEFT_DIMS(-1), false);
        CHECK_EQ_INT(weft_dtype_of(sum), rules[i].sum);
        CHECK_EQ_INT(weft_dtype_of(weft_prod(x, WEFT_DIMS(-1), false)), rules[i].sum);
        CHECK_EQ_INT(weft_dtype_of(mean), rules[i].mean);
        CHECK_EQ_INT(weft_dtype_of(weft_cumsum(x, -1, false, true)), rules[i].scan);
        CHECK_EQ_INT(weft_dtype_of(weft_max(x, WEFT_DIMS(-1), false)), rules[i].from);
        CHECK_EQ_INT(weft_dtype_of(weft_argmax(x, -1, false)), WEFT_UINT32);
        CHECK_EQ_INT(weft_dtype_of(weft_argsort(x, -1)), WEFT_UINT32);
        CHECK_EQ_INT(weft_dtype_of(weft_all(x, WEFT_DIMS(-1), false)), WEFT_BOOL);
        CHECK_CLOSE(weft_item(weft_slice_axis(sum, 0, 1, 2)), 200, 0);
        CHECK_CLOSE(weft_item(weft_slice_axis(mean, 0, 1, 2)), 1, 0);
    }
    weft_scope_close(NULL);
}

static void no_elements_and_no_axes(void)
{
    weft_scope_open();
    weft_array *none = ready(weft_zeros(WEFT_DIMS(2, 0), WEFT_FLOAT32));
    weft_array *row = ready(weft_slice_axis(none, 0, 0, 1));
    CHECK_CLOSE(weft_item(weft_sum(row, WEFT_DIMS(1), false)), 0, 0);
    CHECK_CLOSE(weft_item(weft_prod(row, WEFT_DIMS(1), false)), 1, 0);
    CHECK(isnan(weft_item(weft_mean(row, WEFT_DIMS(1), false))));
    CHECK_CLOSE(weft_item(weft_logsumexp(row, WEFT_DIMS(1), false)), -INFINITY, 0);
    CHECK_EQ_INT(weft_item_int(weft_all(row, WEFT_DIMS(1), false)), 1);
    CHECK_EQ_INT(weft_item_int(weft_any(row, WEFT_DIMS(1), false)), 0);
    CHECK_CONTAINS(weft_error(weft_max(none, WEFT_DIMS(1), false)), "max: axis -1 is empty");
    CHECK_CONTAINS(weft_error(weft_argmin(none, 1, false)), "argmin: an axis of size 0");
    CHECK_EQ_INT(weft_size(weft_max(none, WEFT_DIMS(0), false)), 0);
    weft_array *x = weft_arange(0, 4, 1, WEFT_FLOAT32);
    CHECK_EQ_INT(weft_size(weft_sum(x, (weft_dims){0}, false)), 4);
    CHECK_CLOSE(weft_item(weft_mean(weft_scalar(5, WEFT_FLOAT32), WEFT_ALL_AXES, true)), 5, 0);
    CHECK_CONTAINS(weft_error(weft_sum(x, WEFT_DIMS(1), false)), "axis 1 is out of range");
    CHECK_CONTAINS(weft_error(weft_sum(x, WEFT_DIMS(0, -1), false)), "named twice");
    weft_scope_close(NULL);
}

static void nan_wins(void)
{
    weft_scope_open();
    for (int64_t at = 0; at < 200; at += 67) {
        for (int d = 0; d < 3; d++) {
            double x[200];
            for (int i = 0; i < 200; i++) {
                x[i] = draw();
            }
            x[at] = NAN;
            x[199] = NAN;
            weft_array *a = weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(200));
            a = ready(weft_astype(a, narrow[d]));
            CHECK(isnan(weft_item(weft_max(a, WEFT_ALL_AXES, false))));
            CHECK(isnan(weft_item(weft_min(a, WEFT_ALL_AXES, false))));
            CHECK_EQ_INT(weft_item_int(weft_argmax(a, 0, false)), at);
            CHECK_EQ_INT(weft_item_int(weft_argmin(a, 0, false)), at);
            CHECK(isnan(weft_item(weft_logsumexp(a, WEFT_ALL_AXES, false))));
            weft_array *columns =
                weft_broadcast_to(weft_reshape(a, WEFT_DIMS(200, 1)), WEFT_DIMS(200, 3));
            columns = weft_max(weft_contiguous(columns), WEFT_DIMS(0), false);
            CHECK(isnan(weft_item(weft_sum(columns, WEFT_ALL_AXES, false))));
        }
    }
    weft_scope_close(NULL);
}

/* ---- softmax and its relatives -------------------------------------------------------------- */

static void softmax_one(int64_t rows, int64_t length, int d, int axis)
{
    weft_scope_open();
    sample s = make(axis ? WEFT_DIMS(rows, length) : WEFT_DIMS(length, rows), narrow[d], false);
    int64_t n = rows * length, step = axis ? 1 : rows, jump = axis ? length : 1;
    double *soft = malloc((size_t)n * sizeof *soft), *logs = malloc((size_t)n * sizeof *logs);
    double *sums = malloc((size_t)rows * sizeof *sums), *best = malloc((size_t)rows * sizeof *best);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = s.x + r * jump;
        double sum = 0;
        int64_t place = 0;
        for (int64_t i = 0; i < length; i++) {
            sum += exp(x[i * step]);
            place = x[i * step] > x[place * step] ? i : place;
        }
        for (int64_t i = 0; i < length; i++) {
            soft[r * jump + i * step] = exp(x[i * step]) / sum;
            logs[r * jump + i * step] = x[i * step] - log(sum);
        }
        sums[r] = log(sum);
        best[r] = (double)place;
    }
    double tolerance = rounding(narrow[d]);
    expect(weft_softmax(s.a, axis), soft, n, tolerance, "softmax");
    expect(weft_log_softmax(s.a, axis), logs, n, tolerance, "log_softmax");
    expect(weft_logsumexp(s.a, WEFT_DIMS(axis), false), sums, rows, tolerance, "logsumexp");
    expect(weft_argmax(s.a, axis, false), best, rows, 0, "argmax");
    free(s.x);
    weft_scope_close(NULL);
}

static void softmax_agrees_with_loops(void)
{
    for (int d = 0; d < 3; d++) {
        softmax_one(3, 1, d, 1);
        softmax_one(7, 33, d, 1);
        softmax_one(2, 5000, d, 1);
        softmax_one(40, 130, d, 0);
    }
}

static void softmax_of_extremes(void)
{
    float x[] = {1000, 1001, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, y[6];
    weft_scope_open();
    weft_array *a = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(2, 3));
    CHECK_OK(weft_read(weft_softmax(a, -1), WEFT_FLOAT32, y, 6));
    CHECK_CLOSE(y[0], 1 / (1 + exp(1)), 1e-6);
    CHECK_CLOSE(y[2], 0, 0);
    CHECK(isnan(y[3])); /* nothing to normalize, as in NumPy */
    CHECK_OK(weft_read(weft_logsumexp(a, WEFT_DIMS(-1), false), WEFT_FLOAT32, y, 2));
    CHECK_CLOSE(y[0], 1001 + log(1 + exp(-1)), 1e-4);
    CHECK_CLOSE(y[1], -INFINITY, 0);
    weft_scope_close(NULL);
}

/* ---- running sums and sorting --------------------------------------------------------------- */

static void scan_one(weft_dims shape, int axis, int d, bool reverse, bool inclusive)
{
    weft_scope_open();
    sample s = make(shape, narrow[d], false);
    int64_t n = size_of(&shape), inner = 1, length = shape.at[axis];
    for (int i = axis + 1; i < shape.n; i++) {
        inner *= shape.at[i];
    }
    double *expected = malloc((size_t)n * sizeof *expected);
    for (int64_t run = 0; run < n / length; run++) {
        int64_t base = run / inner * inner * length + run % inner;
        double sum = 0;
        for (int64_t k = 0; k < length; k++) {
            int64_t at = base + (reverse ? length - 1 - k : k) * inner;
            expected[at] = inclusive ? sum + s.x[at] : sum;
            sum += s.x[at];
        }
    }
    expect(weft_cumsum(s.a, axis, reverse, inclusive), expected, n, rounding(narrow[d]), names[d]);
    free(s.x);
    weft_scope_close(NULL);
}

static void running_sums_agree_with_loops(void)
{
    for (int d = 0; d < 3; d++) {
        for (int mode = 0; mode < 4; mode++) {
            scan_one(WEFT_DIMS(3, 1000), 1, d, mode & 1, mode & 2);
            scan_one(WEFT_DIMS(20, 300), 0, d, mode & 1, mode & 2);
            scan_one(WEFT_DIMS(2, 5, 3), 1, d, mode & 1, mode & 2);
        }
    }
}

static void sort_row(const double *x, int64_t n, double *sorted, double *places)
{
    for (int64_t i = 0; i < n; i++) { /* by counting those that sort before it */
        int64_t rank = 0;
        for (int64_t j = 0; j < n; j++) {
            bool before = x[j] < x[i] || (isnan(x[i]) && !isnan(x[j]));
            bool after = x[i] < x[j] || (isnan(x[j]) && !isnan(x[i]));
            rank += before || (!before && !after && j < i);
        }
        sorted[rank] = x[i];
        places[rank] = (double)i;
    }
}

static void sort_one(int64_t rows, int64_t length, weft_dtype dtype)
{
    int64_t n = rows * length;
    double *x = malloc((size_t)n * sizeof *x);
    double *sorted = malloc((size_t)n * sizeof *x), *places = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = floor(draw() * 40); /* with repetitions */
        x[i] = weft_dtype_is_float(dtype) && i % 11 == 3 ? NAN : i % 13 == 5 ? -0.0 : x[i];
    }
    weft_scope_open();
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(rows, length)), dtype);
    CHECK_OK(weft_read(a, WEFT_FLOAT64, x, n));
    for (int64_t r = 0; r < rows; r++) {
        sort_row(x + r * length, length, sorted + r * length, places + r * length);
    }
    double *largest = malloc((size_t)rows * 3 * sizeof *largest);
    for (int64_t i = 0; i < rows * 3; i++) {
        largest[i] = sorted[(i / 3 + 1) * length - 1 - i % 3];
    }
    expect(weft_topk(a, 3, 1), largest, rows * 3, 0, "topk");
    expect(weft_sort(a, 1), sorted, n, 0, weft_dtype_name(dtype));
    expect(weft_argsort(a, -1), places, n, 0, weft_dtype_name(dtype));
    weft_scope_close(NULL);
    free(x);
}

static void sorting_is_stable_with_nan_last(void)
{
    for (int d = WEFT_BOOL; d <= WEFT_FLOAT64; d++) {
        sort_one(4, 3, (weft_dtype)d);
        sort_one(100, 40, (weft_dtype)d);
        sort_one(2, 1000, (weft_dtype)d);
    }
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(4, 2), WEFT_FLOAT32);
    CHECK_EQ_INT(weft_dim(weft_topk(x, 4, 0), 0), 4);
    CHECK_EQ_INT(weft_size(weft_topk(x, 0, 0)), 0);
    CHECK_CONTAINS(weft_error(weft_topk(x, 5, 0)), "topk: k is 5 for an axis of size 4");
    weft_scope_close(NULL);
}

/* ---- gradients ------------------------------------------------------------------------------ */

static int product(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_prod(in[0], WEFT_DIMS(-1), false);
    return 1;
}

static void gradient_of_a_product_with_zeros(void)
{
    double x[] = {2, 3, 4, 0, 3, 4, 0, 0, 4}, g[9], ones[] = {1, 1, 1};
    static const double expected[] = {12, 8, 6, 12, 0, 0, 0, 0, 0};
    weft_scope_open();
    weft_array *a = weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(3, 3)), *grad = NULL;
    weft_array *ct = weft_from_data(ones, WEFT_FLOAT64, WEFT_DIMS(3));
    CHECK_OK(weft_vjp(product, NULL, &a, 1, &ct, NULL, 1, &grad));
    CHECK_OK(weft_read(grad, WEFT_FLOAT64, g, 9));
    for (int i = 0; i < 9; i++) {
        CHECK_CLOSE(g[i], expected[i], 1e-12);
    }
    weft_scope_close(NULL);
}

static weft_array *sum_of_max(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weft_sum(weft_max(in[0], WEFT_DIMS(1), false), WEFT_ALL_AXES, false);
}

static void ties_share_the_gradient(void)
{
    static const float x[] = {1, 3, 3, 2, 5, 5, 5, 5},
                       expected[] = {0, 0.5f, 0.5f, 0, 0.25f, 0.25f, 0.25f, 0.25f};
    float g[8];
    weft_scope_open();
    weft_array *a = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(2, 4)), *grad = NULL;
    (void)weft_value_and_grad(sum_of_max, NULL, &a, 1, &grad);
    CHECK_OK(weft_read(grad, WEFT_FLOAT32, g, 8));
    CHECK_BYTES(g, expected, sizeof g);
    weft_scope_close(NULL);
}

/* The gradient of softmax (or log_softmax) itself, to be differentiated once more. */
static int softmax_step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    out[0] = context ? weft_log_softmax(in[0], 0) : weft_softmax(in[0], -1);
    return 1;
}

static int softmax_gradient(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    (void)n_in, (void)room;
    weft_status status = weft_vjp(softmax_step, context, in, 1, in + 1, NULL, 1, out);
    if (status != WEFT_OK) {
        out[0] = weft_error_array("%s", weft_error_message());
    }
    return 1;
}

static void second_derivatives_of_softmax(void)
{
    static int logarithm;
    weft_scope_open();
    sample x = make(WEFT_DIMS(3, 4), WEFT_FLOAT64, false);
    sample ct = make(WEFT_DIMS(3, 4), WEFT_FLOAT64, false);
    weft_array *in[] = {x.a, ct.a};
    CHECK_OK(weft_gradcheck(softmax_gradient, NULL, in, 2, NULL));
    CHECK_OK(weft_gradcheck(softmax_gradient, &logarithm, in, 2, NULL));
    free(x.x);
    free(ct.x);
    weft_scope_close(NULL);
}

CHECK_MAIN("reduce", CHECK_CASE(reductions_agree_with_loops),
           CHECK_CASE(sixteen_bits_accumulate_in_more),
           CHECK_CASE(results_do_not_depend_on_the_threads), CHECK_CASE(dtypes_of_results),
           CHECK_CASE(no_elements_and_no_axes), CHECK_CASE(nan_wins),
           CHECK_CASE(softmax_agrees_with_loops), CHECK_CASE(softmax_of_extremes),
           CHECK_CASE(running_sums_agree_with_loops), CHECK_CASE(sorting_is_stable_with_nan_last),
           CHECK_CASE(gradient_of_a_product_with_zeros), CHECK_CASE(ties_share_the_gradient),
           CHECK_CASE(second_derivatives_of_softmax))
