/* tests/vulkan/test_norms.c -- norms and rotary embeddings on the Vulkan device against the CPU's,
 * on rows longer and shorter than a workgroup. */
#include <math.h>
#include <stdio.h>

#include "tests/vulkan/both.h"
#include "weft/op.h"
#include "weft/op_params.h"

static double tolerance_of(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT64    ? 1e-13
           : dtype == WEFT_FLOAT16  ? 0x1p-10
           : dtype == WEFT_BFLOAT16 ? 0x1p-7
                                    : 2e-6;
}

/* ---- Norms ---------------------------------------------------------------------------------- */

typedef enum lie { DENSE, SLICED, HEADS } lie;

typedef struct norm {
    bool layer;
    weft_norm_params params;
    weft_dtype dtype, weight_dtype, ct_dtype;
    int64_t rows, E;
    lie lie;
    int out; /* of the gradient */
} norm;

/* (rows, E); SLICED out of longer rows from the second element on; HEADS: (2, rows / 6, 3, E), some
 * heads of more. */
static weft_array *rows_of(const norm *n, weft_dtype dtype, double lo, double hi)
{
    if (n->lie == SLICED) {
        weft_array *x = both_draw(WEFT_DIMS(n->rows, n->E + 3), dtype, lo, hi);
        return weft_slice_axis(x, 1, 1, n->E + 1);
    }
    if (n->lie == HEADS) {
        weft_array *x = both_draw(WEFT_DIMS(2, n->rows / 6, 5, n->E), dtype, lo, hi);
        return weft_slice_axis(x, 2, 1, 4);
    }
    return both_draw(WEFT_DIMS(n->rows, n->E), dtype, lo, hi);
}

static weft_array *make_norm(const void *context)
{
    const norm *n = context;
    weft_array *in[3] = {rows_of(n, n->dtype, -2, 3)};
    int count = 1;
    if (n->params.has_weight) {
        in[count++] = both_draw(WEFT_DIMS(n->E), n->weight_dtype, -1, 2);
    }
    if (n->params.has_bias) {
        in[count++] = both_draw(WEFT_DIMS(n->E), n->weight_dtype, -1, 1);
    }
    return weft_apply(weft_op_find(n->layer ? "layer_norm" : "rms_norm"), in, count, &n->params);
}

static weft_array *make_norm_vjp(const void *context)
{
    const norm *n = context;
    weft_array *in[3] = {rows_of(n, n->dtype, -2, 3)};
    int count = 1;
    if (n->params.has_weight) {
        in[count++] = both_draw(WEFT_DIMS(n->E), n->weight_dtype, -1, 2);
    }
    in[count++] = rows_of(n, n->ct_dtype, -1, 1);
    const char *op = n->layer ? "layer_norm_vjp" : "rms_norm_vjp";
    return weft_pick(weft_apply(weft_op_find(op), in, count, &n->params), n->out);
}

static void check_norm(norm n)
{
    char label[120];
    snprintf(label, sizeof label, "%s %s %lld x %lld", n.layer ? "layer" : "rms",
             weft_dtype_name(n.dtype), (long long)n.rows, (long long)n.E);
    /* The CPU adds up a row in an order that depends on the instruction set, not as a tree. */
    double row = fmax(1, sqrt((double)n.E) / 32);
    both_same(make_norm, &n, row * tolerance_of(n.dtype), label);
    int outs = n.params.frozen ? 1 : 1 + n.params.has_weight + n.params.has_bias;
    for (n.out = 0; n.out < outs; n.out++) {
        char part[200];
        snprintf(part, sizeof part, "%s, gradient %d", label, n.out);
        weft_dtype dtype = n.out == 0 || n.dtype == WEFT_FLOAT64 ? n.dtype : WEFT_FLOAT32;
        /* Sums over rows are rounded in another order. */
        double sums = n.out == 0 ? 0 : sqrt((double)n.rows) / 2;
        both_same(make_norm_vjp, &n, fmax(2 * row, sums) * tolerance_of(dtype), part);
    }
}

static void norms(bool layer)
{
    static const struct {
        int64_t rows, E;
        lie lie;
    } shapes[] = {{1, 7, DENSE},      {3, 4096, DENSE},  {2, 16384, SLICED}, {5, 20001, DENSE},
                  {300, 130, SLICED}, {6000, 64, HEADS}, {4096, 128, DENSE}, {40000, 8, DENSE}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_norm((norm){
            .layer = layer,
            .params = {.eps = 1e-5, .offset = layer ? 0 : 1, .has_weight = true, .has_bias = layer},
            .dtype = WEFT_FLOAT32,
            .weight_dtype = WEFT_FLOAT32,
            .ct_dtype = WEFT_FLOAT32,
            .rows = shapes[i].rows,
            .E = shapes[i].E,
            .lie = shapes[i].lie});
    }
}

static void rms_norm_has_any_shape(void)
{
    if (both_there()) {
        norms(false);
    }
}

static void layer_norm_has_any_shape(void)
{
    if (both_there()) {
        norms(true);
    }
}

static void norms_have_any_dtype(void)
{
    static const weft_dtype dtypes[][3] = {{WEFT_FLOAT16, WEFT_FLOAT16, WEFT_FLOAT16},
                                           {WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_BFLOAT16},
                                           {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16},
                                           {WEFT_FLOAT64, WEFT_FLOAT32, WEFT_FLOAT64}};
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (int layer = 0; layer < 2; layer++) {
            norm n = {.layer = layer,
                      .params = {.eps = 1e-5, .has_weight = true, .has_bias = layer},
                      .dtype = dtypes[i][0],
                      .weight_dtype = dtypes[i][1],
                      .ct_dtype = dtypes[i][2],
                      .rows = 90,
                      .E = 200,
                      .lie = SLICED};
            check_norm(n);
            n.params = (weft_norm_params){.eps = 1e-5, .frozen = true};
            check_norm(n);
        }
    }
}

static weft_array *make_unbounded(const void *context)
{
    const bool *layer = context;
    static const double values[] = {1, INFINITY, 2, NAN, 1, 2, 3, 4, 5, 0, 0, 0};
    weft_norm_params params = {.eps = 1e-5};
    weft_array *x = both_list(values, WEFT_DIMS(4, 3), WEFT_FLOAT32);
    return weft_apply(weft_op_find(*layer ? "layer_norm" : "rms_norm"), &x, 1, &params);
}

static void norms_of_infinity_and_nan(void)
{
    if (both_there()) {
        both_same(make_unbounded, &(bool){false}, 1e-6, "rms_norm of infinity and NaN");
        both_same(make_unbounded, &(bool){true}, 1e-6, "layer_norm of infinity and NaN");
    }
}

/* Two evaluations have the same bits. */
static void sums_over_rows_have_one_order(void)
{
    if (!both_there()) {
        return;
    }
    norm n = {.params = {.eps = 1e-5, .has_weight = true},
              .dtype = WEFT_FLOAT32,
              .weight_dtype = WEFT_FLOAT32,
              .ct_dtype = WEFT_FLOAT32,
              .rows = 5000,
              .E = 70,
              .out = 1};
    static float sums[2][70];
    weft_set_default_device(weft_device_get("vulkan"));
    weft_scope_open();
    weft_array *in[] = {rows_of(&n, WEFT_FLOAT32, -2, 3),
                        both_draw(WEFT_DIMS(70), WEFT_FLOAT32, -1, 2),
                        rows_of(&n, WEFT_FLOAT32, -1, 1)};
    for (int i = 0; i < 3; i++) {
        weft_keep(in[i]);
    }
    for (int i = 0; i < 2; i++) {
        weft_array *all = weft_apply(weft_op_find("rms_norm_vjp"), in, 3, &n.params);
        CHECK_OK(weft_read(weft_pick(all, 1), WEFT_FLOAT32, sums[i], 70));
    }
    for (int i = 0; i < 3; i++) {
        weft_drop(in[i]);
    }
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
    CHECK_BYTES(sums[1], sums[0], sizeof sums[0]);
}

/* ---- Rotary embedding ----------------------------------------------------------------------- */

typedef struct rope {
    weft_rope_params params;
    weft_dtype dtype, position_dtype;
    int64_t B, L, H, D, pairs;
    double first, last; /* positions */
    bool rows;          /* positions (B, L) */
    bool sliced;        /* heads of more */
} rope;

static weft_array *make_rope(const void *context)
{
    const rope *r = context;
    weft_array *x = both_draw(WEFT_DIMS(r->B, r->L, r->H + 2 * r->sliced, r->D), r->dtype, -2, 2);
    x = r->sliced ? weft_slice_axis(x, 2, 1, r->H + 1) : x;
    weft_dims places = r->rows ? WEFT_DIMS(r->B, r->L) : WEFT_DIMS(r->L);
    weft_array *in[] = {x, both_draw(places, r->position_dtype, r->first, r->last),
                        both_draw(WEFT_DIMS(r->pairs), WEFT_FLOAT32, 0, 1)};
    return weft_apply(weft_op_find("rope"), in, 3, &r->params);
}

static void rope_agrees_with_the_cpu(void)
{
    static const weft_rope_params halves = {.amplitude = 1};
    static const weft_rope_params pairs = {.interleaved = true, .amplitude = 1.5};
    static const weft_rope_params back = {.inverse = true, .amplitude = 0.5};
    const rope cases[] = {
        {halves, WEFT_FLOAT32, WEFT_INT32, 2, 70, 9, 64, 32, 0, 4096, false, false},
        {pairs, WEFT_FLOAT32, WEFT_INT64, 3, 33, 5, 80, 20, 0, 200000, true, true},
        {back, WEFT_FLOAT32, WEFT_INT64, 1, 50, 4, 128, 64, -1e6, 1e6, false, true},
        {halves, WEFT_FLOAT32, WEFT_INT64, 1, 40, 1, 16, 8, -1e18, 1e18, false, false},
        {halves, WEFT_FLOAT32, WEFT_UINT64, 1, 40, 1, 16, 8, 0, 9e18, false, false},
        {halves, WEFT_FLOAT32, WEFT_UINT8, 2, 40, 1, 6, 0, 0, 200, true, false},
        {halves, WEFT_FLOAT16, WEFT_INT16, 2, 19, 3, 32, 16, -300, 300, true, true},
        {pairs, WEFT_BFLOAT16, WEFT_INT8, 2, 19, 6, 33, 15, -100, 100, false, true},
        {halves, WEFT_FLOAT64, WEFT_UINT32, 2, 19, 3, 32, 16, 0, 4e9, true, true},
    };
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char label[40];
        snprintf(label, sizeof label, "rope, case %d", (int)i);
        both_same(make_rope, &cases[i], tolerance_of(cases[i].dtype), label);
    }
}

CHECK_MAIN("vulkan_norms", CHECK_CASE(rms_norm_has_any_shape), CHECK_CASE(layer_norm_has_any_shape),
           CHECK_CASE(norms_have_any_dtype), CHECK_CASE(norms_of_infinity_and_nan),
           CHECK_CASE(sums_over_rows_have_one_order), CHECK_CASE(rope_agrees_with_the_cpu))
