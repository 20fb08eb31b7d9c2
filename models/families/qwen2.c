/* models/families/qwen2.c -- Qwen2 and Qwen2.5 (Yang et al. 2024): llama with biases on q, k and v.
 */
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151936, 4096, 22016, 32, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, use_sliding_window, false),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, max_window_layers, 28),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000, .attention_bias = true};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return NULL;
    return weft__decoder_new(config, &c, WEFT__WINDOW_LATE, NULL, has_head, info);
}

const weft_model_family weft__family_qwen2 = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
};
