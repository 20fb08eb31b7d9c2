/* tests/train/test_adapter_modules.c -- adapters of embeddings, heads and mixtures of experts, and
 * modules that are trained whole. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/train/recipes.h"
#include "weft/nn_tools.h"

static const char *in_folder(const char *folder, const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The largest difference of two models' logits for a few tokens. */
static double logits_apart(weft_model *a, weft_model *b)
{
    weft_scope_open();
    const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 8));
    weft_array *difference =
        weft_subtract(weft_model_forward(a, tokens, NULL), weft_model_forward(b, tokens, NULL));
    const double worst = weft_item(weft_max(weft_abs(difference), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return worst;
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
        CHECK_OK(weft_set(slots.slots[i], weft_astype(weft_add(old, noise), weft_dtype_of(old))));
        weft_scope_close(NULL);
    }
    weft_nn_slots_free(&slots);
}

/* Adapts a model as told, saves that, loads it again and fuses it to `out`: all compute the same.
 */
static void expect_round_trip(const char *base, const weft_nn_lora_options *o, const char *out)
{
    char path[512], folder[512], fused[600];
    weft_model *model = NULL, *again = NULL, *whole = NULL, *plain = NULL;
    snprintf(path, sizeof path, "models/%s", base);
    snprintf(path, sizeof path, "%s", check_fixture(path));
    snprintf(folder, sizeof folder, "%s", check_temporary("round-trip"));
    snprintf(fused, sizeof fused, "%s", check_temporary(out));
    if (CHECK_OK(weft_model_load(path, NULL, &model)) &&
        CHECK_OK(weft_model_load(path, NULL, &plain)) &&
        CHECK_OK(weft_model_load(path, NULL, &again)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), o))) {
        disturb(model);
        CHECK(logits_apart(plain, model) > 0.1);
        if (CHECK_OK(weft_adapter_save(model, folder, NULL)) &&
            CHECK_OK(weft_adapter_load(again, folder, NULL)))
            CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        if (CHECK_OK(weft_adapter_fuse(path, folder, fused, NULL, NULL)) &&
            CHECK_OK(weft_model_load(fused, NULL, &whole)))
            CHECK_CLOSE(logits_apart(whole, model), 0, 1e-4);
        /* In place too, and saved by itself. */
        CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
        CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        CHECK_OK(weft_nn_lora_unmerge(weft_model_module(model)));
        CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
        weft_nn_lora_remove(weft_model_module(model));
        weft_model_free(whole);
        whole = NULL;
        if (CHECK_OK(weft_model_save(model, in_folder(folder, "model"))) &&
            CHECK_OK(weft_model_load(in_folder(folder, "model"), NULL, &whole)))
            CHECK_CLOSE(logits_apart(again, whole), 0, 1e-4);
    }
    weft_model_free(model);
    weft_model_free(again);
    weft_model_free(whole);
    weft_model_free(plain);
}

/* qwen2's head is its embedding: an adapter of either changes only that one. */
static void tied_weights_part_where_one_is_adapted(void)
{
    const char *const head[] = {"lm_head"}, *const embedding[] = {"embed_tokens", "q_proj"};
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = head, .n_targets = 1}, "head");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = head, .n_targets = 1},
                      "head.gguf");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = embedding, .n_targets = 2},
                      "embedding.gguf");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.whole = head, .n_whole = 1}, "whole");
    const char *const both[] = {"embed_tokens", "model.norm"};
    expect_round_trip("qwen2", &(weft_nn_lora_options){.whole = both, .n_whole = 2}, "both");
}

static void modules_cannot_be_both_targets_and_whole(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model) {
        weft_module *tree = weft_model_module(model);
        const char *const head[] = {"lm_head"}, *const none[] = {"lm_feet"};
        const weft_nn_lora_options o[] = {
            {.targets = head, .n_targets = 1, .whole = head, .n_whole = 1},
            {.whole = none, .n_whole = 1},
            {.targets = (const char *const[]){"embed_tokens"}, .n_targets = 1, .dora = true},
        };
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[0]), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "lm_head is both a target and trained whole");
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[1]), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "lm_feet");
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[2]), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "DoRA of an embedding (embed_tokens)");
        CHECK_OK(weft_nn_quantize(tree, NULL));
        CHECK_STATUS(
            weft_nn_lora_inject(tree, &(weft_nn_lora_options){.whole = head, .n_whole = 1}),
            WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "lm_head is quantized");
        CHECK_EQ_INT(weft_nn_lora_count(tree), 0);
    }
    weft_model_free(model);
}

/* Routers are adapted only when they are named, and experts never. */
static void mixtures_are_adapted_beside_their_experts(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model))) {
        weft_module *tree = weft_model_module(model);
        const char *const all[] = {WEFT_LORA_ALL_LINEAR}, *const experts[] = {"up_proj"};
        const char *const router[] = {"mlp.gate"};
        CHECK_OK(
            weft_nn_lora_inject(tree, &(weft_nn_lora_options){.targets = all, .n_targets = 1}));
        CHECK_EQ_INT(weft_nn_lora_count(tree), 8);
        CHECK(weft_nn_find(tree, "model.layers.0.mlp.gate.lora_A") == NULL);
        weft_nn_lora_remove(tree);
        CHECK_OK(
            weft_nn_lora_inject(tree, &(weft_nn_lora_options){.targets = router, .n_targets = 1}));
        CHECK_EQ_INT(weft_nn_lora_count(tree), 2);
        weft_nn_lora_remove(tree);
        CHECK_STATUS(
            weft_nn_lora_inject(tree, &(weft_nn_lora_options){.targets = experts, .n_targets = 1}),
            WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(),
                       "'up_proj' fits no linear module or embedding (experts");
    }
    weft_model_free(model);
}

/* The weight of the base that PEFT saves beside an embedding's adapter. */
static void adapters_of_another_base_are_refused(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model))) {
        const char *adapter = check_fixture("lora/lora-llama-embeddings/final");
        weft_array **slot = weft_nn_find(weft_model_module(model), "model.embed_tokens.weight");
        weft_scope_open();
        CHECK_OK(weft_set(slot, weft_scale(*slot, 1.1)));
        weft_scope_close(NULL);
        CHECK_STATUS(weft_adapter_load(model, adapter, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "base_layer.weight: differs from the model's");
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_model_free(model);
}

CHECK_MAIN("adapter_modules", CHECK_CASE(tied_weights_part_where_one_is_adapted),
           CHECK_CASE(modules_cannot_be_both_targets_and_whole),
           CHECK_CASE(mixtures_are_adapted_beside_their_experts),
           CHECK_CASE(adapters_of_another_base_are_refused))
