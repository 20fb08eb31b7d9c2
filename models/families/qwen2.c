/* models/families/qwen2.c -- Qwen2 and Qwen2.5 (Yang et al. 2024): llama with biases on q, k and v.
 */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151936, 4096, 22016, 32, 32, 32, 0),
    WEFT__LATE_WINDOWS,
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000, .attention_bias = true},
    .windows = WEFT__WINDOW_LATE,
    .gguf = &(const weft__gguf_arch){.name = "qwen2"},
};

WEFT__FAMILY(qwen2, Qwen2ForCausalLM, .own = &own);
