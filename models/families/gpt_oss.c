/* models/families/gpt_oss.c -- gpt-oss (OpenAI 2025): attention sinks, a window on every other
 * layer, biases everywhere, experts with clamped activations that are published in MXFP4. */
#include "models/config.h"
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(201088, 2880, 2880, 36, 64, 8, 64),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 128),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, true),
    WEFT__CONFIG_AS("attention_bias", BOOL, weft__decoder_config, output_bias, true),
    WEFT__CONFIG_AS("num_local_experts", INT, weft__decoder_config, num_experts, 128),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_experts_per_tok, 4),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, swiglu_alpha, 1.702),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, swiglu_limit, 7),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    c->moe_intermediate_size = c->intermediate_size;
    return c->swiglu_alpha > 0 && c->swiglu_limit > 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "%s: swiglu_alpha, swiglu_limit: expected positive numbers, got %g and "
                           "%g",
                           weft_config_where(config), c->swiglu_alpha, c->swiglu_limit);
}

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {"attn_sinks.weight", "self_attn.sinks", NULL},
    {"ffn_gate_inp", "mlp.router", NULL},
    {"ffn_gate_exps", "mlp.experts.gate_proj", NULL},
    {"ffn_up_exps", "mlp.experts.up_proj", NULL},
    {"ffn_down_exps", "mlp.experts.down_proj", NULL},
    {NULL, NULL, NULL},
};

/* ---- GGUF files ----------------------------------------------------------------------------- */

/* Files do not say that yarn's bounds are not rounded. */
static weft_status read_rope(weft__gguf_reader *r)
{
    const weft_status status = weft__gguf_add_rotation(r);
    const bool scaled = weft__gguf_number(r, "rope.scaling.factor", 0) > 0;
    if (status == WEFT_OK && !scaled)
        weft__text_format(&r->out, ",\"rope_scaling\":{\"rope_type\":\"default\"}");
    if (status != WEFT_OK || !scaled)
        return status;
    weft__text_format(&r->out, ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"truncate\":false");
    weft__gguf_add_yarn(r);
    weft__gguf_copy(r, "attention_factor", "rope.scaling.attn_factor");
    weft__text_format(&r->out, "}");
    return WEFT_OK;
}

static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    weft_rope_options rounded = *o;
    if (o->kind == WEFT_ROPE_DEFAULT)
        return WEFT_OK;
    if (o->kind != WEFT_ROPE_YARN || !o->no_truncate)
        return weft__gguf_refuse(f, "this scaling of the rotary embedding");
    rounded.no_truncate = false;
    return weft__gguf_put_scaling(f, &rounded);
}

/* Readers know these values, and windows on even layers. */
static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    bool alternate = true;
    for (int64_t i = 0; i < f->n_layers; i++)
        alternate = alternate && (f->decoder.layers[i].window > 0) == (i % 2 == 0);
    if (!alternate)
        return weft__gguf_refuse(f, "another order of layers with a window");
    if (!c->attention_bias)
        return weft__gguf_refuse(f, "attention_bias false");
    return c->swiglu_alpha == 1.702 && c->swiglu_limit == 7
               ? WEFT_OK
               : weft__gguf_refuse(f, "another swiglu_alpha or swiglu_limit");
}

static const weft_rope_options yarn = {
    .kind = WEFT_ROPE_YARN, .factor = 32, .original_max_position = 4096, .no_truncate = true};

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 150000,
                                              .rotation = &yarn,
                                              .sliding_window_pattern = 2,
                                              .sinks = true,
                                              .norm_topk_prob = true,
                                              .alternating = true},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "gpt-oss",
                                     .biases = true,
                                     .output = WEFT__GGUF_OUTPUT_ALWAYS,
                                     .windows = WEFT__GGUF_SOME,
                                     .read_rope = read_rope,
                                     .write_scaling = write_scaling,
                                     .write = write},
};

WEFT__FAMILY(gpt_oss, GptOssForCausalLM, .own = &own);
