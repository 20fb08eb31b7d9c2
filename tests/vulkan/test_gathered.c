/* tests/vulkan/test_gathered.c -- products of selected matrices whose items are sorted by matrix,
 * and their gradients with respect to the matrices, against float64: every layout of the matrices,
 * few, many and no items for a matrix, and indices in every order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/vulkan/kernels/product_plan.h"
#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/op_params.h"
#include "weft/quantize.h"

typedef enum selection { RANDOM, ONE, FALLING, ODD, FROM_END } selection;

typedef struct gathered {
    int64_t A, matrices, items, K, N;
    selection selection;
    bool turned; /* the terms of each matrix are adjacent */
    bool sums;   /* gather_mm_sums */
    weft_dtype dtype;
    bool on_cores;        /* the sizes allow it */
    const char *encoding; /* of the matrices, as gather_linear takes them; NULL: floats */
} gathered;

static double index_of(const gathered *g, int64_t i)
{
    const int64_t n = g->matrices, random = i * 7919 % 104729 % n;
    switch (g->selection) {
    case ONE:
        return (double)(n / 2);
    case FALLING:
        return (double)(n - 1 - i * n / g->items);
    case ODD: /* no item for every second matrix */
        return (double)(n > 1 ? random | 1 : 0) < (double)n ? (double)(random | 1) : 1;
    case FROM_END:
        return (double)(random - n);
    default:
        return (double)random;
    }
}

static void operands_of(const gathered *g, weft_array *in[4])
{
    double *indices = calloc(2, (size_t)(g->items + 1) * sizeof *indices);
    for (int64_t i = 0; indices && i < g->items; i++) {
        indices[i] = (double)(i * 31 % g->A);
        indices[g->items + i] = index_of(g, i);
    }
    in[0] = both_draw(WEFT_DIMS(g->A, 1, g->K), g->dtype, -1, 1);
    in[1] = g->sums     ? both_draw(WEFT_DIMS(g->items, 1, g->N), g->dtype, -1, 1)
            : g->turned ? both_draw(WEFT_DIMS(g->matrices, g->N, g->K), g->dtype, -1, 1)
                        : both_draw(WEFT_DIMS(g->matrices, g->K, g->N), g->dtype, -1, 1);
    if (g->encoding) {
        const weft_encoding *blocks = weft_gguf_encoding(g->encoding);
        weft_array *w = weft_to(weft_astype(in[1], WEFT_FLOAT32), weft_device_get("cpu"));
        w = weft_encode(w, blocks ? blocks : weft_encoding_find(g->encoding));
        in[1] = weft_to(w, weft_default_device());
    }
    in[2] = both_list(indices, WEFT_DIMS(g->items), WEFT_INT32);
    in[3] = both_list(indices + g->items, WEFT_DIMS(g->items), WEFT_INT64);
    free(indices);
    for (int i = 0; i < 4; i++)
        CHECK_OK(weft_eval(in[i]));
}

static weft_array *result_of(const gathered *g, weft_array *const *in)
{
    const weft_gather_mm_params params = {.count = g->matrices};
    if (weft_encoding_of(in[1]))
        return weft_gather_linear(weft_squeeze(in[0], 1), in[1], in[2], in[3]);
    weft_array *all[] = {in[0], g->turned && !g->sums ? weft_swapaxes(in[1], 1, 2) : in[1], in[2],
                         in[3]};
    return weft_apply(weft_op_find(g->sums ? "gather_mm_sums" : "gather_mm"), all, 4, &params);
}

/* Half a unit in the last place of 1, and sums in float32 of products of numbers below 1. */
static double bound_of(const gathered *g, double exact)
{
    const double unit = g->dtype == WEFT_BFLOAT16  ? 0x1p-9
                        : g->dtype == WEFT_FLOAT16 ? 0x1p-12
                        : g->dtype == WEFT_FLOAT32 ? 0x1p-25
                                                   : 0x1p-54;
    const double terms = (double)(g->sums ? g->items : g->K);
    return 2.02 * unit * fabs(exact) + (g->dtype == WEFT_FLOAT64 ? 0x1p-50 : 0x1p-20) * sqrt(terms);
}

static void check_one(const gathered *g)
{
    char label[120];
    snprintf(label, sizeof label, "%s %s %lld items of %lld (%lld, %lld)%s, selection %d",
             weft_dtype_name(g->dtype),
             g->sums       ? "sums"
             : g->encoding ? g->encoding
                           : "",
             (long long)g->items, (long long)g->matrices, (long long)g->K, (long long)g->N,
             g->turned ? "T" : "", (int)g->selection);
    weft_device *vulkan = weft_device_get("vulkan"), *cpu = weft_device_get("cpu");
    weft_array *in[4], *wide[4];
    weft_set_default_device(vulkan);
    weft_scope_open();
    operands_of(g, in);
    weft_array *y = result_of(g, in);
    weft_device_reset_counts(vulkan);
    const bool cores = g->on_cores && both_on_cores(g->dtype);
    const int64_t commands = both_commands_on_cores();
    CHECK_OK(weft_eval(y));
    const weft_counts counts = weft_device_counts(vulkan);
    check_that(counts.references + counts.expansions + counts.copies == 0, __FILE__, __LINE__,
               "%s: not by its kernel", label);
    check_that(!cores || both_commands_on_cores() > commands, __FILE__, __LINE__,
               "%s: not on matrix cores", label);
    weft_set_default_device(cpu);
    for (int i = 0; i < 4; i++)
        wide[i] = weft_to(in[i], cpu);
    wide[1] = g->encoding ? weft_astype(weft_decode(wide[1]), g->dtype) : wide[1];
    for (int i = 0; i < 2; i++)
        wide[i] = weft_astype(wide[i], WEFT_FLOAT64);
    const int64_t n = weft_size(y);
    double *actual = calloc(2, (size_t)(n + 1) * sizeof *actual), *exact = actual + n + 1;
    if (actual && CHECK_OK(weft_read(y, WEFT_FLOAT64, actual, n)) &&
        CHECK_OK(weft_read(result_of(g, wide), WEFT_FLOAT64, exact, n)))
        for (int64_t i = 0; i < n; i++)
            if (!check_that(fabs(actual[i] - exact[i]) <= bound_of(g, exact[i]), __FILE__, __LINE__,
                            "%s: element %lld: expected %.9g, got %.9g", label, (long long)i,
                            exact[i], actual[i]))
                break;
    free(actual);
    weft_scope_close(NULL);
}

static const gathered all[] = {
    {40, 4, 100, 24, 36, RANDOM, true, false, WEFT_FLOAT32, false, NULL},
    {40, 4, 100, 24, 36, ODD, false, false, WEFT_FLOAT32, false, NULL},
    {16, 3, 200, 33, 5, FALLING, true, false, WEFT_FLOAT32, false, NULL},
    {300, 2, 700, 72, 80, RANDOM, false, false, WEFT_FLOAT32, false, NULL},
    {9, 5, 10, 16, 24, FROM_END, true, false, WEFT_FLOAT32, false, NULL}, /* two for each matrix */
    {9, 5, 9, 16, 24, RANDOM, true, false, WEFT_FLOAT32, false, NULL}, /* fewer: each by itself */
    {1, 1, 40, 1, 1, ONE, false, false, WEFT_FLOAT32, false, NULL},
    {7, 9, 64, 17, 40, ONE, true, false, WEFT_FLOAT64, false, NULL},
    {50, 6, 130, 64, 96, RANDOM, true, false, WEFT_BFLOAT16, true, NULL},
    {50, 6, 130, 64, 96, ODD, false, false, WEFT_BFLOAT16, true, NULL},
    {50, 300, 610, 32, 16, RANDOM, true, false, WEFT_BFLOAT16, true, NULL},
    {50, 3, 300, 48, 136, FALLING, false, false, WEFT_FLOAT16, true, NULL},
    {50, 3, 300, 8, 40, FROM_END, true, false, WEFT_BFLOAT16, true, NULL},
    {50, 3, 90, 33, 41, RANDOM, true, false, WEFT_BFLOAT16, false, NULL},
    {40, 4, 100, 24, 36, RANDOM, false, true, WEFT_FLOAT32, false, NULL},
    {40, 5, 90, 33, 5, ODD, false, true, WEFT_FLOAT32, false, NULL},
    {40, 5, 3, 1, 1, RANDOM, false, true, WEFT_FLOAT32, false, NULL},
    {40, 2, 0, 16, 8, RANDOM, false, true, WEFT_FLOAT32, false, NULL},
    {7, 9, 64, 17, 40, ONE, false, true, WEFT_FLOAT64, false, NULL},
    {50, 6, 130, 64, 16, RANDOM, false, true, WEFT_BFLOAT16, true, NULL},
    {50, 6, 301, 16, 136, ODD, false, true, WEFT_BFLOAT16, true, NULL},
    {50, 4, 200, 128, 72, FALLING, false, true, WEFT_FLOAT16, true, NULL},
    {40, 5, 100, 64, 24, RANDOM, true, false, WEFT_FLOAT32, false, "mxfp4"},
    {40, 5, 100, 64, 24, ODD, true, false, WEFT_BFLOAT16, true, "mxfp4"},
    {40, 3, 64, 256, 40, FROM_END, true, false, WEFT_FLOAT32, false, "Q4_K"},
    {40, 3, 64, 64, 40, RANDOM, true, false, WEFT_FLOAT16, true, "Q8_0"},
    {40, 3, 64, 64, 40, ONE, true, false, WEFT_BFLOAT16, true, "affine-4-64-bfloat16"},
    {40, 5, 19, 64, 24, RANDOM, true, false, WEFT_FLOAT32, false, "mxfp4"}, /* by itself */
};

static void products_of_items_sorted_by_matrix(void)
{
    if (!both_there())
        return;
    CHECK_OK(weft_device_profile(weft_device_get("vulkan"), true));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_one(&all[i]);
    CHECK_OK(weft_device_profile(weft_device_get("vulkan"), false));
}

/* With a limit as if only one or two matrices could be decoded at a time. */
static void decoded_matrices_in_parts(void)
{
    if (!both_there())
        return;
    for (int64_t n = 1; n <= 2; n++) {
        weft__gather_limit_room(n * 64 * 24 * 4);
        for (int s = RANDOM; s <= FROM_END; s++)
            check_one(&(gathered){40, 5, 100, 64, 24, (selection)s, true, false, WEFT_FLOAT32,
                                  false, "mxfp4"});
    }
    weft__gather_limit_room(0);
}

/* An index out of range is an error, whether of a row or of a matrix. */
static weft_array *out_of_range(const void *context)
{
    const bool *of_matrix = context;
    double lhs[64], rhs[64];
    for (int i = 0; i < 64; i++) {
        lhs[i] = !*of_matrix && i == 50 ? 9 : i % 8;
        rhs[i] = *of_matrix && i == 50 ? -5 : i % 4;
    }
    return weft_gather_mm(both_draw(WEFT_DIMS(8, 1, 16), WEFT_FLOAT32, -1, 1),
                          both_draw(WEFT_DIMS(4, 16, 24), WEFT_FLOAT32, -1, 1),
                          both_list(lhs, WEFT_DIMS(64), WEFT_INT32),
                          both_list(rhs, WEFT_DIMS(64), WEFT_INT32), false);
}

/* No matrix, or no row, to select from. */
static weft_array *nothing_to_select(const void *context)
{
    const bool *of_matrix = context;
    double zeros[4] = {0};
    return weft_gather_mm(both_draw(WEFT_DIMS(*of_matrix ? 2 : 0, 1, 3), WEFT_FLOAT32, -1, 1),
                          both_draw(WEFT_DIMS(*of_matrix ? 0 : 2, 3, 4), WEFT_FLOAT32, -1, 1),
                          both_list(zeros, WEFT_DIMS(4), WEFT_INT32),
                          both_list(zeros, WEFT_DIMS(4), WEFT_INT32), false);
}

/* Cotangents whose elements are not adjacent, which are copied. */
static weft_array *sums_of_columns(const void *context)
{
    (void)context;
    const weft_gather_mm_params params = {.count = 3};
    double indices[40];
    for (int i = 0; i < 40; i++)
        indices[i] = i * 7 % 3;
    weft_array *x = both_draw(WEFT_DIMS(3, 1, 16), WEFT_FLOAT32, -1, 1),
               *row = both_draw(WEFT_DIMS(24, 1), WEFT_FLOAT32, -1, 1),
               *ids = both_list(indices, WEFT_DIMS(40), WEFT_INT32);
    /* Its elements are 40 apart: the transposed copy of 40 rows. */
    row = weft_add(weft_broadcast_to(row, WEFT_DIMS(24, 40)),
                   weft_zeros(WEFT_DIMS(24, 40), WEFT_FLOAT32));
    weft_array *in[] = {x, weft_expand_dims(weft_swapaxes(row, 0, 1), 1), ids, ids};
    return weft_apply(weft_op_find("gather_mm_sums"), in, 4, &params);
}

static void layouts_that_are_copied(void)
{
    if (both_there())
        both_same(sums_of_columns, NULL, 1e-5, "sums of columns");
}

static void indices_out_of_range(void)
{
    if (!both_there())
        return;
    both_fail(out_of_range, &(bool){false}, "index 9 is out of range");
    both_fail(out_of_range, &(bool){true}, "index -5 is out of range");
    both_fail(nothing_to_select, &(bool){false}, "index 0 is out of range");
    both_fail(nothing_to_select, &(bool){true}, "index 0 is out of range");
}

CHECK_MAIN("vulkan_gathered", CHECK_CASE(products_of_items_sorted_by_matrix),
           CHECK_CASE(decoded_matrices_in_parts), CHECK_CASE(layouts_that_are_copied),
           CHECK_CASE(indices_out_of_range))
