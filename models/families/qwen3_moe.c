/* models/families/qwen3_moe.c -- Qwen3 with experts (Yang et al. 2025). */
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151936, 2048, 6144, 24, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 4),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, use_sliding_window, false),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, max_window_layers, 28),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 768),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, decoder_sparse_step, 1),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, false),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000, .qk_norm = true};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return NULL;
    if (c.num_experts == 0)
        c.num_experts = weft_config_int(config, "num_local_experts", 128);
    c.output_bias = c.attention_bias;
    return weft__decoder_new(config, &c, WEFT__WINDOW_LATE, NULL, has_head, info);
}

const weft_model_family weft__family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .architecture = "Qwen3MoeForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
};
