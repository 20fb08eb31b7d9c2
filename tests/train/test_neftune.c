/* tests/train/test_neftune.c -- NEFTune: noise on embeddings, only in updates. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/runs.h"
#include "weft/nn_tools.h"

enum { EMBED = 64 };

static const char *const configuration =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 2, "
    "\"vocab_size\": 16, \"rms_norm_eps\": 1e6, \"tie_word_embeddings\": true}";

static weft_array *zeros(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    return strstr(item->path, "norm") ? value : weft_zeros(weft_shape(value), WEFT_FLOAT32);
}

/* A model whose weights are 0 and whose norm divides by 1000: its hidden states are the noise. */
static weft_model *zero_model(void)
{
    weft_config *config = NULL;
    weft_model *model = NULL;
    if (CHECK_OK(weft_config_parse(configuration, "neftune", &config)) &&
        CHECK_OK(weft_model_new(config, &model)))
        CHECK_OK(weft_nn_apply(weft_model_module(model), zeros, NULL, NULL));
    weft_config_free(config);
    return model;
}

/* The noise (B, L, E) on float32 embeddings. */
static weft_array *noise_of(weft_model *model, int64_t B, int64_t L, double alpha)
{
    const weft_model_call call = {.embedding_noise = alpha};
    weft_array *tokens = weft_zeros(WEFT_DIMS(B, L), WEFT_INT32);
    return weft_scale(weft_model_hidden(model, tokens, &call), 1000);
}

static double mean_of(weft_array *x)
{
    return weft_item(weft_mean(x, WEFT_ALL_AXES, false));
}

static void check_moments(weft_model *model, int64_t B, int64_t L, double alpha)
{
    weft_scope_open();
    weft_array *noise = noise_of(model, B, L, alpha);
    CHECK_OK(weft_eval(noise));
    const double bound = alpha / sqrt((double)(L * EMBED)), n = (double)(B * L * EMBED);
    const double largest = weft_item(weft_max(weft_abs(noise), WEFT_ALL_AXES, false));
    weft_array *squares = weft_square(weft_scale(noise, 1 / bound));
    CHECK(largest <= bound * (1 + 1e-6)); /* the division by the norm rounds */
    CHECK(largest > bound * (1 - 20 / n));
    /* Five standard deviations of the means of u, u^2 and u^4, u uniform in +-1. */
    CHECK_CLOSE(mean_of(noise) / bound, 0, 5 * sqrt(1 / 3.0 / n));
    CHECK_CLOSE(mean_of(squares), 1 / 3.0, 5 * sqrt(4 / 45.0 / n));
    CHECK_CLOSE(mean_of(weft_square(squares)), 0.2, 5 * sqrt(16 / 225.0 / n));
    weft_scope_close(NULL);
}

static void noise_is_uniform_and_shrinks_with_the_length(void)
{
    weft_model *model = zero_model();
    weft_random_seed(1);
    for (int64_t L = 1; model && L <= 64; L *= 8) {
        check_moments(model, 512 / L, L, 5);
        check_moments(model, 7, L, 15);
    }
    weft_model_free(model);
}

static void noise_is_drawn_from_the_key(void)
{
    weft_model *model = zero_model();
    if (model == NULL)
        return;
    weft_scope_open();
    weft_array *noise[3];
    weft_device *cpu = weft_device_get("cpu");
    weft_random_seed(7);
    noise[0] = noise_of(model, 2, 4, 5);
    noise[1] = noise_of(model, 2, 4, 5);
    weft_random_seed(7);
    noise[2] = noise_of(model, 2, 4, 5);
    for (int i = 0; i < 3; i++)
        noise[i] = weft_to(noise[i], cpu);
    CHECK_OK(weft_eval_n(noise, 3));
    const size_t size = (size_t)weft_nbytes(noise[0]);
    CHECK_BYTES(weft_data(noise[2]), weft_data(noise[0]), size);
    CHECK(memcmp(weft_data(noise[1]), weft_data(noise[0]), size) != 0);
    weft_array *none = noise_of(model, 2, 4, 0);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(none), WEFT_ALL_AXES, false)), 0, 0);
    CHECK_CONTAINS(weft_error(noise_of(model, 2, 4, -1)), "noise on embeddings: -1");
    CHECK_CONTAINS(weft_error(noise_of(model, 2, 4, NAN)), "noise on embeddings");
    weft_scope_close(NULL);
    weft_model_free(model);
}

/* Losses of updates change, validation before any update and with the rate 0 does not. */
static void validation_has_no_noise(void)
{
    history plain = {.n = 0}, noisy = {.n = 0}, again = {.n = 0}, compiled = {.n = 0};
    weft_trainer_options o = {.steps = 3, .lr = 1e-30, .validate_every = 1, .weight_decay = -1};
    CHECK_OK(run_recipe(o, true, &plain, NULL));
    o.neftune = 5;
    CHECK_OK(run_recipe(o, true, &noisy, NULL));
    CHECK_OK(run_recipe(o, true, &again, NULL));
    o.compile = true;
    CHECK_OK(run_recipe(o, true, &compiled, NULL));
    for (int i = 0; i <= 3 && noisy.n == 4; i++) {
        CHECK_CLOSE(noisy.reports[i].validation_loss, plain.reports[i].validation_loss, 1e-12);
        CHECK_CLOSE(compiled.reports[i].validation_loss, plain.reports[i].validation_loss, 1e-12);
        if (i == 0)
            continue;
        CHECK(fabs(noisy.reports[i].loss - plain.reports[i].loss) > 1e-4);
        CHECK_CLOSE(again.reports[i].loss, noisy.reports[i].loss, 0);
        CHECK(fabs(compiled.reports[i].loss - plain.reports[i].loss) > 1e-4);
    }
}

static void what_is_refused(void)
{
    weft_model *model = recipe_model(run_base, "initial");
    const double bad[] = {-1, NAN, INFINITY};
    for (int i = 0; model && i < 3; i++) {
        weft_trainer *trainer = NULL;
        const weft_trainer_options o = {.neftune = bad[i]};
        CHECK_STATUS(weft_trainer_new(model, &o, &trainer), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "neftune");
        weft_trainer_free(trainer);
    }
    weft_model_free(model);
}

CHECK_MAIN("neftune", CHECK_CASE(noise_is_uniform_and_shrinks_with_the_length),
           CHECK_CASE(noise_is_drawn_from_the_key), CHECK_CASE(validation_has_no_noise),
           CHECK_CASE(what_is_refused))
