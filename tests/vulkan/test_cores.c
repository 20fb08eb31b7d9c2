/* tests/vulkan/test_cores.c -- matrix products on matrix cores, against float64 sums of the same
 * inputs: every tile, layout, edge, batch and division of the terms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "tests/check.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/quantize.h"

static weft_device *vulkan;

/* Whether the device has matrix cores and uses them; else the running case is skipped. On a driver
 * in software, WEFT_VULKAN_ENABLE=matrix switches them on. */
static bool cores_there(void)
{
    vulkan = weft_device_get("vulkan");
    const char *uses = vulkan ? strstr(weft_device_description(vulkan), "; uses ") : NULL;
    const char *matrix = uses ? strstr(uses + 2, "matrix") : NULL,
               *end = uses ? strchr(uses + 2, ';') : NULL;
    const bool there = matrix && (!end || matrix < end);
    if (!there)
        check_skip("no matrix cores are used");
    return there;
}

static bool in_software(void)
{
    return strstr(weft_device_description(vulkan), "in software") != NULL;
}

static int64_t on_cores(void)
{
    weft_counter all[16];
    const int n = weft_device_counters(vulkan, all, 16);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, "commands on matrix cores") == 0)
            return all[i].value;
    return -1;
}

/* The dtypes whose products run on the cores. */
static int dtypes_there(weft_dtype out[2])
{
    static const weft_dtype both[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        weft_set_default_device(vulkan);
        weft_scope_open();
        weft_array *a = weft_ones(WEFT_DIMS(32, 32), both[i]);
        const int64_t before = on_cores();
        if (weft_eval(weft_matmul(a, a)) == WEFT_OK && on_cores() > before)
            out[n++] = both[i];
        weft_scope_close(NULL);
        weft_set_default_device(weft_device_get("cpu"));
    }
    return n;
}

/* ---- One product ---------------------------------------------------------------------------- */

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
    weft_dtype dtype;
} product;

static void name_product(const product *p, char *out, size_t size)
{
    snprintf(out, size, "%s %lld x (%lld, %lld, %lld) %s%s%s", weft_dtype_name(p->dtype),
             (long long)p->batches, (long long)p->M, (long long)p->N, (long long)p->K,
             p->a_turned ? "T" : "N", p->b_turned ? "T" : "N", p->bias ? ", bias" : "");
}

/* Random numbers of the dtype: as an array on the device, and as doubles. */
static weft_array *operand(int64_t batches, int64_t rows, int64_t columns, weft_dtype dtype,
                           double **values)
{
    const int64_t n = batches * rows * columns;
    *values = malloc(((size_t)n + 1) * sizeof **values);
    for (int64_t i = 0; i < n; i++)
        (*values)[i] = draw();
    weft_dims shape = batches > 1 ? WEFT_DIMS(batches, rows, columns) : WEFT_DIMS(rows, columns);
    weft_array *a = weft_astype(weft_from_data(*values, WEFT_FLOAT64, shape), dtype);
    CHECK_OK(weft_read(a, WEFT_FLOAT64, *values, n));
    return weft_to(a, vulkan);
}

/* Half a unit in the last place of 1. */
static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 0x1p-8 : dtype == WEFT_FLOAT16 ? 0x1p-11 : 0x1p-24;
}

static bool compare(const product *p, const double *a, const double *b, const double *bias,
                    const double *y, weft_dtype y_dtype, const char *label)
{
    for (int64_t i = 0; i < p->batches * p->M * p->N; i++) {
        const int64_t n = i % p->N, m = i / p->N % p->M, batch = i / p->N / p->M;
        const double *left = a + batch * p->M * p->K, *right = b + batch * p->K * p->N;
        double sum = bias ? bias[n] : 0, magnitude = fabs(sum);
        for (int64_t k = 0; k < p->K; k++) {
            const double term = left[p->a_turned ? k * p->M + m : m * p->K + k] *
                                right[p->b_turned ? n * p->K + k : k * p->N + n];
            sum += term;
            magnitude += fabs(term);
        }
        const double bound = sqrt((double)p->K) * 0x1p-26 * magnitude +
                             1.01 * rounding(y_dtype) * fabs(sum) + 0x1p-25;
        if (!(fabs(y[i] - sum) <= bound))
            return CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g, error %.3g, bound %.3g",
                              label, (long long)i, sum, y[i], fabs(y[i] - sum), bound);
    }
    return true;
}

static void check_one(const product *p, const char *with)
{
    char label[200];
    name_product(p, label, sizeof label);
    snprintf(label + strlen(label), sizeof label - strlen(label), "%s", with);
    double *a, *b, *c = NULL;
    weft_scope_open();
    weft_array *x =
        operand(p->batches, p->a_turned ? p->K : p->M, p->a_turned ? p->M : p->K, p->dtype, &a);
    weft_array *w =
        operand(p->batches, p->b_turned ? p->N : p->K, p->b_turned ? p->K : p->N, p->dtype, &b);
    weft_array *bias = p->bias ? operand(1, 1, p->N, WEFT_FLOAT32, &c) : NULL;
    CHECK_OK(weft_eval(x));
    CHECK_OK(weft_eval(w));
    weft_array *left = p->a_turned ? weft_swapaxes(x, -1, -2) : x;
    weft_array *right = p->b_turned ? weft_swapaxes(w, -1, -2) : w;
    weft_array *y =
        bias ? weft_linear(left, w, weft_reshape(bias, WEFT_DIMS(p->N))) : weft_matmul(left, right);
    const int64_t n = p->batches * p->M * p->N, before = on_cores();
    double *values = calloc((size_t)n + 1, sizeof *values);
    if (CHECK_OK(weft_eval(y)) && CHECK_OK(weft_read(y, WEFT_FLOAT64, values, n)) &&
        check_that(on_cores() > before, __FILE__, __LINE__, "%s: not on matrix cores", label))
        compare(p, a, b, c, values, weft_dtype_of(y), label);
    weft_scope_close(NULL);
    free(values);
    free(a);
    free(b);
    free(c);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void products_of_every_layout_and_edge(void)
{
    static const int64_t sizes[][3] = {{32, 32, 32},  {64, 96, 64},   {40, 56, 72},
                                       {136, 24, 40}, {16, 200, 104}, {264, 136, 16}};
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    CHECK(n_dtypes > 0);
    for (int d = 0; d < n_dtypes; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turned = 0; turned < 4; turned++)
                check_one(&(product){.batches = 1,
                                     .M = sizes[i][0],
                                     .N = sizes[i][1],
                                     .K = sizes[i][2],
                                     .a_turned = turned & 1,
                                     .b_turned = turned >> 1,
                                     .dtype = dtypes[d]},
                          "");
    CHECK_OK(weft_device_profile(vulkan, false));
}

/* Axes along which there are no loads of 8 elements may have any length. */
static void products_of_odd_lengths(void)
{
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    for (int d = 0; d < n_dtypes; d++) {
        check_one(
            &(product){
                .batches = 1, .M = 33, .N = 77, .K = 48, .b_turned = true, .dtype = dtypes[d]},
            "");
        check_one(
            &(product){
                .batches = 1, .M = 48, .N = 40, .K = 37, .a_turned = true, .dtype = dtypes[d]},
            "");
        check_one(&(product){.batches = 3, .M = 19, .N = 24, .K = 40, .dtype = dtypes[d]}, "");
        check_one(&(product){.batches = 1,
                             .M = 45,
                             .N = 37,
                             .K = 64,
                             .b_turned = true,
                             .bias = true,
                             .dtype = dtypes[d]},
                  "");
        check_one(&(product){.batches = 1,
                             .M = 64,
                             .N = 64,
                             .K = 64,
                             .b_turned = true,
                             .bias = true,
                             .dtype = dtypes[d]},
                  "");
    }
    CHECK_OK(weft_device_profile(vulkan, false));
}

static void products_in_parts_of_the_terms(void)
{
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    for (int d = 0; d < n_dtypes; d++) {
        check_one(
            &(product){
                .batches = 1, .M = 16, .N = 48, .K = 2056, .a_turned = true, .dtype = dtypes[d]},
            "");
        check_one(
            &(product){
                .batches = 2, .M = 24, .N = 16, .K = 1032, .b_turned = true, .dtype = dtypes[d]},
            "");
    }
    CHECK_OK(weft_device_profile(vulkan, false));
}

static void products_by_tile(const core_tile *tile, weft_dtype dtype)
{
    const weft__vulkan_device *d = weft_device_state(vulkan);
    char with[80];
    snprintf(with, sizeof with, " by %dx%dx%d %dx%dx%d", tile->rows, tile->columns, tile->terms,
             tile->down, tile->across, tile->split);
    weft__product_force_core_tile(tile);
    for (int turned = 0; turned < 4; turned++) {
        if (!weft__product_tile_runs(tile, dtype, !(turned & 1), turned >> 1, &d->physical.cores))
            continue;
        product p = {.batches = 1,
                     .M = 384,
                     .N = 384,
                     .K = 192,
                     .a_turned = turned & 1,
                     .b_turned = turned >> 1,
                     .dtype = dtype};
        check_one(&p, with);
        p.M = 200, p.N = 312, p.K = 168;
        check_one(&p, with);
    }
    weft__product_force_core_tile(NULL);
}

/* The tables of all vendors, as far as the device can run their tiles. Software drivers compile
 * large tiles for minutes, so they run the small ones, and without WEFT_TEST_ALL one of each table.
 */
static void products_by_every_tile(void)
{
    static const weft__vulkan_cores_kind kinds[] = {
        WEFT__VULKAN_CORES_NVIDIA, WEFT__VULKAN_CORES_AMD, WEFT__VULKAN_CORES_INTEL};
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    for (int k = 0; k < 3; k++) {
        const core_tile *tiles;
        const int n = weft__product_core_tiles(kinds[k], &tiles);
        for (int i = in_software() && !check_exhaustive() ? n - 1 : 0; i < n; i++)
            for (int d = 0; d < n_dtypes; d++)
                products_by_tile(&tiles[i], dtypes[d]);
    }
    CHECK_OK(weft_device_profile(vulkan, false));
}

/* ---- Encoded weights and attention ----------------------------------------------------------- */

/* y = x w^T, or x w: the matrix is decoded, rounded to the dtype of x, and multiplied. */
static void check_encoded(const char *encoding, weft_dtype dtype, bool transposed)
{
    enum { ROWS = 264, F = 48, E = 512 };
    const weft_linear_params params = {.transposed = transposed};
    const product p = {.batches = 1,
                       .M = ROWS,
                       .N = transposed ? E : F,
                       .K = transposed ? F : E,
                       .b_turned = !transposed,
                       .dtype = dtype};
    double *x, *w;
    weft_scope_open();
    weft_array *a = operand(1, ROWS, p.K, dtype, &x), *b = operand(1, F, E, WEFT_FLOAT32, &w);
    weft_array *encoded =
        weft_keep(weft_encode(weft_to(b, weft_device_get("cpu")), weft_encoding_find(encoding)));
    CHECK_OK(weft_read(weft_astype(weft_decode(encoded), dtype), WEFT_FLOAT64, w, F * E));
    weft_array *in[] = {a, weft_to(encoded, vulkan)};
    CHECK_OK(weft_eval_n(in, 2));
    weft_array *y = weft_apply(weft_op_find("linear"), in, 2, &params);
    const int64_t n = p.M * p.N, before = on_cores();
    double *values = calloc((size_t)n, sizeof *values);
    if (CHECK_OK(weft_eval(y)) && CHECK_OK(weft_read(y, WEFT_FLOAT64, values, n)) &&
        check_that(on_cores() > before, __FILE__, __LINE__, "%s: not on matrix cores", encoding))
        compare(&p, x, w, NULL, values, dtype, encoding);
    weft_drop(encoded);
    weft_scope_close(NULL);
    free(values);
    free(x);
    free(w);
}

static void encoded_weights_are_decoded_for_the_cores(void)
{
    static const char *const encodings[] = {"q4_k", "q8_0", "q4_0", "mxfp4"};
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    for (int d = 0; d < n_dtypes; d++)
        for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
            for (int transposed = 0; transposed < 2; transposed++)
                check_encoded(encodings[i], dtypes[d], transposed);
    CHECK_OK(weft_device_profile(vulkan, false));
}

/* tests/vulkan/test_attention.c checks its values. */
static void attention_of_tiles_is_on_the_cores(void)
{
    weft_dtype dtypes[2];
    if (!cores_there())
        return;
    CHECK_OK(weft_device_profile(vulkan, true));
    const int n_dtypes = dtypes_there(dtypes);
    for (int d = 0; d < n_dtypes; d++) {
        const weft_attention_params params = {.scale = 0.25, .causal = true};
        double *values[4];
        weft_scope_open();
        weft_array *in[6];
        for (int i = 0; i < 4; i++) {
            in[i == 3 ? 5 : i] = weft_reshape(operand(1, 2 * 40, 2 * 16, dtypes[d], &values[i]),
                                              WEFT_DIMS(2, 40, 2, 16));
            free(values[i]);
        }
        weft_array *node = weft_apply(weft_op_find("attention"), in, 3, &params);
        in[3] = weft_pick(node, 0);
        in[4] = weft_pick(node, 1);
        weft_array *gradients = weft_apply(weft_op_find("attention_vjp"), in, 6, &params);
        const int64_t before = on_cores();
        CHECK_OK(weft_eval(in[3]));
        const int64_t between = on_cores();
        CHECK_EQ_INT(between - before, 1);
        CHECK_OK(weft_eval(weft_pick(gradients, 0)));
        CHECK_EQ_INT(on_cores() - between, 2);
        weft_scope_close(NULL);
    }
    CHECK_OK(weft_device_profile(vulkan, false));
}

CHECK_MAIN("vulkan_cores", CHECK_CASE(products_of_every_layout_and_edge),
           CHECK_CASE(products_of_odd_lengths), CHECK_CASE(products_in_parts_of_the_terms),
           CHECK_CASE(products_by_every_tile),
           CHECK_CASE(encoded_weights_are_decoded_for_the_cores),
           CHECK_CASE(attention_of_tiles_is_on_the_cores))
