/* tests/fuzz/fuzz_adapter.c -- an adapter_config.json, and the linears that it selects. */
#include <stddef.h>
#include <stdint.h>

#include "train/adapter/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft__adapter_config config;
    if (weft__adapter_config_parse((const char *)data, size, "fuzz", &config) != WEFT_OK)
        return 0;
    bool fits;
    if (!config.by_tensors &&
        weft__adapter_config_fits(&config, "model.layers.1.self_attn.q_proj", &fits) == WEFT_OK)
        (void)weft__adapter_config_fits(&config, "lm_head", &fits); /* fails as above */
    weft__adapter_config_free(&config);
    return 0;
}
