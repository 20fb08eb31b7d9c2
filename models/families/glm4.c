/* models/families/glm4.c -- GLM-4-0414 (Zhipu 2025), dense: norms before and after each branch, a
 * rotation of neighboring elements in half of each head, gate and up in one matrix. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151552, 4096, 13696, 40, 32, 2, 128),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1.5625e-7),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, true),
};

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_self_attn_layernorm", NULL},
    {"post_ffw_norm", "post_mlp_layernorm", NULL},
    {"ffn_up", "mlp.gate_up_proj", NULL},
    {NULL, NULL, NULL},
};

static const weft__module_name modules[] = {
    {"post_attention_layernorm", "post_self_attn_layernorm"},
    {"pre_feedforward_layernorm", "post_attention_layernorm"},
    {"post_feedforward_layernorm", "post_mlp_layernorm"},
    {NULL, NULL},
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000,
                                              .partial_rotary_factor = 0.5,
                                              .sandwich = true,
                                              .modules = modules,
                                              .interleaved = true,
                                              .fused_gate_up = true},
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "glm4"},
};

WEFT__FAMILY(glm4, Glm4ForCausalLM, .own = &own);
