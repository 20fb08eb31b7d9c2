/* tests/nn/test_dora.c -- adapters with magnitudes (DoRA), and the factors that adapters cache. */
#include <math.h>
#include <stdlib.h>

#include "nn/lora.h"
#include "tests/check.h"
#include "tests/nn/adapted.h"
#include "weft/quantize.h"

static weft_module *dora_net(double dropout)
{
    weft_module *m = adapted_net();
    if (CHECK(m != NULL))
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.dora = true, .dropout = dropout}));
    return m;
}

/* Each row of W + scale B A with the norm that the magnitude says. */
static void dora_scales_rows_to_their_magnitudes(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0);
    weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
    if (CHECK(l != NULL && l->lora_magnitude_vector != NULL)) {
        weft_nn_linear *base = (weft_nn_linear *)l->base;
        weft_array *plain = weft_nn_call(l->base, adapted_input());
        CHECK_CLOSE(adapted_difference(weft_nn_call(&l->module, adapted_input()), plain), 0, 1e-5);
        adapted_fill(m);
        CHECK_OK(weft_set(&l->lora_magnitude_vector,
                          weft_scale(weft_arange(1, 17, 1, WEFT_FLOAT32), 0.25)));
        weft_array *W =
            weft_add(base->weight, weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale));
        weft_array *norms = weft_sqrt(weft_sum(weft_square(W), WEFT_DIMS(-1), true)); /* (out, 1) */
        W = weft_multiply(weft_divide(W, norms), weft_expand_dims(l->lora_magnitude_vector, 1));
        weft_array *expected = weft_linear(adapted_input(), W, base->bias);
        CHECK_CLOSE(adapted_difference(weft_nn_call(&l->module, adapted_input()), expected), 0,
                    1e-5);
        CHECK(adapted_difference(plain, expected) > 0.1);
        /* Many rows are computed as one sum of products. */
        weft_array *rows = weft_random_normal(NULL, WEFT_DIMS(70, 16), 0, 1, WEFT_FLOAT32);
        expected = weft_linear(rows, W, base->bias);
        CHECK_CLOSE(adapted_difference(weft_nn_call(&l->module, rows), expected), 0, 1e-5);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void dora_merges_and_unmerges(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0);
    adapted_fill(m);
    weft_array *adapted = weft_keep(weft_nn_call(m, adapted_input()));
    CHECK_OK(weft_eval(adapted));
    weft_array *weight = weft_keep(*weft_nn_find(m, "layers.0.q_proj.weight"));
    CHECK_OK(weft_nn_lora_merge(m));
    CHECK_CLOSE(adapted_difference(adapted, weft_nn_call(m, adapted_input())), 0, 1e-5);
    CHECK(adapted_difference(weight, *weft_nn_find(m, "layers.0.q_proj.weight")) > 0.001);
    CHECK_OK(weft_nn_lora_unmerge(m));
    CHECK_CLOSE(adapted_difference(weight, *weft_nn_find(m, "layers.0.q_proj.weight")), 0, 1e-6);
    CHECK_CLOSE(adapted_difference(adapted, weft_nn_call(m, adapted_input())), 0, 1e-5);
    weft_drop(weight);
    weft_drop(adapted);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* Cached factors have the same bits as computed ones, and are used only for the same arrays. */
static void kept_factors_are_of_the_current_arrays(void)
{
    weft_scope_open();
    for (int dora = 0; dora < 2; dora++) {
        weft_module *m = dora ? dora_net(0) : adapted_net();
        if (!dora)
            CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.alpha = 13}));
        adapted_fill(m);
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
        weft_array *computed = weft_nn_call(m, adapted_input()), *B = weft_keep(l->lora_B);
        CHECK_OK(weft_eval(computed));
        CHECK_OK(weft__lora_settle(m));
        CHECK(l->ready[0] != NULL && (l->factor != NULL) == (dora == 1));
        CHECK((l->kept_of[0] != NULL) == (dora == 1)); /* else the weight may be freed */
        weft_array *ready[2];
        weft__lora_ready(l, WEFT_FLOAT32, ready);
        CHECK(ready[0] == l->ready[0] && ready[1] == l->ready[1]);
        weft__lora_ready(l, WEFT_BFLOAT16, ready);
        CHECK(ready[1] != l->ready[1] && weft_dtype_of(ready[1]) == WEFT_BFLOAT16);
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()), computed), 0, 0);
        CHECK_OK(weft_set(&l->lora_B, weft_scale(B, 2)));
        CHECK(adapted_difference(weft_nn_call(m, adapted_input()), computed) > 1e-3);
        CHECK_OK(weft_set(&l->lora_B, weft_copy(B)));
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()), computed), 0, 0);
        weft__lora_unsettle(m);
        CHECK(l->ready[0] == NULL && l->factor == NULL && l->kept_of[1] == NULL);
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()), computed), 0, 0);
        weft_drop(B);
        weft_nn_free(m);
    }
    weft_scope_close(NULL);
}

/* PEFT's formula, W x + bias + (g - 1) W d + g scale B A d, where d is x with dropout. */
static void expect_dropped(weft_nn_lora_linear *l, weft_array *x)
{
    const weft_nn_linear *base = (weft_nn_linear *)l->base;
    weft_array *change = weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale);
    weft_array *squares = weft_square(weft_add(base->weight, change)); /* (out, in) */
    weft_array *norms = weft_sqrt(weft_sum(squares, WEFT_DIMS(-1), false));
    weft_array *g = weft_divide(l->lora_magnitude_vector, norms);
    weft_random_seed(5);
    weft_array *dropped = weft_nn_call(l->lora_dropout, x);
    CHECK(adapted_difference(dropped, x) >
          0.1); /* evaluates the mask before the same mask is drawn again */
    weft_random_seed(5);
    weft_array *more =
        weft_multiply(weft_linear(dropped, base->weight, NULL), weft_add_scalar(g, -1));
    more = weft_add(more, weft_multiply(weft_linear(dropped, change, NULL), g));
    weft_array *expected = weft_add(weft_linear(x, base->weight, base->bias), more);
    CHECK_CLOSE(adapted_difference(weft_nn_call(&l->module, x), expected), 0, 2e-5);
}

static void dora_drops_out_the_input_that_it_scales(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0.5);
    adapted_fill(m);
    weft_nn_train(m, true);
    weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
    if (CHECK(l != NULL)) {
        CHECK_OK(weft_set(&l->lora_magnitude_vector, weft_scale(l->lora_magnitude_vector, 3)));
        expect_dropped(l, adapted_input());
        expect_dropped(l, weft_random_normal(NULL, WEFT_DIMS(70, 16), 0, 1, WEFT_FLOAT32));
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

enum { IN = 1024, OUT = 4100 };

/* y for the first unit vector, with the norms in double precision. */
static void large_result(const weft_nn_lora_linear *l, double y[OUT])
{
    weft_array *W = weft_astype(*weft_nn_find(l->base, "weight"), WEFT_FLOAT32);
    W = weft_add(W, weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale));
    float *rows = malloc(sizeof(float[OUT][IN])), m[OUT];
    CHECK_OK(weft_read(W, WEFT_FLOAT32, rows, OUT * IN));
    CHECK_OK(weft_read(l->lora_magnitude_vector, WEFT_FLOAT32, m, OUT));
    for (int64_t i = 0; i < OUT; i++) {
        double squares = 0;
        for (int64_t k = 0; k < IN; k++)
            squares += (double)rows[i * IN + k] * (double)rows[i * IN + k];
        y[i] = (double)m[i] / sqrt(squares) * (double)rows[i * IN];
    }
    free(rows);
}

/* The norms of a large matrix are computed for some of its rows at a time, here for one half after
 * the other. */
static void check_large(weft_dtype dtype, const char *encoding)
{
    static const char *const target = "0";
    const weft_nn_lora_options o = {.targets = &target, .n_targets = 1, .dora = true};
    const weft_encoding *e = encoding ? weft_encoding_find(encoding) : NULL;
    weft_module *list = weft_nn_list_new(1), *linear = weft_nn_linear_new(IN, OUT, false);
    CHECK(!encoding || e);
    weft_scope_open();
    weft_random_seed(4);
    weft_array *W = weft_random_normal(NULL, WEFT_DIMS(OUT, IN), 0, 1, WEFT_FLOAT32);
    W = weft_astype(W, dtype);
    CHECK_OK(weft_set(&((weft_nn_linear *)linear)->weight, e ? weft_encode(W, e) : W));
    weft_nn_list_append(list, linear);
    if (CHECK_OK(weft_nn_lora_inject(list, &o))) {
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_list_at(list, 0);
        weft_array *x = weft_equal_scalar(weft_arange(0, IN, 1, WEFT_FLOAT32), 0);
        x = weft_astype(weft_reshape(x, WEFT_DIMS(1, IN)), WEFT_FLOAT32);
        double expected[OUT];
        float y[OUT];
        for (int filled = 0; filled < 2; filled++) {
            large_result(l, expected);
            CHECK_OK(weft_read(weft_nn_call(&l->module, x), WEFT_FLOAT32, y, OUT));
            for (int i = 0; i < OUT; i++)
                CHECK_CLOSE((double)y[i], expected[i], 5e-6);
            adapted_fill(list);
        }
    }
    weft_nn_free(list);
    weft_scope_close(NULL);
}

static void dora_takes_large_matrices_in_parts(void)
{
    check_large(WEFT_FLOAT32, NULL);
    check_large(WEFT_BFLOAT16, NULL);
    check_large(WEFT_FLOAT32, "affine-4-64-float32");
    check_large(WEFT_FLOAT32, "q4_k");
}

CHECK_MAIN("dora", CHECK_CASE(dora_scales_rows_to_their_magnitudes),
           CHECK_CASE(dora_merges_and_unmerges), CHECK_CASE(kept_factors_are_of_the_current_arrays),
           CHECK_CASE(dora_drops_out_the_input_that_it_scales),
           CHECK_CASE(dora_takes_large_matrices_in_parts))
