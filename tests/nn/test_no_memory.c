/* tests/nn/test_no_memory.c -- each allocation of building, calling, differentiating, quantizing
 * and saving layers fails once: every failure is reported and nothing leaks (leaks are checked in
 * the sanitizer build). */
#include "tests/check.h"
#include "weft/layers.h"
#include "weft/nn_tools.h"

static weft_array *loss(void *context)
{
    weft_array *x = weft_full(WEFT_DIMS(1, 4, 4), 0.5, WEFT_FLOAT32);
    return weft_sum(weft_nn_call(context, x), WEFT_ALL_AXES, false);
}

/* Takes m. */
static weft_status use(weft_module *m)
{
    weft_nn_gradients gradients;
    if (m == NULL)
        return weft_error_status();
    weft_nn_train(m, true);
    weft_scope_open();
    weft_array *value = weft_nn_value_and_grad(m, loss, m, &gradients);
    weft_status status = weft_eval(value);
    if (status == WEFT_OK)
        status = weft_eval_n(gradients.arrays, gradients.parameters.n);
    weft_nn_gradients_free(&gradients);
    weft_scope_close(NULL);
    if (status == WEFT_OK)
        status = weft_nn_eval(m);
    if (status == WEFT_OK)
        status = weft_nn_freeze_some(m, &(weft_nn_choice){.path = "layers.0"});
    if (status == WEFT_OK)
        status = weft_nn_quantize(m, &(weft_nn_quantize_options){.format.group_size = 32});
    if (status == WEFT_OK)
        status = weft_nn_save(m, check_temporary("layers.safetensors"), NULL);
    weft_nn_free(m);
    return status;
}

static weft_module *sequences(void)
{
    const weft_nn_transformer_options options = {.mlp_dims = 32, .checkpoint = true};
    weft_module *parts[] = {weft_nn_encoder_new(1, 4, 2, &options), weft_nn_gru_new(4, 4, true),
                            weft_nn_lstm_new(4, 4, true), weft_nn_rnn_new(4, 4, true, NULL),
                            weft_nn_rope_new(4, false, 0, 0)};
    return weft_nn_sequential_of(parts, 5);
}

static weft_module *images(void)
{
    const weft_nn_upsample_options linear = {.mode = WEFT_UPSAMPLE_LINEAR};
    weft_module *parts[] = {weft_nn_conv1d_new(4, 4, WEFT_DIMS(2), NULL),
                            weft_nn_batch_norm_new(4, NULL),
                            weft_nn_activation_new("gelu"),
                            weft_nn_group_norm_new(2, 4, NULL),
                            weft_nn_dropout_new(0.5),
                            weft_nn_max_pool1d_new(WEFT_DIMS(2), WEFT_DIMS(1), WEFT_SCALAR),
                            weft_nn_upsample_new((double[]){2}, 1, &linear)};
    return weft_nn_sequential_of(parts, 7);
}

/* At most some hundreds of the allocations, evenly spaced: the others are in the same loops. */
static void fails_everywhere(weft_module *(*make)(void))
{
    weft_scope_open();
    weft_memory_set_cache_limit(0); /* so that buffers are allocations too */
    CHECK_OK(use(make()));
    weft_memory_fail_at(0);
    CHECK_OK(use(make()));
    const uint64_t count = weft_memory_fail_at(0), step = count / 700 + 1;
    int failures = 0, tries = 0;
    CHECK(count > 100);
    for (uint64_t n = 1; n <= count; n += step) {
        weft_scope_open();
        weft_memory_fail_at(n);
        failures += use(make()) != WEFT_OK;
        weft_memory_fail_at(0);
        weft_scope_close(NULL);
        tries++;
    }
    /* Few failures may be survived: those with a fallback. */
    CHECK(failures > tries * 9 / 10);
    CHECK_OK(use(make()));
    weft_scope_close(NULL);
}

static void layers_of_sequences(void)
{
    fails_everywhere(sequences);
}

static void layers_of_images(void)
{
    fails_everywhere(images);
}

CHECK_MAIN("nn_no_memory", CHECK_CASE(layers_of_sequences), CHECK_CASE(layers_of_images))
