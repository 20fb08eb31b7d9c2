/* tests/ops/test_attention_bias.c -- attention with a learned bias added to the scores: values and
 * gradients against torch in float64, and through transforms. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "tests/support/arrays.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static const char *const labels[] = {"q", "k", "v", "bias"};

typedef struct scene {
    const char *name;
    weft_attention_options options;
} scene;

static const scene scenes[] = {
    {"full", {.causal = false}},     {"per_head", {.causal = true}}, {"per_key", {.causal = false}},
    {"per_batch", {.softcap = 1.5}}, {"one_row", {.causal = true}},  {"scalar", {.causal = false}},
    {"hidden", {.causal = false}},
};

static int attend(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    weft_attention_options options = *(const weft_attention_options *)context;
    options.mask = in[3];
    out[0] = weft_attention(in[0], in[1], in[2], &options);
    return 1;
}

static weft_array *tensor(const char *name, const char *part, weft_dtype dtype)
{
    char text[64];
    snprintf(text, sizeof text, "%s/%s", name, part);
    return golden_as(text, dtype);
}

static void against(const scene *s, weft_dtype dtype, double tolerance)
{
    weft_attention_options options = s->options;
    weft_array *in[4], *grads[4], *o, *ct = tensor(s->name, "ct", dtype);
    char text[64];
    weft_scope_open();
    for (int i = 0; i < 4; i++) {
        in[i] = tensor(s->name, labels[i], dtype);
    }
    CHECK_OK(weft_vjp(attend, &options, in, 4, &ct, &o, 1, grads));
    snprintf(text, sizeof text, "%s/o", s->name);
    golden_check(o, text, tolerance);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%s/d_%s", s->name, labels[i]);
        golden_check(grads[i], text, tolerance);
    }
    weft_scope_close(NULL);
}

/* Sums of some ten products around 1: float32 by its rounding, float64 likewise. */
static void gradients_equal_torch(void)
{
    if (!golden_open("nn/attention")) {
        return;
    }
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        against(&scenes[i], WEFT_FLOAT32, 4e-6);
        against(&scenes[i], WEFT_FLOAT64, 1e-13);
    }
    golden_close();
}

/* ALiBi whose slopes are learned: bias = -slope[h] * distance. */
static int alibi(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    const int64_t L = weft_dim(in[0], 1);
    weft_array *at = weft_arange(0, (double)L, 1, weft_dtype_of(in[3]));
    weft_array *distance = weft_subtract(weft_expand_dims(at, 1), at);
    weft_array *slope = weft_reshape(in[3], WEFT_DIMS(-1, 1, 1));
    weft_attention_options options = {.causal = true,
                                      .mask = weft_negative(weft_multiply(slope, distance))};
    out[0] = weft_attention(in[0], in[1], in[2], &options);
    (void)context;
    return 1;
}

static void learned_slopes(void)
{
    weft_scope_open();
    weft_array *in[4];
    for (int i = 0; i < 3; i++) {
        in[i] = arrays_sine(i ? WEFT_DIMS(2, 5, 2, 4) : WEFT_DIMS(2, 5, 4, 4), i, WEFT_FLOAT64);
    }
    in[3] = weft_from_data((double[]){0.5, 0.25, 0.125, 0.0625}, WEFT_FLOAT64, WEFT_DIMS(4));
    const weft_gradcheck_options options = {
        .tolerance = 2e-6, .seed = 3, .max_elements = 20, .forward = true, .second = true};
    CHECK_OK(weft_gradcheck(alibi, NULL, in, 4, &options));
    weft_scope_close(NULL);
}

/* In 16 bits the bias's gradient is summed in float32 and rounded once: within an ulp of it. */
static void narrow_biases(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int d = 0; d < 2; d++) {
        weft_scope_open();
        weft_attention_options options = {0};
        weft_array *in[4], *wide[4], *got[4], *want[4], *o;
        for (int i = 0; i < 4; i++) {
            in[i] =
                arrays_sine(i < 3 ? WEFT_DIMS(1, 6, 2, 4) : WEFT_DIMS(1, 2, 1, 6), i, dtypes[d]);
            wide[i] = weft_astype(in[i], WEFT_FLOAT32);
        }
        weft_array *ct = weft_ones(WEFT_DIMS(1, 6, 2, 4), dtypes[d]);
        CHECK_OK(weft_vjp(attend, &options, in, 4, &ct, &o, 1, got));
        ct = weft_astype(ct, WEFT_FLOAT32);
        CHECK_OK(weft_vjp(attend, &options, wide, 4, &ct, &o, 1, want));
        CHECK_EQ_INT(weft_dtype_of(got[3]), dtypes[d]);
        const double ulp = d == 0 ? 0x1p-10 : 0x1p-7;
        /* o is stored in 16 bits, and rowsum(do o) is read from it. */
        weft_array *near =
            weft_allclose(weft_astype(got[3], WEFT_FLOAT32), want[3], ulp, 6 * ulp, false);
        CHECK_EQ_INT(weft_item_int(near), 1);
        weft_scope_close(NULL);
    }
}

/* No keys, and no queries. */
static void edges(void)
{
    weft_scope_open();
    weft_attention_options options = {0};
    const weft_dims queries[] = {WEFT_DIMS(1, 3, 2, 4), WEFT_DIMS(1, 0, 2, 4)};
    for (int i = 0; i < 2; i++) {
        weft_array *in[] = {weft_ones(queries[i], WEFT_FLOAT32),
                            weft_ones(WEFT_DIMS(1, 3 * i, 2, 4), WEFT_FLOAT32),
                            weft_ones(WEFT_DIMS(1, 3 * i, 2, 4), WEFT_FLOAT32),
                            weft_ones(WEFT_DIMS(2, 1, 3 * i), WEFT_FLOAT32)};
        weft_array *ct = weft_ones(queries[i], WEFT_FLOAT32), *o, *grads[4];
        CHECK_OK(weft_vjp(attend, &options, in, 4, &ct, &o, 1, grads));
        CHECK_EQ_INT(weft_item_int(weft_any(grads[3], WEFT_ALL_AXES, false)), 0);
    }
    weft_scope_close(NULL);
}

CHECK_MAIN("attention_bias", CHECK_CASE(gradients_equal_torch), CHECK_CASE(learned_slopes),
           CHECK_CASE(narrow_biases), CHECK_CASE(edges))
