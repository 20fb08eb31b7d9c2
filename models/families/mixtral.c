/* models/families/mixtral.c -- Mixtral (Jiang et al. 2024): mistral with experts in every layer. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 14336, 32, 32, 8, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 2),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    c->num_experts =
        weft_config_int(config, "num_local_experts", weft_config_int(config, "num_experts", 8));
    c->moe_intermediate_size = c->intermediate_size;
    return WEFT_OK;
}

static const weft__tensor_name names[] = {
    {"ffn_gate_inp", "mlp.gate", "block_sparse_moe.gate.weight"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", "block_sparse_moe.experts.0.w1.weight"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", "block_sparse_moe.experts.0.w3.weight"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", "block_sparse_moe.experts.0.w2.weight"},
    {NULL, NULL, NULL},
};

static const weft__module_name stored[] = {{".mlp.", ".block_sparse_moe."}, {NULL, NULL}};

static bool has_experts(const weft__gguf_reader *file)
{
    return weft__gguf_integer(file, "expert_count", 0) > 0;
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 1e6, .norm_topk_prob = true},
    .finish = finish,
    .windows = WEFT__WINDOW_ALL,
    .names = names,
    .stored_parts = stored,
    .gguf = &(const weft__gguf_arch){.name = "llama",
                                     .divisors = true,
                                     .biases = true,
                                     .claims = has_experts,
                                     .permuted = true,
                                     .windows = WEFT__GGUF_ONE_WINDOW},
};

WEFT__FAMILY(mixtral, MixtralForCausalLM, .own = &own);
