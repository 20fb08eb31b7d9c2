/* models/families/llama.c -- Llama 1 to 3 (Touvron et al. 2023; Llama team 2024). */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32, 0, 0),
    WEFT__ATTENTION_BIAS,
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000},
    .gguf = &(const weft__gguf_arch){.name = "llama",
                                     .permuted = true,
                                     .divisors = true,
                                     .biases = true,
                                     .windows = WEFT__GGUF_ONE_WINDOW},
};

WEFT__FAMILY(llama, LlamaForCausalLM, .own = &own);
