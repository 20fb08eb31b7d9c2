/* tests/fuzz/fuzz_gguf_model.c -- the bytes of a GGUF file as a model, which computes hidden states
 * of three tokens. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/input.h"
#include "weft/gguf.h"
#include "weft/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Trees of thousands of layers are made before the missing tensors are found. */
static bool is_small(const char *path)
{
    enum { MOST_LAYERS = 8 };
    weft_gguf *file = NULL;
    bool small = weft_gguf_open(path, &file) == WEFT_OK;
    for (int i = 0; small && i < weft_gguf_value_count(file); i++) {
        const weft_gguf_value *v = weft_gguf_value_at(file, i);
        const char *end = strrchr(v->key, '.');
        int64_t layers;
        if (end && strcmp(end, ".block_count") == 0 && weft_gguf_value_int(v, 0, &layers))
            small = layers <= MOST_LAYERS;
    }
    weft_gguf_close(file);
    return small;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t ids[] = {1, 2, 3};
    weft_model *model = NULL;
    char path[128];
    weft_set_log(input_drop_log, NULL);
    if (input_folder() == NULL || !input_member("model.gguf", data, size))
        return 0;
    snprintf(path, sizeof path, "%s/model.gguf", input_path());
    if (!is_small(path) || weft_model_load(path, NULL, &model) != WEFT_OK)
        return 0;
    weft_scope_open();
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 3));
    (void)weft_eval(weft_model_hidden(model, tokens, NULL));
    weft_scope_close(NULL);
    weft_model_free(model);
    return 0;
}
