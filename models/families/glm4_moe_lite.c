/* models/families/glm4_moe_lite.c -- GLM-4.7-Flash (Zhipu 2026): latent attention, a dense layer,
 * then experts chosen by sigmoids beside a shared MLP. */
#include <math.h>
#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/gguf/arch.h"

typedef struct glm_config {
    weft__decoder_config decoder;
    int64_t n_shared_experts;
    int64_t first_k_dense_replace; /* layers without experts, if there is no mlp_layer_types */
} glm_config;

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(154880, 2048, 10240, 47, 20, 20, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT__ATTENTION_BIAS,
    WEFT__LATENT_FIELDS(768, 512, 192, 64, 256),
    WEFT__CONFIG_AS("rope_interleave", BOOL, weft__decoder_config, interleaved, true),
    WEFT__CONFIG_AS("n_routed_experts", INT, weft__decoder_config, num_experts, 64),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 4),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, moe_intermediate_size, 1536),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, norm_topk_prob, true),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, routed_scaling_factor, 1.8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, n_group, 1),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, topk_group, 1),
    WEFT_CONFIG_OPTIONAL(INT, glm_config, n_shared_experts, 1),
    WEFT_CONFIG_OPTIONAL(INT, glm_config, first_k_dense_replace, 1),
};

static weft_module *sparse_mlp(const weft__decoder_config *c, const weft__layer *layer)
{
    const int64_t F = ((const glm_config *)c)->n_shared_experts * c->moe_intermediate_size;
    return weft__shared_moe_new("", weft__moe_new(c, layer), "shared_experts", weft__mlp_new(c, F),
                                NULL, NULL);
}

static weft_status layer_of(const weft_config *config, const weft__decoder_config *c,
                            weft__layer *layer)
{
    const weft__json types = weft__config_at(config, "mlp_layer_types");
    const char *type = "";
    weft__json at;
    size_t n = 0;
    layer->sparse = layer->index >= ((const glm_config *)c)->first_k_dense_replace;
    weft_status status = types.value ? weft__json_length(&types, &n) : WEFT_OK;
    if (status == WEFT_OK && types.value && n != (size_t)c->num_hidden_layers)
        status = weft__json_fail(&types, WEFT_INVALID, "expected %lld layers, got %zu",
                                 (long long)c->num_hidden_layers, n);
    if (status == WEFT_OK && types.value)
        status = weft__json_at(&types, (size_t)layer->index, &at);
    if (status == WEFT_OK && types.value)
        status = weft__json_as_string(&at, &type, NULL);
    if (status == WEFT_OK && types.value) {
        layer->sparse = strcmp(type, "sparse") == 0;
        if (!layer->sparse && strcmp(type, "dense") != 0)
            status =
                weft__json_fail(&at, WEFT_UNSUPPORTED, "'%s' is unknown (known: dense, sparse)",
                                weft_printable(type));
    }
    layer->mlp = layer->sparse ? sparse_mlp : NULL;
    return status;
}

static const weft__architecture architecture = {
    .block = weft__block_new,
    .forward = weft__block_forward,
    .layer = layer_of,
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    const glm_config *own = (const glm_config *)c;
    if (c->num_experts < 1 || c->num_experts > INT16_MAX)
        return weft_fail(WEFT_INVALID, "%s: n_routed_experts: expected 1 to %d, got %lld",
                         weft_config_where(config), INT16_MAX, (long long)c->num_experts);
    if (own->n_shared_experts < 1 || own->n_shared_experts > INT16_MAX ||
        !(c->routed_scaling_factor > 0) || !isfinite(c->routed_scaling_factor))
        return weft_fail(WEFT_INVALID,
                         "%s: n_shared_experts, routed_scaling_factor: expected 1 to %d and a "
                         "positive number, got %lld and %g",
                         weft_config_where(config), INT16_MAX, (long long)own->n_shared_experts,
                         c->routed_scaling_factor);
    return WEFT_OK;
}

/* ---- GGUF files ----------------------------------------------------------------------------- */

static const weft__tensor_name names[] = {
    WEFT__LATENT_NAMES,
    {"attn_k_b", "self_attn.embed_q", NULL},
    {"attn_v_b", "self_attn.unembed_out", NULL},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias", NULL},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj", NULL},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj", NULL},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj", NULL},
    {NULL, NULL, NULL},
};

enum { SOFTMAX = 1, SIGMOID = 2 };

/* Files of DeepSeek-V2, whose weights are shares of a softmax, have the same architecture, and
 * those of DeepSeek-V3 a scaled rotation. Of files that do not say, llama.cpp takes those of
 * GLM-4.7-Flash's size to be its own. */
static weft_status read_rope(weft__gguf_reader *r)
{
    const int64_t layers = weft__gguf_integer(r, "block_count", 0),
                  rows = weft_gguf_at(r->file, weft_gguf_find(r->file, "token_embd.weight"))
                             ->shape.at[0];
    const bool own = (layers == 47 || layers == 48) && rows == 154880;
    const int64_t gate = weft__gguf_integer(r, "expert_gating_func", own ? SIGMOID : SOFTMAX);
    if (gate != SIGMOID)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s.expert_gating_func: expected %d, got %lld",
                         weft_gguf_path(r->file), r->name, SIGMOID, (long long)gate);
    if (weft__gguf_value(r, "rope.scaling.type"))
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s.rope.scaling.type: expected none",
                         weft_gguf_path(r->file), r->name);
    return weft__gguf_add_rotation(r);
}

static void read(weft__gguf_reader *r)
{
    const int64_t n = weft__gguf_integer(r, "block_count", 0),
                  dense = weft__gguf_integer(r, "leading_dense_block_count", 0);
    weft__gguf_copy(r, "n_routed_experts", "expert_count");
    weft__gguf_copy(r, "n_shared_experts", "expert_shared_count");
    weft__gguf_add_integer(r, "n_group", weft__gguf_integer(r, "expert_group_count", 1));
    weft__gguf_add_integer(r, "topk_group", weft__gguf_integer(r, "expert_group_used_count", 1));
    weft__gguf_add_number(&r->out, "routed_scaling_factor",
                          weft__gguf_number(r, "expert_weights_scale", 1));
    weft__text_format(&r->out, ",\"mlp_layer_types\":[");
    for (int64_t i = 0; i < n && !r->out.failed; i++)
        weft__text_format(&r->out, "%s\"%s\"", i ? "," : "", i < dense ? "dense" : "sparse");
    weft__text_format(&r->out, "]");
}

static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    return o->kind == WEFT_ROPE_DEFAULT && f->decoder.config->interleaved
               ? WEFT_OK
               : weft__gguf_refuse(f, "a scaled rotation, or one of halves");
}

static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    weft__gguf_put_integer(f, "expert_gating_func", SIGMOID);
    weft__gguf_put_integer(f, "expert_shared_count",
                           weft_config_int(f->config, "n_shared_experts", 1));
    weft__gguf_put_number(f, "expert_weights_scale", c->routed_scaling_factor);
    weft__gguf_put_bool(f, "expert_weights_norm", c->norm_topk_prob);
    weft__gguf_put_integer(f, "expert_group_count", c->n_group);
    weft__gguf_put_integer(f, "expert_group_used_count", c->topk_group);
    return c->attention_bias ? weft__gguf_refuse(f, "attention_bias true")
                             : weft__gguf_put_dense_layers(f);
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .size = sizeof(glm_config),
    .defaults = &(const glm_config){.decoder = {.theta = 10000,
                                                .latent = {.used = true},
                                                .router_bias = "gate.e_score_correction_bias",
                                                .router_epsilon = 1e-20,
                                                .wide_router = true}}
                     .decoder,
    .architecture = &architecture,
    .finish = finish,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "deepseek2",
                                     .latents = WEFT__GGUF_ABSORBED,
                                     .plain_shares = true,
                                     .read_rope = read_rope,
                                     .read = read,
                                     .write_scaling = write_scaling,
                                     .write = write},
};

WEFT__FAMILY(glm4_moe_lite, Glm4MoeLiteForCausalLM, .own = &own);
