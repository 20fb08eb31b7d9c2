/* models/families/qwen3_moe.c -- Qwen3 with experts (Yang et al. 2025). */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(151936, 2048, 6144, 24, 32, 4, 0),
    WEFT__ATTENTION_BIAS,
    WEFT__LATE_WINDOWS,
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 768),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, decoder_sparse_step, 1),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, false),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    if (c->num_experts == 0)
        c->num_experts = weft_config_int(config, "num_local_experts", 128);
    return WEFT_OK;
}

/* Readers normalize the weights of the chosen experts, which all layers have. */
static weft_status write(weft__gguf_facts *f)
{
    for (int64_t i = 0; i < f->n_layers; i++) {
        if (!f->decoder.layers[i].sparse)
            return weft__gguf_refuse(f, "a layer without experts");
    }
    return f->decoder.config->norm_topk_prob ? WEFT_OK
                                             : weft__gguf_refuse(f, "norm_topk_prob false");
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 10000, .qk_norm = true},
    .finish = finish,
    .windows = WEFT__WINDOW_LATE,
    .gguf = &(const weft__gguf_arch){.name = "qwen3moe", .write = write},
};

WEFT__FAMILY(qwen3_moe, Qwen3MoeForCausalLM, .own = &own);
