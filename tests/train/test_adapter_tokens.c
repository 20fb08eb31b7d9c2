/* tests/train/test_adapter_tokens.c -- trained rows of tokens: over tied and encoded embeddings,
 * saved, loaded, merged, and refused input. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
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
static double known_logits_apart(weft_model *a, weft_model *b)
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

static void expect_round_trip(const char *name, bool quantized)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary(quantized ? "coded" : name));
    weft_model *model = model_of(name, quantized), *again = model_of(name, quantized);
    weft_model *plain = model_of(name, quantized);
    if (model && again && plain && CHECK_OK(adapt(model))) {
        weft_module *tree = weft_model_module(model);
        CHECK_CLOSE(known_logits_apart(model, plain), 0,
                    quantized ? 1e-2 : 1e-6); /* as they begin */
        disturb(model);
        CHECK(known_logits_apart(model, plain) > 0.1);
        if (CHECK_OK(weft_adapter_save(model, folder, NULL)) &&
            CHECK_OK(weft_adapter_load(again, folder, NULL))) {
            CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(again)), weft_nn_lora_count(tree));
            CHECK_CLOSE(known_logits_apart(again, model), 0, 1e-4);
        }
        /* A matrix that was encoded is decoded to bfloat16 by merging. */
        const double rounding = quantized ? 0.2 : 1e-4;
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weft_nn_lora_merge(tree));
            CHECK_CLOSE(known_logits_apart(again, model), 0, rounding);
            if (i == 0)
                CHECK_OK(weft_nn_lora_unmerge(tree));
            CHECK_CLOSE(known_logits_apart(again, model), 0, rounding);
        }
        weft_nn_lora_remove(tree);
        CHECK_EQ_INT(weft_nn_lora_count(tree), 0);
        CHECK_CLOSE(known_logits_apart(again, model), 0, rounding);
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

/* For a text without these tokens only their own logits change. */
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
        expect_bad(good, "[4, 9999, 2]", "expected ids of 0 to 322, got 9999");
        expect_bad(good, "[4, 322, 321]", "the new id 320 has no row");
        expect_bad(good, "[4, \"x\", 2]", "trainable_token_indices[1]");
        expect_bad(good, "3", "trainable_token_indices: expected object");
        expect_bad(good, "{\"embed_tokens\": 3}", "embed_tokens: expected array");
        expect_bad(good, "{\"wte\": [4, 9, 2]}", "no module 'wte'");
        expect_bad(good, "[4, 9]", "trainable_tokens_delta");
        expect_bad(good, "null", "trainable_tokens_delta");
    }
    weft_model_free(model);
}

/* ---- new tokens ----------------------------------------------------------------------------- */

static const int32_t more_tokens[] = {9, 320, 321, 322};
enum { N_MORE = 4, OLD = 320 };

/* The loss of the ids as one sample. */
static double loss_of(weft_model *model, const int32_t *ids, int n)
{
    weft_dataset *data;
    weft_evaluation found = {0};
    CHECK_OK(weft_dataset_new(n, &data));
    CHECK_OK(weft_dataset_add(data, ids, n, 0));
    CHECK_OK(weft_evaluate(model, data, NULL, &found));
    weft_dataset_free(data);
    return found.loss;
}

static weft_status adapt_more(weft_model *model)
{
    const weft_status status = weft_nn_lora_inject(weft_model_module(model), NULL);
    return status == WEFT_OK ? weft_adapter_add_tokens(model, more_tokens, N_MORE, OLD) : status;
}

/* The rows of an embedding and of the head that tokens have: (n, E). */
static void expect_rows_start_as_mean(weft_model *model, const char *module)
{
    char path[128];
    snprintf(path, sizeof path, "%s.weight", module);
    weft_scope_open();
    weft_array *weight = *weft_nn_find(weft_model_module(model), path);
    weft_array *ids = weft_arange(0, OLD, 1, WEFT_INT32);
    weft_array *all = weft_astype(weft_embedding(weight, ids), WEFT_FLOAT64); /* (V, E) */
    weft_array *mean = weft_mean(all, WEFT_DIMS(0), true);
    snprintf(path, sizeof path, "%s.trainable_tokens_delta", module);
    weft_array *rows = weft_astype(*weft_nn_find(weft_model_module(model), path), WEFT_FLOAT64);
    weft_array *old = weft_subtract(weft_slice_axis(rows, 0, 0, 1), weft_slice_axis(all, 0, 9, 10));
    weft_array *new = weft_subtract(weft_slice_axis(rows, 0, 1, N_MORE), mean);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(old), WEFT_ALL_AXES, false)), 0, 0);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(new), WEFT_ALL_AXES, false)), 0, 1e-7);
    weft_scope_close(NULL);
}

static void expect_more(const char *name, bool quantized)
{
    const int32_t plain_ids[] = {3, 1, 4, 1, 5, 9, 11, 6}, ids[] = {3, 320, 4, 322, 5, 9, 321, 6};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary(quantized ? "more-coded" : name));
    weft_model *model = model_of(name, quantized), *again = model_of(name, quantized);
    if (model && again && CHECK_OK(adapt_more(model))) {
        weft_module *tree = weft_model_module(model);
        CHECK_EQ_INT(weft_model_info_of(model)->vocab_size, OLD + 3);
        expect_rows_start_as_mean(model, "model.embed_tokens");
        if (!weft_model_info_of(model)->tied)
            expect_rows_start_as_mean(model, "lm_head");
        disturb(model);
        const double loss = loss_of(model, ids, 8), other = loss_of(model, plain_ids, 8);
        if (CHECK_OK(weft_adapter_save(model, folder, NULL)) &&
            CHECK_OK(weft_adapter_load(again, folder, NULL))) {
            CHECK_EQ_INT(weft_model_info_of(again)->vocab_size, OLD + 3);
            CHECK_CLOSE(loss_of(again, ids, 8), loss, 1e-5);
        }
        const double rounding = quantized ? 0.05 : 1e-5;
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weft_nn_lora_merge(tree));
            CHECK_EQ_INT(weft_dim(*weft_nn_find(tree, "model.embed_tokens.weight"), 0), OLD + 3);
            CHECK_CLOSE(loss_of(model, ids, 8), loss, rounding);
            if (i == 0)
                CHECK_OK(weft_nn_lora_unmerge(tree));
            CHECK_CLOSE(loss_of(model, plain_ids, 8), other, rounding);
        }
        weft_nn_lora_remove(tree);
        CHECK_CLOSE(loss_of(model, ids, 8), loss, rounding);
        if (CHECK_OK(weft_model_save(model, folder))) { /* a model with the larger vocabulary */
            weft_model_free(again);
            CHECK_OK(weft_model_load(folder, NULL, &again));
            CHECK(again && weft_model_info_of(again)->vocab_size == OLD + 3);
            CHECK_CLOSE(loss_of(again, ids, 8), loss, rounding);
        }
    }
    weft_model_free(model);
    weft_model_free(again);
}

static void new_tokens_have_rows(void)
{
    expect_more("llama", false);
    expect_more("qwen2", false);
    expect_more("gemma3", false);
    expect_more("qwen2", true);
    expect_more("llama", true);
}

static void new_tokens_that_are_refused(void)
{
    weft_model *model = model_of("llama", false);
    const int32_t gap[] = {320, 322}, later[] = {321}, far[] = {320, 900};
    if (model == NULL)
        return;
    CHECK_STATUS(weft_adapter_add_tokens(model, gap, 2, OLD), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected ids of 0 to 321, got 322");
    CHECK_STATUS(weft_adapter_add_tokens(model, later, 1, OLD), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected ids of 0 to 320, got 321");
    CHECK_STATUS(weft_adapter_add_tokens(model, far, 2, OLD), WEFT_INVALID);
    CHECK_STATUS(weft_adapter_add_tokens(model, far, 1, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "at least one token before");
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    CHECK_EQ_INT(weft_model_info_of(model)->vocab_size, OLD);
    weft_model_free(model);
}

CHECK_MAIN("adapter_tokens", CHECK_CASE(new_tokens_have_rows),
           CHECK_CASE(new_tokens_that_are_refused), CHECK_CASE(rows_are_saved_and_merged),
           CHECK_CASE(other_tokens_stay_as_they_are), CHECK_CASE(what_is_refused),
           CHECK_CASE(bad_files_are_refused))
