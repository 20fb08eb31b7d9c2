/* models/families/llama.c -- Llama 1 to 3 (Touvron et al. 2023; Llama team 2024). */
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return NULL;
    c.output_bias = c.attention_bias;
    return weft__decoder_new(config, &c, WEFT__WINDOW_NONE, NULL, has_head, info);
}

const weft_model_family weft__family_llama = {
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
};
