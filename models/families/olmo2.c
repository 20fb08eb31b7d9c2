/* models/families/olmo2.c -- OLMo 2 (OLMo team 2024): llama with norms after each branch instead of
 * before it, and of all heads' queries and keys together. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(50304, 4096, 11008, 32, 32, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT__ATTENTION_BIAS,
};

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {"post_ffw_norm", "post_feedforward_layernorm", NULL},
    {NULL, NULL, NULL},
};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults =
        &(const weft__decoder_config){
            .theta = 10000, .post_norm = true, .qk_norm = true, .whole_qk_norm = true},
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "olmo2", .output = WEFT__GGUF_OUTPUT_ALWAYS},
};

WEFT__FAMILY(olmo2, Olmo2ForCausalLM, .own = &own);
