/* tests/fuzz/fuzz_adapter_weights.c -- an adapter_config.json, NUL, and the bytes of its
 * safetensors file, as PEFT's or mlx-lm's adapter of a model, which then computes logits. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/tiny_model.h"
#include "weft/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loads the adapter into a model of its own: it may add rows and outputs to the model. */
static void load(const char *folder)
{
    weft_model *model = tiny_model_new();
    if (model && weft_adapter_load(model, folder, NULL) == WEFT_OK) {
        static const int32_t ids[] = {1, 2, 3};
        weft_scope_open();
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 3));
        (void)weft_eval(weft_model_forward(model, tokens, NULL));
        weft_scope_close(NULL);
    }
    weft_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *folder = input_folder();
    const size_t n = input_head(data, size), rest = n < size ? size - n - 1 : 0;
    const uint8_t *weights = data + size - rest;
    if (folder == NULL || !input_member("adapter_config.json", data, n) ||
        !input_member("adapter_model.safetensors", weights, rest) ||
        !input_member("adapters.safetensors", weights, rest))
        return 0;
    weft_set_log(input_drop_log, NULL);
    load(folder);
    return 0;
}
