/* tests/vulkan/test_products.c -- matrix products and the loss fused with one, on the Vulkan device
 * against the CPU: sizes and layouts for every way of dividing the work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/op_params.h"
#include "weft/ops.h"

#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

static const weft_dtype narrow[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
static const weft_dtype floats[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT64};

static weft_device *vulkan(void)
{
    weft_device *device = weft_device_get("vulkan");
    if (!device)
        check_skip("no Vulkan device");
    return device;
}

/* ---- Values --------------------------------------------------------------------------------- */

static uint64_t state = 1;

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(state >> 33) * 0x1p-29 - 2;
}

static weft_array *ready(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

/* On the CPU, in [-2, 2). */
static weft_array *make(weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = draw();
    weft_array *a = ready(weft_astype(weft_from_data(x, WEFT_FLOAT64, shape), dtype));
    free(x);
    return a;
}

/* The layout of the last two axes in memory. */
typedef enum { PLAIN, TURNED, SPREAD, FLIPPED, LAYOUTS } layout;
static const char *const layout_names[] = {"plain", "turned", "spread", "flipped"};

/* The shape in memory of an array of which lay_out makes a view of `shape`. */
static weft_dims stored_shape(weft_dims shape, layout lie)
{
    int n = shape.n;
    weft_dims stored = shape;
    for (int i = n - 2; i < n; i++)
        stored.at[i] = lie == SPREAD ? 2 * shape.at[i] + 1 : shape.at[i];
    if (lie == TURNED) {
        stored.at[n - 2] = shape.at[n - 1];
        stored.at[n - 1] = shape.at[n - 2];
    }
    return stored;
}

static weft_array *lay_out(weft_array *a, layout lie)
{
    weft_dims axes = {.n = weft_ndim(a)}, starts = axes, stops = axes, steps = axes;
    for (int i = 0; i < axes.n; i++) {
        axes.at[i] = i;
        bool last = i >= axes.n - 2;
        starts.at[i] = !last ? 0 : lie == FLIPPED ? -1 : 1;
        stops.at[i] = last && lie == FLIPPED ? -1 - weft_dim(a, i) : weft_dim(a, i);
        steps.at[i] = !last ? 1 : lie == FLIPPED ? -1 : 2;
    }
    if (lie == PLAIN)
        return a;
    return lie == TURNED ? weft_swapaxes(a, -1, -2) : weft_slice(a, axes, starts, stops, steps);
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* Half a unit in the last place of 1. */
static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16  ? 0x1p-8
           : dtype == WEFT_FLOAT16 ? 0x1p-11
           : dtype == WEFT_FLOAT32 ? 0x1p-24
                                   : 0x1p-53;
}

/* Compares with the exact values, rounded once, up to the rounding of sums of `terms`. NaN equals
 * NaN. */
static void compare(weft_array *actual, weft_array *exact, int64_t terms, const char *label)
{
    int64_t n = weft_size(exact);
    double unit = rounding(weft_dtype_of(actual));
    double sums = (double)(terms + 4) * (weft_dtype_of(actual) == WEFT_FLOAT64 ? 0x1p-49 : 0x1p-20);
    double *a = malloc(((size_t)n + 1) * sizeof *a), *e = malloc(((size_t)n + 1) * sizeof *e);
    if (CHECK_EQ_INT(weft_size(actual), n) && CHECK_OK(weft_read(exact, WEFT_FLOAT64, e, n)) &&
        CHECK_OK(weft_read(actual, WEFT_FLOAT64, a, n))) {
        int64_t i = 0;
        while (i < n && (a[i] == e[i] || (isnan(a[i]) && isnan(e[i])) ||
                         fabs(a[i] - e[i]) <= 1.01 * unit * fabs(e[i]) + sums))
            i++;
        if (i < n)
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label, (long long)i, e[i],
                       a[i]);
    }
    free(a);
    free(e);
}

/* Evaluates y, which its kernel must compute without other launches. */
static bool by_kernel(weft_array *y, const char *label)
{
    weft_device_reset_counts(vulkan());
    bool done = CHECK_OK(weft_eval(y));
    weft_counts counts = weft_device_counts(vulkan());
    if (done && (counts.rows != 1 || counts.references + counts.expansions > 0))
        return CHECK_FAIL("%s: not by its kernel", label);
    return done;
}

static weft_array *wide(weft_array *a)
{
    return weft_astype(a, WEFT_FLOAT64);
}

/* ---- matmul --------------------------------------------------------------------------------- */

static void check_product(weft_dims a_shape, weft_dims b_shape, weft_dtype dtype, layout a_lie,
                          layout b_lie)
{
    char label[200];
    int n = a_shape.n;
    snprintf(label, sizeof label, "matmul %s %lldx%lldx%lld, %s x %s", weft_dtype_name(dtype),
             (long long)a_shape.at[n - 2], (long long)b_shape.at[n - 1],
             (long long)a_shape.at[n - 1], layout_names[a_lie], layout_names[b_lie]);
    weft_scope_open();
    weft_array *a = make(stored_shape(a_shape, a_lie), dtype);
    weft_array *b = make(stored_shape(b_shape, b_lie), dtype);
    weft_array *exact = weft_matmul(lay_out(wide(a), a_lie), lay_out(wide(b), b_lie));
    weft_array *on_a = ready(weft_to(a, vulkan())), *on_b = ready(weft_to(b, vulkan()));
    weft_array *in[] = {lay_out(on_a, a_lie), lay_out(on_b, b_lie)};
    weft_array *y = weft_apply(weft_op_find("matmul"), in, 2, NULL);
    if (by_kernel(y, label))
        compare(y, exact, a_shape.at[n - 1], label);
    weft_scope_close(NULL);
}

static void check_layouts(int64_t M, int64_t N, int64_t K, weft_dtype dtype, int n_layouts)
{
    for (int i = 0; i < n_layouts * n_layouts; i++)
        check_product(WEFT_DIMS(M, K), WEFT_DIMS(K, N), dtype, (layout)(i / n_layouts),
                      (layout)(i % n_layouts));
}

static void products_of_odd_sizes(void)
{
    static const int64_t sizes[] = {1, 7, 63, 65, 130};
    if (!vulkan())
        return;
    for (int m = 0; m < 5; m++)
        for (int n = 0; n < 5; n++)
            for (int k = 0; k < 5; k++)
                check_layouts(sizes[m], sizes[n], sizes[k], WEFT_FLOAT32, 2);
}

static void products_of_every_dtype(void)
{
    static const int64_t sizes[][3] = {{65, 63, 130}, {64, 64, 64},  {1, 130, 65}, {2, 136, 264},
                                       {8, 7, 256},   {130, 1, 128}, {24, 72, 40}, {70, 12, 33}};
    if (!vulkan())
        return;
    for (int d = 0; d < LENGTH(floats); d++)
        for (int i = 0; i < LENGTH(sizes); i++)
            check_layouts(sizes[i][0], sizes[i][1], sizes[i][2], floats[d], 2);
}

static void products_of_views(void)
{
    if (!vulkan())
        return;
    check_layouts(65, 40, 33, WEFT_FLOAT32, LAYOUTS);
    check_layouts(3, 40, 33, WEFT_BFLOAT16, LAYOUTS);
    check_layouts(65, 40, 33, WEFT_FLOAT64, LAYOUTS);
}

static void products_of_many_terms(void)
{
    if (!vulkan())
        return;
    check_layouts(8, 130, 5000, WEFT_FLOAT32, 2);
    check_layouts(8, 136, 5008, WEFT_BFLOAT16, 2);
    check_layouts(16, 50, 5001, WEFT_FLOAT16, 2);
    check_layouts(40, 40, 5000, WEFT_FLOAT32, 2);
    check_layouts(17, 65, 3000, WEFT_FLOAT64, 2);
    check_layouts(1, 1, 100000, WEFT_FLOAT32, 2);
    check_layouts(4, 3, 40000, WEFT_FLOAT32, 2);
}

static void products_of_batches(void)
{
    if (!vulkan())
        return;
    for (int d = 0; d < LENGTH(floats); d++) {
        check_product(WEFT_DIMS(6, 20, 30), WEFT_DIMS(6, 30, 10), floats[d], PLAIN, TURNED);
        check_product(WEFT_DIMS(2, 1, 3, 1, 9, 17), WEFT_DIMS(1, 5, 3, 2, 17, 33), floats[d],
                      TURNED, PLAIN);
        check_product(WEFT_DIMS(2, 3, 1, 64), WEFT_DIMS(2, 3, 64, 40), floats[d], PLAIN, TURNED);
        check_product(WEFT_DIMS(2, 3, 1, 64), WEFT_DIMS(2, 3, 64, 40), floats[d], PLAIN, SPREAD);
        check_product(WEFT_DIMS(2, 3, 4, 1100), WEFT_DIMS(2, 1, 1100, 40), floats[d], PLAIN, PLAIN);
        check_product(WEFT_DIMS(4, 3, 5, 8), WEFT_DIMS(1, 1, 8, 40), floats[d], PLAIN, PLAIN);
    }
    check_product(WEFT_DIMS(128, 70, 20), WEFT_DIMS(128, 20, 66), WEFT_FLOAT32, PLAIN, PLAIN);
    check_product(WEFT_DIMS(128, 72, 20), WEFT_DIMS(1, 20, 68), WEFT_BFLOAT16, TURNED, TURNED);
    check_product(WEFT_DIMS(70000, 2, 3), WEFT_DIMS(70000, 3, 2), WEFT_FLOAT32, PLAIN, PLAIN);
}

/* The tiles of 128 by 128. */
static void large_products(void)
{
    if (!vulkan())
        return;
    check_layouts(1500, 1501, 19, WEFT_FLOAT32, 2);
    check_layouts(1504, 1500, 16, WEFT_BFLOAT16, 2);
    check_product(WEFT_DIMS(300, 4100), WEFT_DIMS(4100, 1500), WEFT_FLOAT16, PLAIN, PLAIN);
}

/* A NaN or an infinity stays in its row; float16 keeps its smallest numbers. */
static void special_values(void)
{
    if (!vulkan())
        return;
    for (int rows = 3; rows < 40; rows += 30) {
        double x[40 * 20] = {0}, w[24 * 20] = {0};
        for (int i = 0; i < rows; i++)
            x[i * 20 + i % 20] = i == 0 ? NAN : i == 1 ? INFINITY : (double)(i % 20 + 1) * 0x1p-24;
        for (int i = 0; i < 24; i++)
            w[i * 20 + i % 20] = 1;
        weft_scope_open();
        weft_array *a = ready(weft_from_data(x, WEFT_FLOAT64, WEFT_DIMS(rows, 20)));
        weft_array *b = ready(weft_from_data(w, WEFT_FLOAT64, WEFT_DIMS(24, 20)));
        weft_array *exact = ready(weft_linear(a, b, NULL));
        for (int d = 0; d < LENGTH(narrow); d++) {
            weft_array *on_a = ready(weft_to(weft_astype(a, narrow[d]), vulkan()));
            weft_array *on_b = ready(weft_to(weft_astype(b, narrow[d]), vulkan()));
            weft_array *y = weft_linear(on_a, on_b, NULL);
            if (by_kernel(y, "special values")) /* times 2^24: only whole numbers */
                compare(weft_scale(wide(y), 0x1p24), weft_scale(exact, 0x1p24), 0,
                        "special values");
        }
        weft_scope_close(NULL);
    }
}

/* ---- Matrices selected by indices ----------------------------------------------------------- */

/* One row for several experts: transposed matrices, indices with a step of 0 and of -1. */
static void gathered_products_copy_nothing(void)
{
    static const double which[] = {3, 0, 2};
    weft_op_report ops[16];
    double result[3 * 24], exact[3 * 24];
    if (!vulkan())
        return;
    weft_scope_open();
    weft_array *x = make(WEFT_DIMS(1, 1, 40), WEFT_FLOAT32),
               *w = make(WEFT_DIMS(4, 24, 40), WEFT_FLOAT32),
               *ids = weft_astype(weft_from_data(which, WEFT_FLOAT64, WEFT_DIMS(3)), WEFT_INT32),
               *row = weft_zeros(WEFT_DIMS(1), WEFT_INT32);
    weft_array *in[] = {ready(weft_to(x, vulkan())), ready(weft_to(w, vulkan())),
                        ready(weft_to(row, vulkan())), ready(weft_to(ids, vulkan()))};
    CHECK_OK(weft_device_profile(vulkan(), true));
    weft_array *y = ready(weft_gather_mm(in[0], weft_swapaxes(in[1], 1, 2),
                                         weft_broadcast_to(in[2], WEFT_DIMS(3)),
                                         weft_flip(in[3], WEFT_DIMS(0)), false));
    const int n = weft_device_report(vulkan(), ops, 16, NULL);
    for (int i = 0; i < n; i++) /* views are ops without a launch */
        CHECK_EQ_INT(ops[i].calls, strcmp(ops[i].op, "gather_mm") == 0);
    CHECK_OK(weft_device_profile(vulkan(), false));
    for (int i = 0; i < 3; i++) {
        weft_array *one = weft_slice_axis(w, 0, (int64_t)which[2 - i], (int64_t)which[2 - i] + 1);
        one = weft_matmul(weft_astype(weft_squeeze(x, 0), WEFT_FLOAT64),
                          weft_astype(weft_swapaxes(weft_squeeze(one, 0), 0, 1), WEFT_FLOAT64));
        CHECK_OK(weft_read(one, WEFT_FLOAT64, exact + 24 * i, 24));
    }
    if (CHECK_OK(weft_read(y, WEFT_FLOAT64, result, 3 * 24)))
        for (int i = 0; i < 3 * 24; i++)
            CHECK_CLOSE(result[i], exact[i], 40 * 4 * 0x1p-22);
    weft_scope_close(NULL);
}

/* ---- linear --------------------------------------------------------------------------------- */

static void check_linear(weft_dims x_shape, int64_t other, bool transposed, bool has_bias,
                         const weft_dtype dtypes[3], layout w_lie)
{
    char label[200];
    weft_linear_params params = {.transposed = transposed};
    int64_t terms = x_shape.at[x_shape.n - 1];
    weft_dims w_shape = transposed ? WEFT_DIMS(terms, other) : WEFT_DIMS(other, terms);
    snprintf(label, sizeof label, "linear %s x %s + %s, %lld terms, %lld columns, %d, weight %s",
             weft_dtype_name(dtypes[0]), weft_dtype_name(dtypes[1]), weft_dtype_name(dtypes[2]),
             (long long)terms, (long long)other, transposed, layout_names[w_lie]);
    weft_scope_open();
    weft_array *x = make(x_shape, dtypes[0]), *w = make(stored_shape(w_shape, w_lie), dtypes[1]);
    weft_array *bias = make(WEFT_DIMS(other), dtypes[2]);
    weft_array *exact_in[] = {wide(x), lay_out(wide(w), w_lie), wide(bias)};
    weft_array *in[] = {ready(weft_to(x, vulkan())), ready(weft_to(w, vulkan())),
                        ready(weft_to(bias, vulkan()))};
    in[1] = lay_out(in[1], w_lie);
    const weft_op *op = weft_op_find("linear");
    weft_array *exact = weft_apply(op, exact_in, has_bias ? 3 : 2, &params);
    weft_array *y = weft_apply(op, in, has_bias ? 3 : 2, &params);
    if (by_kernel(y, label)) {
        CHECK_EQ_INT(weft_dtype_of(y), dtypes[0]);
        compare(y, exact, terms, label);
    }
    weft_scope_close(NULL);
}

static void linear_of_every_dtype(void)
{
    if (!vulkan())
        return;
    for (int i = 0; i < 64; i++) {
        const weft_dtype dtypes[] = {floats[i / 16], floats[i / 4 % 4], floats[i % 4]};
        check_linear(WEFT_DIMS(i % 2 ? 1 : 33, 72), 50, false, true, dtypes, PLAIN);
        if (i % 4 == 0)
            check_linear(WEFT_DIMS(i % 8 ? 2 : 35, 72), 50, true, false, dtypes, PLAIN);
    }
}

static void linear_of_every_rank(void)
{
    static const weft_dtype plain[] = {WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32};
    if (!vulkan())
        return;
    for (layout lie = PLAIN; lie < LAYOUTS; lie++)
        for (int transposed = 0; transposed < 2; transposed++) {
            check_linear(WEFT_DIMS(40), 30, transposed, !transposed, plain, lie);
            check_linear(WEFT_DIMS(2, 3, 40), 30, transposed, !transposed, plain, lie);
            check_linear(WEFT_DIMS(2, 3, 4, 7), 5, transposed, !transposed, plain, lie);
            check_linear(WEFT_DIMS(33, 3000), 34, transposed, !transposed, plain, lie);
            check_linear(WEFT_DIMS(3, 3000), 34, transposed, !transposed, plain, lie);
        }
}

/* Each number of rows that the vector shaders take, and more. */
static void linear_of_few_rows(void)
{
    if (!vulkan())
        return;
    for (int64_t rows = 1; rows <= 9; rows++)
        for (int d = 0; d < LENGTH(narrow); d++) {
            const weft_dtype dtypes[] = {WEFT_FLOAT32, narrow[d], WEFT_FLOAT32};
            check_linear(WEFT_DIMS(rows, 1000), 200, false, true, dtypes, PLAIN);
            check_linear(WEFT_DIMS(rows, 1000), 200, true, false, dtypes, PLAIN);
            check_linear(WEFT_DIMS(200, 100), rows, false, false, dtypes, PLAIN);
        }
}

/* Addresses that are not aligned for loads of several elements. */
static void linear_of_shifted_weights(void)
{
    if (!vulkan())
        return;
    for (int d = 0; d < LENGTH(floats); d++)
        for (int i = 0; i < 4; i++) {
            weft_scope_open();
            weft_array *all = make(WEFT_DIMS(4000), floats[d]);
            weft_array *x = make(WEFT_DIMS(i % 2 ? 2 : 20, 64), floats[d]);
            weft_array *on = ready(weft_to(all, vulkan())), *on_x = ready(weft_to(x, vulkan()));
            int64_t from = 1 + i / 2, to = from + 50 * 64;
            weft_array *w =
                weft_reshape(weft_slice_axis(wide(all), 0, from, to), WEFT_DIMS(50, 64));
            weft_array *on_w = weft_reshape(weft_slice_axis(on, 0, from, to), WEFT_DIMS(50, 64));
            weft_array *y = weft_linear(on_x, on_w, NULL);
            if (by_kernel(y, "shifted weight"))
                compare(y, weft_linear(wide(x), w, NULL), 64, "shifted weight");
            weft_scope_close(NULL);
        }
}

/* ---- linear_cross_entropy ------------------------------------------------------------------- */

typedef struct loss_problem {
    int64_t N, E, V;
    weft_linear_cross_entropy_params params;
    weft_dtype x, weight, target;
    const char *encoding; /* of the weight; NULL: none */
} loss_problem;

static void compare_loss(const loss_problem *p, weft_array *const exact_in[3],
                         weft_array *const in[3], const char *label)
{
    const weft_op *op = weft_op_find("linear_cross_entropy");
    weft_array *exact = weft_apply(op, exact_in, 3, &p->params);
    weft_array *y = weft_apply(op, in, 3, &p->params);
    /* An evaluation drops outputs that were not picked. */
    const int n = p->params.with_gradient ? 2 : 1;
    weft_array *actual[2], *expected[2];
    for (int o = 0; o < n; o++) {
        actual[o] = weft_pick(y, o);
        expected[o] = weft_pick(exact, o);
    }
    ready(exact);
    if (!by_kernel(y, label))
        return;
    for (int o = 0; o < n; o++) {
        char name[220];
        snprintf(name, sizeof name, "%s, output %d", label, o);
        compare(actual[o], expected[o], 4 * p->E, name);
    }
}

static void check_loss(const loss_problem *p, layout lie)
{
    char label[200];
    snprintf(label, sizeof label, "loss %lldx%lldx%lld %s %s %s softcap %g, %s", (long long)p->N,
             (long long)p->E, (long long)p->V, weft_dtype_name(p->x), weft_dtype_name(p->weight),
             p->encoding ? p->encoding : "", p->params.softcap, layout_names[lie]);
    int64_t *targets = calloc((size_t)p->N, sizeof *targets);
    for (int64_t i = 0; targets && i < p->N; i++)
        targets[i] = i % 5 == 3 ? -1 - i : (int64_t)((draw() + 2) / 4 * (double)p->V);
    weft_scope_open();
    weft_array *x = make(stored_shape(WEFT_DIMS(p->N, p->E), lie), p->x);
    weft_array *w = make(stored_shape(WEFT_DIMS(p->V, p->E), lie), p->weight);
    if (p->encoding) {
        const weft_encoding *blocks = weft_gguf_encoding(p->encoding);
        w = ready(weft_encode(w, blocks ? blocks : weft_encoding_find(p->encoding)));
    }
    weft_array *t = weft_from_data(targets, WEFT_INT64, WEFT_DIMS(p->N));
    weft_array *exact_in[] = {lay_out(wide(x), lie), lay_out(wide(weft_decode(w)), lie), t};
    weft_array *in[] = {ready(weft_to(x, vulkan())), ready(weft_to(w, vulkan())),
                        ready(weft_to(weft_astype(t, p->target), vulkan()))};
    in[0] = lay_out(in[0], lie);
    in[1] = lay_out(in[1], lie);
    compare_loss(p, exact_in, in, label);
    weft_scope_close(NULL);
    free(targets);
}

static void losses_and_gradients(void)
{
    if (!vulkan())
        return;
    for (int i = 0; i < 18; i++) {
        loss_problem p = {.N = i % 3 == 0 ? 3 : 33,
                          .E = 40,
                          .V = i % 2 ? 1000 : 77,
                          .params = {.softcap = i % 3 == 1 ? 3 : 0, .with_gradient = i % 9 != 8},
                          .x = narrow[i / 6],
                          .weight = narrow[i % 3],
                          .target = i % 2 ? WEFT_INT32 : WEFT_INT64};
        check_loss(&p, (layout)(i % LAYOUTS));
    }
}

/* Decoded in several blocks where a row is long. */
static void losses_with_encoded_weights(void)
{
    static const loss_problem problems[] = {
        {.N = 33, .E = 64, .V = 77, .x = WEFT_FLOAT32, .encoding = "Q8_0"},
        {.N = 5, .E = 4096, .V = 4999, .x = WEFT_FLOAT32, .encoding = "Q4_0"},
        {.N = 7, .E = 4096, .V = 4200, .x = WEFT_BFLOAT16, .encoding = "Q4_K"},
        {.N = 3, .E = 256, .V = 300, .x = WEFT_FLOAT16, .encoding = "affine-4-64-float32"},
        /* several blocks, and more rows than logits are held of */
        {.N = 80, .E = 64, .V = 270000, .x = WEFT_FLOAT32, .encoding = "Q8_0"},
    };
    if (!vulkan())
        return;
    for (int i = 0; i < 9; i++) {
        /* Each of the first four once, with gradients or without. */
        if (both_few() && ((i % 4 != 0 && i % 4 != 3) || i == 8))
            continue;
        loss_problem p = problems[i / 2];
        p.weight = WEFT_FLOAT32;
        p.target = WEFT_INT32;
        p.params = (weft_linear_cross_entropy_params){.softcap = i % 4 == 2 ? 3 : 0,
                                                      .with_gradient = i % 2 == 0};
        check_loss(&p, PLAIN);
    }
}

/* On matrix cores blocks are decoded to bfloat16, as the whole weight is here: only the order of
 * the sums over the blocks differs. */
static void encoded_losses_on_cores(void)
{
    enum { N = 300, E = 512, V = 70000 };
    static const weft_linear_cross_entropy_params params = {.with_gradient = true};
    if (!vulkan())
        return;
    if (weft_device_matrix_dtype(vulkan()) != WEFT_BFLOAT16) {
        check_skip("no matrix cores with bfloat16");
        return;
    }
    weft_scope_open();
    int32_t targets[N];
    for (int i = 0; i < N; i++)
        targets[i] = i % 5 == 3 ? -1 : (i * 233) % V;
    weft_array *x = ready(weft_to(make(WEFT_DIMS(N, E), WEFT_BFLOAT16), vulkan()));
    weft_array *w = weft_encode(make(WEFT_DIMS(V, E), WEFT_BFLOAT16), weft_gguf_encoding("Q8_0"));
    weft_array *t = ready(weft_to(weft_from_data(targets, WEFT_INT32, WEFT_DIMS(N)), vulkan()));
    w = ready(weft_to(ready(w), vulkan()));
    weft_array *results[2][2];
    for (int k = 0; k < 2; k++) {
        weft_array *in[] = {x, k ? ready(weft_decode(w)) : w, t};
        weft_array *y = weft_apply(weft_op_find("linear_cross_entropy"), in, 3, &params);
        results[k][0] = weft_pick(y, 0);
        results[k][1] = weft_pick(y, 1);
        if (!by_kernel(y, "losses on cores"))
            break;
    }
    for (int o = 0; o < 2; o++) {
        weft_array *a = weft_astype(results[0][o], WEFT_FLOAT32);
        weft_array *b = weft_astype(results[1][o], WEFT_FLOAT32);
        weft_array *scale = weft_max(weft_abs(b), WEFT_ALL_AXES, false);
        weft_array *difference = weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false);
        CHECK_CLOSE(weft_item(weft_divide(difference, scale)), 0, o ? 0x1p-7 : 2e-6);
    }
    weft_scope_close(NULL);
}

/* More rows than logits are held of. */
static void losses_in_pieces(void)
{
    if (!vulkan())
        return;
    const loss_problem p = {.N = 110,
                            .E = 3,
                            .V = 200000,
                            .params = {.with_gradient = true},
                            .x = WEFT_FLOAT32,
                            .weight = WEFT_BFLOAT16,
                            .target = WEFT_INT32};
    check_loss(&p, PLAIN);
}

static void targets_out_of_range(void)
{
    static const int32_t values[] = {0, 4, 5, -1};
    static const weft_linear_cross_entropy_params params = {.with_gradient = true};
    if (!vulkan())
        return;
    weft_scope_open();
    weft_array *in[] = {weft_to(make(WEFT_DIMS(4, 3), WEFT_FLOAT32), vulkan()),
                        weft_to(make(WEFT_DIMS(5, 3), WEFT_FLOAT32), vulkan()),
                        weft_to(weft_from_data(values, WEFT_INT32, WEFT_DIMS(4)), vulkan())};
    weft_array *y = weft_apply(weft_op_find("linear_cross_entropy"), in, 3, &params);
    float losses[4];
    CHECK_STATUS(weft_read(weft_pick(y, 0), WEFT_FLOAT32, losses, 4), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "linear_cross_entropy: target 5: expected below 5");
    weft_scope_close(NULL);
}

CHECK_MAIN("vulkan_products", CHECK_CASE(products_of_odd_sizes),
           CHECK_CASE(products_of_every_dtype), CHECK_CASE(products_of_views),
           CHECK_CASE(products_of_many_terms), CHECK_CASE(products_of_batches),
           CHECK_CASE(large_products), CHECK_CASE(special_values),
           CHECK_CASE(gathered_products_copy_nothing), CHECK_CASE(linear_of_every_dtype),
           CHECK_CASE(linear_of_every_rank), CHECK_CASE(linear_of_few_rows),
           CHECK_CASE(linear_of_shifted_weights), CHECK_CASE(losses_and_gradients),
           CHECK_CASE(losses_with_encoded_weights), CHECK_CASE(encoded_losses_on_cores),
           CHECK_CASE(losses_in_pieces), CHECK_CASE(targets_out_of_range))
