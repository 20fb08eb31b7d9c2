/* tests/fuzz/fuzz_config.c -- a config.json, and the model that it describes (which is not
 * evaluated). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weft/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    weft_config *config;
    weft_model *model;
    weft_rope_options rope;
    if (weft_config_parse(text, "fuzz", &config) == WEFT_OK) {
        weft_scope_open();
        if (weft_config_rope(config, 64, 10000, &rope) == WEFT_OK) {
            double amplitude;
            weft_rope_frequencies(&rope, &amplitude);
        }
        if (weft_config_int(config, "num_hidden_layers", 0) <= 8 &&
            weft_model_new(config, &model) == WEFT_OK)
            weft_model_free(model);
        weft_scope_close(NULL);
        weft_config_free(config);
    }
    free(text);
    return 0;
}
