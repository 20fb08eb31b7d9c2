/* models/families/mixtral.c -- Mixtral (Jiang et al. 2024): mistral with experts in every layer. */
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 14336, 32, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 2),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 1e6, .norm_topk_prob = true};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return NULL;
    c.num_experts =
        weft_config_int(config, "num_local_experts", weft_config_int(config, "num_experts", 8));
    c.moe_intermediate_size = c.intermediate_size;
    return weft__decoder_new(config, &c, WEFT__WINDOW_ALL, NULL, has_head, info);
}

const weft_model_family weft__family_mixtral = {
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
};
