/* tests/vulkan/test_scaled.c -- products of bfloat16 on matrix cores of float16 only, which
 * multiply scaled copies: against float64, with rows of very different magnitudes, zeros,
 * subnormals, infinities and NaN. A device that has matrices of bfloat16 is opened without them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/quantize.h"

static weft_device *vulkan;

/* Opens the device. False: it has no matrix cores that multiply float16; the case is skipped. */
static bool scaled_there(void)
{
    setenv("WEFT_VULKAN_DISABLE", "matrix-bfloat16", 1);
    vulkan = weft_device_get("vulkan");
    if (!both_there())
        return false;
    CHECK_OK(weft_device_profile(vulkan, true));
    const bool there = both_on_cores(WEFT_FLOAT16);
    if (!there)
        check_skip("no matrix cores are used");
    CHECK(!there || !both_on_cores(WEFT_BFLOAT16)); /* too small to be scaled */
    return there;
}

/* Small products are scaled only with a forced tile: the last one of the table that can run, with
 * subgroups that divide the terms or not. */
static void force_tile(bool split)
{
    const weft__vulkan_device *d = weft_device_state(vulkan);
    const weft__vulkan_cores *cores = &d->physical.cores;
    const core_tile *tiles, *found = NULL;
    const int n = weft__product_core_tiles(cores->kind, &tiles);
    for (int i = 0; i < n; i++)
        if ((tiles[i].split > 1) == split &&
            weft__product_tile_runs(&tiles[i], WEFT_FLOAT16, true, true, cores) &&
            weft__product_tile_runs(&tiles[i], WEFT_FLOAT16, false, false, cores))
            found = &tiles[i];
    CHECK(found != NULL);
    weft__product_force_core_tile(found);
}

/* ---- Operands ------------------------------------------------------------------------------- */

static uint64_t state = 1;

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(state >> 33) * 0x1p-30 - 1;
}

typedef struct product {
    int64_t batches, M, N, K;
    bool a_turned, b_turned; /* terms down the matrix in memory; across it */
    bool bias;
    bool special; /* rows and columns of zeros, subnormals, infinities, NaN */
} product;

/* Element k of a row. Rows have magnitudes from 2^-120 to 2^120. Every eighth element is the
 * largest, and the others are 2^24 times smaller: errors relative to the largest element beyond
 * 2^-39 are seen where `masked`, which rows of the other operand are, has zeros there. */
static double element(const product *p, int64_t row, int64_t k, double scale, bool masked)
{
    const double large = masked       ? 0
                         : draw() < 0 ? -scale
                                      : scale,
                 small = draw() * scale * 0x1p-24,
                 usual = k % 8 == 0 ? large
                         : masked   ? draw() * scale
                                    : small;
    if (p->special) {
        switch (row) {
        case 3:
            return 0;
        case 5:
            return k % 3 == 0 ? 0x1p-133 : -0x1.4p-130; /* subnormal */
        case 7:
            return k == 9 ? INFINITY : usual;
        case 8: /* so small that only a nonzero result is known */
            return k == 4 ? 0x1.fep127 : k == 9 ? 0x1p-133 : 0;
        case 11:
            return k == 2 ? NAN : usual;
        case 12:
            return k % 2 == 0 ? 0x1.fep127 : -0x1.fcp127; /* the largest finite numbers */
        case 14:
            return k == 3 ? INFINITY : k == 6 ? -INFINITY : usual;
        default:
            break;
        }
    }
    return usual;
}

/* (batches, rows, K), or with `turned` (batches, K, rows) in memory; *values in that order too. */
static weft_array *operand(const product *p, int64_t rows, bool turned, bool second,
                           double **values)
{
    const int64_t n = p->batches * rows * p->K;
    *values = malloc(((size_t)n + 1) * sizeof **values);
    for (int64_t i = 0; i < p->batches * rows; i++) {
        const double scale = exp2(floor(draw() * 120));
        for (int64_t k = 0; k < p->K; k++)
            (*values)[i / rows * rows * p->K +
                      (turned ? k * rows + i % rows : i % rows * p->K + k)] =
                element(p, i % rows, k, scale, second && i % 2 == 1);
    }
    const weft_dims shape =
        turned ? WEFT_DIMS(p->batches, p->K, rows) : WEFT_DIMS(p->batches, rows, p->K);
    weft_array *a = weft_astype(weft_from_data(*values, WEFT_FLOAT64, shape), WEFT_BFLOAT16);
    CHECK_OK(weft_read(a, WEFT_FLOAT64, *values, n));
    a = weft_to(p->batches == 1 ? weft_squeeze(a, 0) : a, vulkan);
    CHECK_OK(weft_eval(a));
    return a;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

/* A dot product, and the error that float32 sums of scaled elements may have: less than 2^-23 of
 * all magnitudes for each term, for any order and cores that truncate; and for an element less than
 * 2^-39 of the largest of its row. */
typedef struct dot {
    double sum, bound;
} dot;

static dot dot_of(const product *p, const double *a, int64_t a_step, const double *b,
                  int64_t b_step)
{
    double sum = 0, all = 0, a_all = 0, b_all = 0, a_most = 0, b_most = 0;
    for (int64_t k = 0; k < p->K; k++) {
        const double x = a[k * a_step], y = b[k * b_step];
        sum += x * y;
        all += fabs(x * y);
        a_all += fabs(x);
        b_all += fabs(y);
        a_most = fmax(a_most, fabs(x));
        b_most = fmax(b_most, fabs(y));
    }
    return (dot){sum, (double)p->K * 0x1p-23 * all + 0x1p-39 * (a_most * b_all + b_most * a_all)};
}

static bool is_right(double actual, dot d)
{
    const double beyond = 0x1.ffp127; /* rounded to infinity from there on */
    const double bound = d.bound + 0x1.01p-8 * fabs(d.sum) +
                         (weft_device_flushes_subnormals(vulkan) ? 0x1p-126 : 0x1p-134);
    if (!isfinite(d.sum))
        return isnan(d.sum) ? isnan(actual) : actual == d.sum;
    if (isinf(actual))
        return (signbit(actual) ? -d.sum : d.sum) + bound >= beyond;
    return fabs(actual - d.sum) <= bound;
}

static void compare(const product *p, const double *a, const double *b, const double *bias,
                    const double *y, const char *label)
{
    for (int64_t i = 0; i < p->batches * p->M * p->N; i++) {
        const int64_t n = i % p->N, m = i / p->N % p->M, batch = i / p->N / p->M;
        const double *left = a + batch * p->M * p->K, *right = b + batch * p->K * p->N;
        dot d = dot_of(p, left + (p->a_turned ? m : m * p->K), p->a_turned ? p->M : 1,
                       right + (p->b_turned ? n * p->K : n), p->b_turned ? 1 : p->N);
        d.sum += bias ? bias[n] : 0;
        d.bound += bias ? 0x1p-23 * fabs(d.sum) : 0;
        if (!is_right(y[i], d)) {
            CHECK_FAIL("%s: batch %lld, row %lld, column %lld: expected %.9g, got %.9g, bound %.3g",
                       label, (long long)batch, (long long)m, (long long)n, d.sum, y[i], d.bound);
            return;
        }
    }
}

static void check_one(const product *p)
{
    char label[120];
    double *a, *b, *c = NULL;
    snprintf(label, sizeof label, "%lld x (%lld, %lld, %lld) %s%s%s%s", (long long)p->batches,
             (long long)p->M, (long long)p->N, (long long)p->K, p->a_turned ? "T" : "N",
             p->b_turned ? "T" : "N", p->bias ? ", bias" : "", p->special ? ", special" : "");
    weft_scope_open();
    weft_array *x = operand(p, p->M, p->a_turned, false, &a),
               *w = operand(p, p->N, !p->b_turned, true, &b),
               *left = p->a_turned ? weft_swapaxes(x, -1, -2) : x, *y;
    if (p->bias) {
        c = malloc((size_t)p->N * sizeof *c);
        for (int64_t i = 0; i < p->N; i++)
            c[i] = floor(draw() * 128);
        y = weft_linear(
            left, w,
            weft_to(weft_astype(weft_from_data(c, WEFT_FLOAT64, WEFT_DIMS(p->N)), WEFT_FLOAT32),
                    vulkan));
    } else {
        y = weft_matmul(left, p->b_turned ? weft_swapaxes(w, -1, -2) : w);
    }
    const int64_t n = p->batches * p->M * p->N, before = both_commands_on_cores();
    double *values = calloc((size_t)n + 1, sizeof *values);
    if (CHECK_OK(weft_eval(y)) && CHECK_OK(weft_read(y, WEFT_FLOAT64, values, n)) &&
        check_that(n * p->K == 0 || both_commands_on_cores() > before, __FILE__, __LINE__,
                   "%s: not on matrix cores", label))
        compare(p, a, b, c, values, label);
    weft_scope_close(NULL);
    free(values);
    free(a);
    free(b);
    free(c);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

/* Software drivers, which compile for seconds, try two of the four layouts, which have both of each
 * operand. */
static void check_layout(const product *p, int turned)
{
    product laid_out = *p;
    laid_out.a_turned = turned & 1;
    laid_out.b_turned = turned >> 1;
    if (!both_few() || turned == 1 || turned == 2)
        check_one(&laid_out);
}

static void small_products_of_every_layout(void)
{
    static const product all[] = {
        {.batches = 1, .M = 40, .N = 56, .K = 72, .special = true},
        {.batches = 3, .M = 24, .N = 40, .K = 64},
        {.batches = 1, .M = 16, .N = 136, .K = 520, .special = true},
    };
    if (!scaled_there())
        return;
    for (int split = 0; split < 2; split++) {
        force_tile(split);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            for (int turned = 0; turned < 4; turned++)
                check_layout(&all[i], turned);
        /* Any length of axes without loads of 8 elements; a bias; more than one strip of rows. */
        check_one(&(product){.batches = 1, .M = 33, .N = 77, .K = 48, .b_turned = true});
        check_one(&(product){.batches = 1, .M = 48, .N = 72, .K = 37, .a_turned = true});
        check_one(
            &(product){.batches = 1, .M = 45, .N = 37, .K = 64, .b_turned = true, .bias = true});
        check_one(&(product){.batches = 1, .M = 17, .N = 24, .K = 2064, .b_turned = true});
    }
    weft__product_force_core_tile(NULL);
}

/* Only products of at least 256 rows, columns and terms are scaled by default. */
static void large_products_are_scaled(void)
{
    static const product all[] = {
        {.batches = 1, .M = 256, .N = 264, .K = 256, .special = true},
        {.batches = 2, .M = 264, .N = 256, .K = 264},
    };
    static const int64_t smaller[][3] = {{248, 256, 256}, {256, 248, 256}, {256, 256, 248}};
    if (!scaled_there())
        return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int turned = 0; turned < 4; turned++)
            check_layout(&all[i], turned);
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
        weft_set_default_device(vulkan);
        weft_scope_open();
        weft_array *a = weft_ones(WEFT_DIMS(smaller[i][0], smaller[i][2]), WEFT_BFLOAT16),
                   *b = weft_ones(WEFT_DIMS(smaller[i][2], smaller[i][1]), WEFT_BFLOAT16);
        const int64_t before = both_commands_on_cores();
        CHECK_OK(weft_eval(weft_matmul(a, b)));
        CHECK_EQ_INT(both_commands_on_cores(), before);
        weft_scope_close(NULL);
        weft_set_default_device(weft_device_get("cpu"));
    }
}

static void empty_products(void)
{
    if (!scaled_there())
        return;
    check_one(&(product){.batches = 1, .M = 0, .N = 256, .K = 256});
    check_one(&(product){.batches = 1, .M = 256, .N = 0, .K = 256});
    check_one(&(product){.batches = 1, .M = 256, .N = 256, .K = 0});
    check_one(&(product){.batches = 0, .M = 256, .N = 256, .K = 256});
}

/* Weights in blocks are decoded to bfloat16 first; a sum of products is computed one by one. */
static weft_array *encoded_sum(const void *context)
{
    const weft_linear_sum_params params = {0};
    weft_device *device = weft_default_device();
    weft_array *x = both_draw(WEFT_DIMS(264, 256), WEFT_BFLOAT16, -1, 1),
               *w = both_draw(WEFT_DIMS(256, 256), WEFT_FLOAT32, -1, 1);
    w = weft_encode(weft_to(w, weft_device_get("cpu")), weft_encoding_find(context));
    weft_array *in[] = {x, weft_to(w, device), both_draw(WEFT_DIMS(264, 16), WEFT_BFLOAT16, -1, 1),
                        both_draw(WEFT_DIMS(256, 16), WEFT_BFLOAT16, -1, 1)};
    return weft_apply(weft_op_find("linear_sum"), in, 4, &params);
}

static void sums_with_encoded_weights(void)
{
    if (!scaled_there())
        return;
    weft_set_default_device(vulkan);
    weft_scope_open();
    const int64_t before = both_commands_on_cores();
    CHECK_OK(weft_eval(encoded_sum("q8_0")));
    CHECK(both_commands_on_cores() > before);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

/* A residual is added by the launch that undoes the scales, with the bits of an addition. */
static void residuals(void)
{
    weft_array *y[2];
    if (!scaled_there())
        return;
    weft_set_default_device(vulkan);
    weft_scope_open_lean();
    weft_array *x = both_draw(WEFT_DIMS(256, 264), WEFT_BFLOAT16, -1, 1),
               *w = both_draw(WEFT_DIMS(272, 264), WEFT_BFLOAT16, -1, 1),
               *r = both_draw(WEFT_DIMS(256, 272), WEFT_BFLOAT16, -9, 9);
    weft_array *in[] = {x, w, r};
    CHECK_OK(weft_eval_n(in, 3));
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        const int64_t before = both_commands_on_cores(), fused = both_fused();
        y[one_by_one] = weft_add(r, both_apart(weft_linear(x, w, NULL), one_by_one));
        CHECK_OK(weft_eval(y[one_by_one]));
        CHECK(both_commands_on_cores() > before);
        CHECK_EQ_INT(both_fused() - fused, 1 - one_by_one);
    }
    CHECK(both_equal(y[0], y[1]));
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_scaled", CHECK_CASE(small_products_of_every_layout),
           CHECK_CASE(large_products_are_scaled), CHECK_CASE(empty_products),
           CHECK_CASE(sums_with_encoded_weights), CHECK_CASE(residuals))
