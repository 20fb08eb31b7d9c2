/* models/families/qwen3.c -- Qwen3, dense (Yang et al. 2025): qwen2 with normalized heads and no
 * biases. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151936, 4096, 22016, 32, 32, 32, 128),
    WEFT__ATTENTION_BIAS,
    WEFT__LATE_WINDOWS,
};

static const weft__tensor_name names[] = {
    {"cls.output.weight", "score.weight", NULL},
    {NULL, NULL, NULL},
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000, .qk_norm = true},
    .windows = WEFT__WINDOW_LATE,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "qwen3", .classifies = true},
};

WEFT__FAMILY(qwen3, Qwen3ForCausalLM, .own = &own);
