/* tests/train/test_adapter_tokens.c -- rows of trained tokens: over tied and encoded embeddings,
 * saved, loaded, merged, and what is refused. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

static const int32_t tokens[] = {4, 9, 2};
enum { N_TOKENS = 3 };

static weft_model *model_of(const char *name, bool quantized)
{
    char path[128];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    if (CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)) && quantized)
        CHECK_OK(weft_nn_quantize(weft_model_module(model), NULL));
    return model;
}

static weft_array *logits_of(weft_model *model, const int32_t *ids, int n)
{
    weft_array *in = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    return weft_astype(weft_model_forward(model, in, NULL), WEFT_FLOAT32);
}

/* The largest difference of two models' logits for a few tokens, two of them trained. */
static double logits_apart(weft_model *a, weft_model *b)
{
    const int32_t ids[] = {3, 1, 4, 1, 5, 9, 11, 6};
    weft_scope_open();
    weft_array *away = weft_abs(weft_subtract(logits_of(a, ids, 8), logits_of(b, ids, 8)));
    const double worst = weft_item(weft_max(away, WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return worst;
}

static weft_status adapt(weft_model *model)
{
    weft_module *tree = weft_model_module(model);
    weft_status status = weft_nn_lora_inject(tree, NULL);
    if (status == WEFT_OK)
        status = weft_nn_tokens_train(tree, "embed_tokens", tokens, N_TOKENS);
    if (status == WEFT_OK && !weft_model_info_of(model)->tied)
        status = weft_nn_tokens_train(tree, "lm_head", tokens, N_TOKENS);
    return status;
}

/* Adds noise to everything that is trained. */
static void disturb(weft_model *model)
{
    weft_nn_slots slots;
    CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots));
    for (int i = 0; i < slots.n; i++) {
        weft_scope_open();
        weft_array *old = *slots.slots[i];
        weft_array *noise = weft_random_normal(NULL, weft_shape(old), 0, 0.1, WEFT_FLOAT32);
        CHECK_OK(weft_set(slots.slots[i], weft_add(old, noise)));
        weft_scope_close(NULL);
    }
    weft_nn_slots_free(&slots);
}

static void expect_round_trip(const char *name, bool quantized)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary(quantized ? "coded" : name));
    weft_model *model = model_of(name, quantized), *again = model_of(name, quantized);
    weft_model *plain = model_of(name, quantized);
    if (model && again && plain && CHECK_OK(adapt(model))) {
        weft_module *tree = weft_model_module(model);
        CHECK_CLOSE(logits_apart(model, plain), 0, quantized ? 1e-2 : 1e-6); /* as they begin */
        disturb(model);
        CHECK(logits_apart(model, plain) > 0.1);
        if (CHECK_OK(weft_adapter_save(model, folder, NULL)) &&
            CHECK_OK(weft_adapter_load(again, folder, NULL))) {
            CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(again)), weft_nn_lora_count(tree));
            CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        }
        /* A matrix that was encoded is decoded to bfloat16 by merging. */
        const double rounding = quantized ? 0.2 : 1e-4;
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weft_nn_lora_merge(tree));
            CHECK_CLOSE(logits_apart(again, model), 0, rounding);
            if (i == 0)
                CHECK_OK(weft_nn_lora_unmerge(tree));
            CHECK_CLOSE(logits_apart(again, model), 0, rounding);
        }
        weft_nn_lora_remove(tree);
        CHECK_EQ_INT(weft_nn_lora_count(tree), 0);
        CHECK_CLOSE(logits_apart(again, model), 0, rounding);
    }
    weft_model_free(model);
    weft_model_free(again);
    weft_model_free(plain);
}

static void rows_are_saved_and_merged(void)
{
    expect_round_trip("llama", false); /* with a head of its own */
    expect_round_trip("qwen2", false); /* whose head is the embedding */
    expect_round_trip("gemma3", false);
    expect_round_trip("qwen2", true);
}

/* Of a text without the tokens only their own logits change. */
static void other_tokens_stay_as_they_are(void)
{
    weft_model *model = model_of("qwen2", false), *plain = model_of("qwen2", false);
    if (model && plain) {
        weft_module *tree = weft_model_module(model);
        const int32_t ids[] = {3, 1, 5};
        weft_nn_freeze(tree);
        CHECK_OK(weft_nn_tokens_train(tree, "embed_tokens", tokens, N_TOKENS));
        CHECK_EQ_INT(weft_nn_count(tree, true), N_TOKENS * weft_model_info_of(model)->hidden_size);
        disturb(model);
        weft_scope_open();
        weft_array *away =
            weft_abs(weft_subtract(logits_of(model, ids, 3), logits_of(plain, ids, 3)));
        away = weft_max(weft_flatten(away, 0, 1), WEFT_DIMS(0), false); /* (V) */
        const int64_t V = weft_size(away);
        float worst[1024];
        if (CHECK(V <= 1024) && CHECK_OK(weft_read(away, WEFT_FLOAT32, worst, V))) {
            for (int64_t i = 0; i < V; i++)
                CHECK((worst[i] > 0) == (i == 4 || i == 9 || i == 2));
        }
        weft_scope_close(NULL);
    }
    weft_model_free(model);
    weft_model_free(plain);
}

static void expect_refused(weft_model *model, const char *module, const int32_t *ids, int n,
                           weft_status status, const char *part)
{
    weft_module *tree = weft_model_module(model);
    const int before = weft_nn_lora_count(tree);
    CHECK_STATUS(weft_nn_tokens_train(tree, module, ids, n), status);
    CHECK_CONTAINS(weft_error_message(), part);
    CHECK_EQ_INT(weft_nn_lora_count(tree), before);
}

static void what_is_refused(void)
{
    weft_model *model = model_of("qwen2", false);
    if (model == NULL)
        return;
    weft_module *tree = weft_model_module(model);
    const int32_t beyond[] = {1, 320}, negative[] = {-1}, twice[] = {7, 8, 7};
    expect_refused(model, "embed_tokens", beyond, 2, WEFT_INVALID, "expected ids of 0 to 319");
    expect_refused(model, "embed_tokens", negative, 1, WEFT_INVALID, "got -1");
    expect_refused(model, "embed_tokens", twice, 3, WEFT_INVALID, "7 is given twice");
    expect_refused(model, "embed_tokens", tokens, 0, WEFT_INVALID, "at least one");
    expect_refused(model, "embeddings", tokens, 3, WEFT_INVALID, "no module 'embeddings'");
    expect_refused(model, "lm_head", tokens, 3, WEFT_INVALID, "lm_head is tied to an embedding");
    expect_refused(model, "model.norm", tokens, 3, WEFT_UNSUPPORTED, "expected an embedding");
    const char *const target[] = {"embed_tokens"};
    CHECK_OK(weft_nn_lora_inject(tree, &(weft_nn_lora_options){.targets = target, .n_targets = 1}));
    expect_refused(model, "embed_tokens", tokens, 3, WEFT_UNSUPPORTED, "without an adapter");
    weft_nn_lora_remove(tree);
    CHECK_OK(adapt(model));
    const char *path = check_temporary("refused");
    CHECK_STATUS(weft_adapter_save_as(model, path, NULL, WEFT_ADAPTER_MLX), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "rows of trained tokens, which mlx-lm's adapters");
    weft_model_free(model);
}

/* The adapter of `good` with other trainable_token_indices. */
static void expect_bad(const char *good, const char *indices, const char *part)
{
    char path[600], from[600];
    char *config, *tensors;
    size_t size;
    const char *folder = check_temporary("bad");
    weft_model *model = model_of("qwen2", false);
    snprintf(from, sizeof from, "%s/adapter_config.json", good);
    if (model == NULL || !CHECK_OK(weft_file_read(from, 0, &config, NULL)))
        return;
    snprintf(from, sizeof from, "%s/adapter_model.safetensors", good);
    CHECK_OK(weft_file_read(from, 0, &tensors, &size));
    char *at = strstr(config, "\"trainable_token_indices\": {");
    char *end = at ? strchr(at, '}') : NULL;
    if (CHECK(end != NULL)) {
        char *text = weft_format("%.*s\"trainable_token_indices\": %s%s", (int)(at - config),
                                 config, indices, end + 1);
        CHECK_OK(weft_folder_make(folder));
        snprintf(path, sizeof path, "%s/adapter_config.json", folder);
        CHECK_OK(weft_file_write(path, text, strlen(text)));
        snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
        CHECK_OK(weft_file_write(path, tensors, size));
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), part);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
        weft_free(text);
    }
    weft_free(config);
    weft_free(tensors);
    weft_model_free(model);
}

static void bad_files_are_refused(void)
{
    char good[512];
    snprintf(good, sizeof good, "%s", check_temporary("good"));
    weft_model *model = model_of("qwen2", false);
    if (model && CHECK_OK(adapt(model)) && CHECK_OK(weft_adapter_save(model, good, NULL))) {
        expect_bad(good, "[4, -9, 2]", "trainable_token_indices[1]: expected a token id, got -9");
        expect_bad(good, "[4, 9999, 2]", "expected ids of 0 to 319, got 9999");
        expect_bad(good, "[4, \"x\", 2]", "trainable_token_indices[1]");
        expect_bad(good, "3", "trainable_token_indices: expected object");
        expect_bad(good, "{\"embed_tokens\": 3}", "embed_tokens: expected array");
        expect_bad(good, "{\"wte\": [4, 9, 2]}", "no module 'wte'");
        expect_bad(good, "[4, 9]", "trainable_tokens_delta");
        expect_bad(good, "null", "trainable_tokens_delta");
    }
    weft_model_free(model);
}

CHECK_MAIN("adapter_tokens", CHECK_CASE(rows_are_saved_and_merged),
           CHECK_CASE(other_tokens_stay_as_they_are), CHECK_CASE(what_is_refused),
           CHECK_CASE(bad_files_are_refused))
