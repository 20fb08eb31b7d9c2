/* tests/fuzz/tiny_model.h -- a model for file formats that contain the hash of their model, and a
 * way to put its hash into an input. */
#ifndef TESTS_FUZZ_TINY_MODEL_H
#define TESTS_FUZZ_TINY_MODEL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "generate/prompt_cache/files.h"
#include "tests/fuzz/input.h"
#include "weft/model.h"

/* The placeholder for the model's hash in the files of a corpus. */
#define TINY_MODEL_HASH "0123456789abcdef"

/* A new model, which the caller frees; NULL on failure. */
static inline weft_model *tiny_model_new(void)
{
    static const char config[] =
        "{\"model_type\":\"mistral\",\"vocab_size\":20,\"hidden_size\":16,\"intermediate_size\":8,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
        "\"sliding_window\":4,\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
        "\"tie_word_embeddings\":true}";
    weft_model *model = NULL;
    weft_config *parsed;
    if (weft_config_parse(config, "config", &parsed) != WEFT_OK)
        return NULL;
    if (weft_model_new(parsed, &model) != WEFT_OK)
        model = NULL;
    weft_config_free(parsed);
    return model;
}

/* One model for the whole run. */
static inline weft_model *tiny_model(void)
{
    static weft_model *model;
    if (model == NULL)
        model = tiny_model_new();
    return model;
}

/* The input as a file, with TINY_MODEL_HASH replaced by the model's hash; NULL on failure. */
static inline const char *tiny_model_file(const uint8_t *data, size_t size)
{
    static char hash[WEFT__HEX];
    weft_fingerprint f;
    if (tiny_model() == NULL)
        return NULL;
    if (*hash == '\0') {
        if (weft_model_fingerprint(tiny_model(), &f) != WEFT_OK)
            return NULL;
        weft__hash_text(f.model, hash);
    }
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, data, size);
    uint8_t *at = memmem(copy, size, TINY_MODEL_HASH, sizeof TINY_MODEL_HASH - 1);
    if (at != NULL)
        memcpy(at, hash, sizeof hash - 1);
    const char *path = input_file(copy, size);
    free(copy);
    return path;
}

#endif
