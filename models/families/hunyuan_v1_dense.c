/* models/families/hunyuan_v1_dense.c -- Hunyuan, dense (Tencent 2025): llama whose heads are
 * normalized after the rotation. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(290943, 4096, 11008, 32, 32, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT__ATTENTION_BIAS,
};

static const weft__tensor_name names[] = {
    {"attn_q_norm", "self_attn.query_layernorm", NULL},
    {"attn_k_norm", "self_attn.key_layernorm", NULL},
    {NULL, NULL, NULL},
};

static const weft__module_name modules[] = {
    {"self_attn.q_norm", "query_layernorm"},
    {"self_attn.k_norm", "key_layernorm"},
    {NULL, NULL},
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults =
        &(const weft__decoder_config){.theta = 10000, .late_qk_norm = true, .modules = modules},
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "hunyuan-dense"},
};

WEFT__FAMILY(hunyuan_v1_dense, HunYuanDenseV1ForCausalLM, .own = &own);
