/* tests/models/test_no_memory.c -- each allocation of loading, adapting, calling and saving a model
 * fails once: each time the failure is reported, and nothing leaks (leaks are checked in the
 * sanitizer build). */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/model.h"

static const char tiny[] =
    "{\"model_type\":\"qwen3\",\"vocab_size\":20,\"hidden_size\":8,\"intermediate_size\":12,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"
    "\"tie_word_embeddings\":true,\"eos_token_id\":[3,5],\"rope_scaling\":{\"type\":\"longrope\","
    "\"short_factor\":[1,1],\"long_factor\":[2,2],\"original_max_position_embeddings\":4},"
    "\"max_position_embeddings\":16}";

static weft_status forward(weft_model *model)
{
    static const int32_t values[] = {1, 7, 19, 0};
    weft_cache **caches = weft_model_new_caches(model, NULL);
    if (caches == NULL)
        return weft_error_status();
    weft_scope_open();
    const weft_model_call call = {.caches = caches};
    weft_array *ids = weft_from_data(values, WEFT_INT32, WEFT_DIMS(1, 4));
    weft_status status = weft_eval(weft_model_forward(model, ids, &call));
    if (status == WEFT_OK)
        status = weft_eval(weft_model_forward(model, ids, &call));
    weft_scope_close(NULL);
    weft_model_free_caches(model, caches);
    return status;
}

static weft_status use(const char *folder, const char *saved)
{
    weft_model *model;
    weft_nn_slots slots;
    const char *all[] = {"all-linear"};
    const weft_nn_lora_options options = {.targets = all, .n_targets = 1, .dtype = WEFT_BFLOAT16};
    weft_status status = weft_model_load(folder, NULL, &model);
    if (status != WEFT_OK)
        return status;
    weft_module *module = weft_model_module(model);
    status = weft_nn_lora_inject(module, &options);
    if (status == WEFT_OK)
        status = forward(model);
    if (status == WEFT_OK)
        status = weft_nn_lora_merge(module);
    if (status == WEFT_OK) {
        status = weft_nn_trainable(module, &slots);
        weft_nn_slots_free(&slots);
    }
    if (status == WEFT_OK) {
        char *text = weft_nn_describe(module);
        status = text ? WEFT_OK : WEFT_MEMORY;
        weft_free(text);
    }
    if (status == WEFT_OK) {
        weft_nn_lora_remove(module);
        status = weft_model_save(model, saved);
    }
    weft_model_free(model);
    return status;
}

static bool make(const char *folder)
{
    weft_config *config;
    weft_model *model = NULL;
    bool made = CHECK_OK(weft_config_parse(tiny, "config.json", &config)) &&
                CHECK_OK(weft_model_new(config, &model)) &&
                CHECK_OK(weft_model_save(model, folder));
    weft_config_free(config);
    weft_model_free(model);
    return made;
}

static void every_allocation_fails_once(void)
{
    const char *folder = check_temporary("tiny"), *saved = check_temporary("saved");
    if (!make(folder))
        return;
    weft_scope_open();
    weft_memory_set_cache_limit(0); /* so that buffers are allocations too */
    CHECK_OK(use(folder, saved));
    weft_memory_fail_at(0);
    CHECK_OK(use(folder, saved));
    const uint64_t count = weft_memory_fail_at(0);
    printf("  %llu allocations\n", (unsigned long long)count);
    CHECK(count > 100);
    int failures = 0;
    for (uint64_t n = 1; n <= count; n++) {
        weft_scope_open();
        weft_memory_fail_at(n);
        failures += use(folder, saved) != WEFT_OK;
        weft_memory_fail_at(0);
        weft_scope_close(NULL);
    }
    /* Few failures may be survived: those with a fallback. */
    CHECK(failures > (int)count * 9 / 10);
    CHECK_OK(use(folder, saved));
    weft_scope_close(NULL);
}

CHECK_MAIN("no_memory", CHECK_CASE(every_allocation_fails_once))
