/* tests/nn/test_layers_more.c -- layers.h against PyTorch: small layers, norms, positions. */
#include <math.h>
#include <stdio.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/layers.h"

static const double near = 4e-6; /* sums of some dozens of terms in float32 */

static weft_array *bilinear(weft_module *m, weft_array *const *in)
{
    return weft_nn_bilinear_call(m, in[0], in[1]);
}

static void small_layers_equal_pytorch(void)
{
    if (!golden_open("nn/layers"))
        return;
    against_module("bilinear", weft_nn_bilinear_new(4, 5, 6, true), bilinear, near);
    against_module("prelu_layer", weft_nn_prelu_new(5, 0.25), NULL, near);
    weft_module *layers[] = {weft_nn_linear_new(4, 5, true), weft_nn_activation_new("relu"),
                             weft_nn_linear_new(5, 2, false)};
    against_module("sequential", weft_nn_sequential_of(layers, 3), NULL, near);
    golden_close();
}

/* ---- normalization -------------------------------------------------------------------------- */

static weft_module *training(weft_module *m)
{
    if (m)
        weft_nn_train(m, true);
    return m;
}

static void norms_equal_pytorch(void)
{
    const weft_nn_batch_norm_options loose = {.eps = 1e-3},
                                     bare = {.no_affine = true, .no_statistics = true};
    const weft_nn_group_norm_options torch = {.pytorch_compatible = true};
    if (!golden_open("nn/layers"))
        return;
    against_module("batch_norm_eval", weft_nn_batch_norm_new(6, &loose), NULL, near);
    against_module("batch_norm_train", training(weft_nn_batch_norm_new(6, &loose)), NULL, 1e-5);
    against_module("batch_norm_bare", weft_nn_batch_norm_new(6, &bare), NULL, 1e-5);
    against_module("group_norm_torch", weft_nn_group_norm_new(3, 6, &torch), NULL, 1e-5);
    against_module("group_norm_mlx", weft_nn_group_norm_new(3, 6, NULL), NULL, 1e-5);
    against_module("instance_norm", weft_nn_instance_norm_new(6, 0, true), NULL, 1e-5);
    against_module("instance_norm_bare", weft_nn_instance_norm_new(6, 0, false), NULL, 1e-5);
    golden_close();
}

static float value_of(weft_module *m, const char *name, int i)
{
    float got[2] = {NAN, NAN};
    CHECK_OK(weft_read(*weft_nn_find(m, name), WEFT_FLOAT32, got, 2));
    return got[i];
}

/* Two batches of two channels: means 2 and 6, unbiased variances 2 and 8; then the same again. */
static void batch_norm_keeps_statistics(void)
{
    const weft_nn_batch_norm_options quick = {.momentum = 0.5};
    const float values[] = {1, 4, 3, 8};
    weft_scope_open();
    weft_module *m = training(weft_nn_batch_norm_new(2, &quick));
    weft_nn_slots trainable;
    if (CHECK(m != NULL)) {
        for (int step = 0; step < 2; step++) {
            weft_array *x = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(2, 2));
            CHECK_OK(weft_eval(weft_nn_call(m, x)));
        }
        CHECK_CLOSE(value_of(m, "running_mean", 0), 1.5, 1e-6);
        CHECK_CLOSE(value_of(m, "running_mean", 1), 4.5, 1e-6);
        CHECK_CLOSE(value_of(m, "running_var", 0), 0.25 + 0.5 + 1, 1e-6);
        CHECK_CLOSE(value_of(m, "running_var", 1), 0.25 + 2 + 4, 1e-5);
        weft_nn_freeze(m);
        weft_nn_unfreeze(m);
        if (CHECK_OK(weft_nn_trainable(m, &trainable))) {
            CHECK_EQ_INT(trainable.n, 2);
            weft_nn_slots_free(&trainable);
        }
        CHECK_EQ_INT(weft_nn_count(m, false), 8);
        CHECK_EQ_INT(weft_nn_count(m, true), 4);
        weft_array *one = weft_ones(WEFT_DIMS(1, 2), WEFT_FLOAT32);
        CHECK(!weft_ok(weft_nn_call(m, one)));
        weft_nn_train(m, false);
        CHECK_OK(weft_eval(weft_nn_call(m, one)));
        CHECK_CLOSE(value_of(m, "running_mean", 0), 1.5, 1e-6);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* ---- positions ------------------------------------------------------------------------------ */

static weft_array *seventh(weft_module *m, weft_array *const *in)
{
    return weft_nn_rope_call(m, in[0], 7);
}

static weft_array *second(weft_module *m, weft_array *const *in)
{
    return weft_nn_alibi_call(m, in[0], 2, NULL);
}

/* Angles of weft_rope are float32, whatever x is. */
static void positions_equal_the_paper(void)
{
    const weft_nn_sinusoidal_options turns = {
        .min_freq = 0.01, .max_freq = 2, .cos_first = true, .full_turns = true};
    if (!golden_open("nn/layers"))
        return;
    against_module_single("rope", weft_nn_rope_new(8, false, 0, 0), NULL, near);
    against_module_single("rope_traditional", weft_nn_rope_new(6, true, 100, 0.5), seventh, near);
    against_module("sinusoidal", weft_nn_sinusoidal_new(6, &turns), NULL, 2e-5); /* angles to 40 */
    against_module("alibi", weft_nn_alibi_new(), second, near);
    against_module("alibi_forward", weft_nn_alibi_new(), NULL, near);
    golden_close();
}

/* ---- the others ----------------------------------------------------------------------------- */

/* A channel is kept or dropped as a whole, and each example by itself. */
static void dropout_of_channels(void)
{
    weft_scope_open();
    weft_random_seed(5);
    weft_module *m = training(weft_nn_dropout2d_new(0.5));
    weft_array *x = weft_ones(WEFT_DIMS(20, 3, 4, 50), WEFT_FLOAT32);
    if (CHECK(m != NULL)) {
        weft_array *y = weft_nn_call(m, x);
        weft_array *low = weft_min(y, WEFT_DIMS(1, 2), false);
        weft_array *high = weft_max(y, WEFT_DIMS(1, 2), false);
        weft_array *same = weft_array_equal(low, high, false),
                   *mean = weft_mean(y, WEFT_ALL_AXES, false);
        CHECK_OK(weft_eval_n((weft_array *[]){same, mean}, 2));
        CHECK_EQ_INT(weft_item_int(same), 1);
        CHECK_CLOSE(weft_item(mean), 1, 0.12); /* 1000 draws: deviation 0.03 */
        CHECK(!weft_ok(weft_nn_call(m, weft_ones(WEFT_DIMS(2, 2), WEFT_FLOAT32))));
    }
    weft_nn_free(m);
    m = training(weft_nn_dropout3d_new(0.5));
    if (CHECK(m != NULL)) {
        CHECK(weft_ok(weft_nn_call(m, weft_ones(WEFT_DIMS(2, 3, 4, 5), WEFT_FLOAT32))));
        CHECK(!weft_ok(weft_nn_call(m, weft_ones(WEFT_DIMS(3, 4, 5), WEFT_FLOAT32))));
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static weft_array *doubled(weft_array *x)
{
    return weft_scale(x, 2);
}

static void activations_by_name(void)
{
    weft_scope_open();
    weft_array *x = weft_scalar(-1, WEFT_FLOAT32);
    weft_module *elu = weft_nn_activation_new("elu"), *with = weft_nn_activation_with("elu", 3);
    weft_module *own = weft_nn_activation_of("doubled", doubled), *same = weft_nn_identity_new();
    if (CHECK(elu && with && own && same)) {
        CHECK_CLOSE(weft_item(weft_nn_call(elu, x)), expm1(-1), 1e-6);
        CHECK_CLOSE(weft_item(weft_nn_call(with, x)), 3 * expm1(-1), 1e-6);
        CHECK_CLOSE(weft_item(weft_nn_call(own, x)), -2, 0);
        CHECK(weft_nn_call(same, x) == x);
        char *text = weft_nn_describe(with);
        CHECK_STR(text, "activation elu 3\n");
        weft_free(text);
    }
    weft_nn_free(elu);
    weft_nn_free(with);
    weft_nn_free(own);
    weft_nn_free(same);
    CHECK(weft_nn_activation_new("none such") == NULL);
    CHECK_CONTAINS(weft_error_message(), "none such");
    CHECK(weft_nn_activation_with("relu", 1) == NULL);
    weft_scope_close(NULL);
}

static void refusals(void)
{
    weft_scope_open();
    CHECK(weft_nn_group_norm_new(4, 6, NULL) == NULL);
    CHECK(weft_nn_rope_new(7, false, 0, 0) == NULL);
    CHECK(weft_nn_sinusoidal_new(0, NULL) == NULL);
    CHECK(weft_nn_multi_head_attention_new(7, 2, NULL) == NULL);
    CHECK(weft_nn_encoder_new(2, 7, 2, NULL) == NULL);
    CHECK(weft_nn_sequential_of((weft_module *[]){NULL}, 1) == NULL);
    weft_module *m = weft_nn_instance_norm_new(3, 0, true);
    if (CHECK(m != NULL))
        CHECK(!weft_ok(weft_nn_call(m, weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32))));
    weft_nn_free(m);
    weft_scope_close(NULL);
}

CHECK_MAIN("layers_more", CHECK_CASE(small_layers_equal_pytorch), CHECK_CASE(norms_equal_pytorch),
           CHECK_CASE(batch_norm_keeps_statistics), CHECK_CASE(positions_equal_the_paper),
           CHECK_CASE(dropout_of_channels), CHECK_CASE(activations_by_name), CHECK_CASE(refusals))
