/* tests/fuzz/fuzz_saved_caches.c -- the bytes of a file of caches, whoever wrote it, and a step
 * from what it brings. */
#include "generate/prompt_cache/files.h"
#include "tests/fuzz/input.h"
#include "weft/io.h"
#include "weft/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] =
    "{\"model_type\":\"mistral\",\"vocab_size\":20,\"hidden_size\":16,\"intermediate_size\":8,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"sliding_window\":4,\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
    "\"tie_word_embeddings\":true}";

static weft_model *model_once(void)
{
    static weft_model *model;
    weft_config *parsed;
    if (model == NULL && weft_config_parse(config, "config", &parsed) == WEFT_OK) {
        if (weft_model_new(parsed, &model) != WEFT_OK)
            model = NULL;
        weft_config_free(parsed);
    }
    return model;
}

static void step(weft_model *model, weft_cache **caches)
{
    const int32_t ids[] = {1, 2, 3};
    for (int64_t n = 1; n <= 2; n++) {
        weft_scope_open();
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
        (void)weft_eval(weft_model_hidden(model, tokens, &(weft_model_call){.caches = caches}));
        weft_scope_close(NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_model *model = model_once();
    const char *path = input_file(data, size);
    weft_safetensors *file;
    if (path == NULL || model == NULL || weft_safetensors_open(path, &file) != WEFT_OK)
        return 0;
    weft_cache_options options;
    weft_cache **caches;
    int32_t *ids;
    int64_t n;
    weft_scope_open();
    if (weft__saved_ids(file, path, "0.", "ids", model, &ids, &n) == WEFT_OK)
        weft_free(ids);
    if (weft__saved_caches(file, path, "0.", model, &options, &caches) == WEFT_OK) {
        step(model, caches);
        weft_model_free_caches(model, caches);
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return 0;
}
