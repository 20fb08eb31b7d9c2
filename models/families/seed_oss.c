/* models/families/seed_oss.c -- Seed-OSS (ByteDance 2025): llama with biases on q, k and v. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(155136, 4096, 27648, 64, 80, 8, 128),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, true),
    WEFT__CONFIG_AS("attention_out_bias", BOOL, weft__decoder_config, output_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, mlp_bias, false),
};

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {NULL, NULL, NULL},
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000},
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "seed_oss"},
};

WEFT__FAMILY(seed_oss, SeedOssForCausalLM, .own = &own);
