/* tests/vulkan/test_linear_sum.c -- sums of products as one launch, against float64 sums of the
 * same inputs; with encoded weights, a bias, and a residual that is added to the rounded sum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/quantize.h"
#include "weft/weft.h"

enum { MOST_PAIRS = 6 };

typedef struct sum {
    int64_t rows, columns, terms[MOST_PAIRS]; /* terms end with 0 */
    bool transposed, bias;
    const char *encoding; /* of the first weight, or NULL */
    weft_dtype dtype;
} sum;

typedef struct operands {
    weft_array *inputs[2 * MOST_PAIRS + 1];
    int n;
} operands;

static operands operands_of(const sum *s)
{
    operands o = {.n = 0};
    for (int i = 0; i < MOST_PAIRS && s->terms[i] > 0; i++) {
        const int64_t K = s->terms[i];
        weft_array *w = both_draw(
            s->transposed ? WEFT_DIMS(K, s->columns) : WEFT_DIMS(s->columns, K), s->dtype, -1, 1);
        if (i == 0 && s->encoding)
            w = weft_encode(w, weft_encoding_find(s->encoding));
        o.inputs[o.n++] = both_draw(WEFT_DIMS(s->rows, K), s->dtype, -1, 1);
        o.inputs[o.n++] = w;
    }
    if (s->bias)
        o.inputs[o.n++] = both_draw(WEFT_DIMS(s->columns), WEFT_FLOAT32, -1, 1);
    CHECK_OK(weft_eval_n(o.inputs, o.n));
    return o;
}

static weft_array *apply(const sum *s, const operands *o)
{
    const weft_linear_sum_params params = {.transposed = s->transposed};
    return weft_apply(weft_op_find("linear_sum"), o->inputs, o->n, &params);
}

/* In float64, and the sum of the magnitudes of all terms. */
static weft_array *expected(const sum *s, const operands *o, weft_array **magnitude)
{
    weft_array *y = NULL, *all = NULL;
    for (int i = 0; i + 1 < o->n; i += 2) {
        weft_array *x = weft_to(o->inputs[i], weft_device_get("cpu")), *w = o->inputs[i + 1];
        w = weft_encoding_of(w) ? weft_decode(w) : w;
        w = weft_astype(weft_to(w, weft_device_get("cpu")), WEFT_FLOAT64);
        w = s->transposed ? w : weft_swapaxes(w, 0, 1);
        x = weft_astype(x, WEFT_FLOAT64);
        weft_array *part = weft_matmul(x, w), *size = weft_matmul(weft_abs(x), weft_abs(w));
        y = y ? weft_add(y, part) : part;
        all = all ? weft_add(all, size) : size;
    }
    if (s->bias)
        y = weft_add(y, weft_to(o->inputs[o->n - 1], weft_device_get("cpu")));
    *magnitude = all;
    return y;
}

static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 0x1p-8 : dtype == WEFT_FLOAT16 ? 0x1p-11 : 0x1p-24;
}

/* Whether matrix cores compute the sum in one launch: with matrices of the dtype itself. */
static bool is_one_launch(const sum *s)
{
    bool fits = s->rows >= (s->encoding ? 256 : 9) && s->columns % 8 == 0;
    for (int i = 0; i < MOST_PAIRS; i++)
        fits = fits && s->terms[i] % 8 == 0;
    const weft__vulkan_device *d = weft_device_state(weft_device_get("vulkan"));
    return fits && weft__vulkan_core_shape_of(&d->physical.cores, s->dtype);
}

static void check_sum(const sum *s)
{
    char label[160];
    int64_t K = 0;
    const bool one_launch = is_one_launch(s);
    for (int i = 0; i < MOST_PAIRS; i++)
        K += s->terms[i];
    snprintf(label, sizeof label, "%s %lld x %lld, %lld and %lld terms%s%s%s",
             weft_dtype_name(s->dtype), (long long)s->rows, (long long)s->columns,
             (long long)s->terms[0], (long long)(K - s->terms[0]),
             s->transposed ? ", transposed" : "", s->bias ? ", bias" : "",
             s->encoding ? ", encoded" : "");
    weft_scope_open();
    weft_array *magnitude;
    const operands o = operands_of(s);
    weft_array *y = apply(s, &o), *want = expected(s, &o, &magnitude);
    const int64_t n = s->rows * s->columns;
    double *got = calloc((size_t)n, sizeof *got), *exact = calloc((size_t)n, sizeof *exact),
           *all = calloc((size_t)n, sizeof *all);
    const int64_t expansions = weft_device_counts(weft_default_device()).expansions;
    CHECK_OK(weft_eval(y));
    if (one_launch)
        check_that(weft_device_counts(weft_default_device()).expansions == expansions, __FILE__,
                   __LINE__, "%s: not in one launch", label);
    bool fine = CHECK_OK(weft_read(y, WEFT_FLOAT64, got, n)) &&
                CHECK_OK(weft_read(want, WEFT_FLOAT64, exact, n)) &&
                CHECK_OK(weft_read(magnitude, WEFT_FLOAT64, all, n));
    for (int64_t i = 0; i < n && fine; i++) {
        /* Matrix cores take decoded weights in 16 bits. */
        const double weights = s->encoding ? rounding(s->dtype) : 0;
        const double bound = (sqrt((double)K) * 0x1p-24 + weights) * all[i] +
                             1.01 * rounding(s->dtype) * fabs(exact[i]) + 0x1p-25;
        fine = check_that(fabs(got[i] - exact[i]) <= bound, __FILE__, __LINE__,
                          "%s: element %lld: expected %.9g, got %.9g", label, (long long)i,
                          exact[i], got[i]);
    }
    free(got);
    free(exact);
    free(all);
    weft_scope_close(NULL);
}

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};

static void sums_are_those_of_float64(void)
{
    static const sum sums[] = {
        {.rows = 256, .columns = 256, .terms = {256, 16}},
        {.rows = 70, .columns = 136, .terms = {200, 8}},
        {.rows = 264, .columns = 72, .terms = {96, 16, 40, 8, 64, 24}},
        {.rows = 128, .columns = 128, .terms = {16, 128}},
        {.rows = 64, .columns = 64, .terms = {16, 16}},
        {.rows = 65, .columns = 40, .terms = {128, 16}, .bias = true},
        {.rows = 64, .columns = 72, .terms = {2056, 16}},
        {.rows = 16, .columns = 2048, .terms = {1600, 16}},
        {.rows = 9, .columns = 40, .terms = {136, 8, 104, 16, 72}, .bias = true},
        {.rows = 3, .columns = 64, .terms = {64, 16}},
        {.rows = 80, .columns = 33, .terms = {24, 5}},
    };
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        for (int form = 0; form < 2; form++) {
            for (int d = 0; d < 3; d++) {
                sum s = sums[i];
                s.transposed = form == 1;
                s.dtype = dtypes[d];
                if (!s.transposed || !s.bias)
                    check_sum(&s);
            }
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

static bool in_software(void)
{
    return strstr(weft_device_description(weft_device_get("vulkan")), "in software") != NULL;
}

/* Whether the device can run the tile for these layouts. */
static bool runs(const core_tile *tile, const sum *s)
{
    const weft__vulkan_device *d = weft_device_state(weft_device_get("vulkan"));
    const weft__vulkan_cores *cores = &d->physical.cores;
    return weft__vulkan_core_shape_of(cores, s->dtype) &&
           weft__product_tile_runs(tile, s->dtype, true, !s->transposed, cores);
}

static void sums_by_every_tile(void)
{
    static const sum sums[] = {{.rows = 384, .columns = 768, .terms = {192, 16}},
                               {.rows = 200, .columns = 312, .terms = {168, 16, 104, 8}}};
    const core_tile *tiles;
    if (!both_there())
        return;
    if (in_software() && !check_exhaustive()) {
        check_skip("software drivers compile large tiles for minutes");
        return;
    }
    weft_set_default_device(weft_device_get("vulkan"));
    const int n = weft__product_core_tiles(WEFT__VULKAN_CORES_NVIDIA, &tiles);
    for (int i = 0; i < n; i++) {
        weft__product_force_core_tile(&tiles[i]);
        for (int k = 0; k < 8; k++) {
            sum s = sums[k & 1];
            s.transposed = k & 2;
            s.dtype = dtypes[1 + (k >> 2)];
            if (runs(&tiles[i], &s))
                check_sum(&s);
        }
    }
    weft__product_force_core_tile(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

static void encoded_weights_are_decoded(void)
{
    static const char *const encodings[] = {"q8_0", "q4_k"};
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (int i = 0; i < 2; i++) {
        for (int form = 0; form < 2; form++) {
            const sum s = {.rows = 264,
                           .columns = form ? 256 : 72,
                           .terms = {form ? 72 : 256, 16},
                           .transposed = form == 1,
                           .encoding = encodings[i],
                           .dtype = WEFT_BFLOAT16};
            check_sum(&s);
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* The residual is added to the rounded sum, so the bits are those of two ops. */
static void residuals_are_added_to_the_rounded_sum(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (int d = 0; d < 6; d++) {
        const sum s =
            d < 3 ? (sum){.rows = 130, .columns = 136, .terms = {192, 16}, .dtype = dtypes[d]}
                  : (sum){.rows = 16, .columns = 2048, .terms = {1600, 16}, .dtype = dtypes[d - 3]};
        weft_array *results[2];
        weft_scope_open();
        const operands o = operands_of(&s);
        weft_array *h = both_draw(WEFT_DIMS(s.rows, s.columns), s.dtype, -4, 4);
        CHECK_OK(weft_eval(h));
        for (int apart = 0; apart < 2; apart++) {
            weft_scope_open_lean();
            const int64_t fused = both_fused();
            results[apart] = weft_add(h, both_apart(apply(&s, &o), apart));
            CHECK_OK(weft_eval(results[apart]));
            if (!apart && is_one_launch(&s))
                CHECK(both_fused() > fused);
            results[apart] = weft_scope_close(results[apart]);
        }
        CHECK(both_equal(results[0], results[1]));
        weft_scope_close(NULL);
    }
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_linear_sum", CHECK_CASE(sums_are_those_of_float64),
           CHECK_CASE(sums_by_every_tile), CHECK_CASE(encoded_weights_are_decoded),
           CHECK_CASE(residuals_are_added_to_the_rounded_sum))
