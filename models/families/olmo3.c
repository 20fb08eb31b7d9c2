/* models/families/olmo3.c -- OLMo 3 (OLMo team 2025): olmo2 with a window on three of four layers,
 * whose rotation is not scaled. */
#include "models/gguf/arch.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(50304, 4096, 11008, 32, 32, 0, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT__ATTENTION_BIAS,
};

static const weft__tensor_name names[] = {
    {"post_attention_norm", "post_attention_layernorm", NULL},
    {"post_ffw_norm", "post_feedforward_layernorm", NULL},
    {NULL, NULL, NULL},
};

static bool has_window(const weft__gguf_reader *r)
{
    return weft__gguf_integer(r, "attention.sliding_window", 0) > 0;
}

/* Both kinds of layers have the same base. */
static weft_status read_rope(weft__gguf_reader *r)
{
    const double theta = weft__gguf_number(r, "rope.freq_base", 500000);
    const bool scaled = weft__gguf_number(r, "rope.scaling.factor", 0) > 0;
    weft__text_format(&r->out,
                      ",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\"");
    weft__gguf_add_number(&r->out, "rope_theta", theta);
    weft__text_format(&r->out, "},\"full_attention\":{\"rope_type\":\"%s\"",
                      scaled ? "yarn" : "default");
    weft__gguf_add_number(&r->out, "rope_theta", theta);
    if (scaled) {
        weft__gguf_add_yarn(r);
        weft__gguf_copy(r, "attention_factor", "rope.scaling.attn_factor");
    }
    weft__text_format(&r->out, "}}");
    return WEFT_OK;
}

static weft_status write_scaling(weft__gguf_facts *f, const weft_rope_options *o)
{
    const weft_rope_options *sliding = f->decoder.ropes[1];
    if (sliding->kind != WEFT_ROPE_DEFAULT || sliding->theta != o->theta)
        return weft__gguf_refuse(f, "another rotation of layers with a window");
    return o->kind == WEFT_ROPE_DEFAULT || o->kind == WEFT_ROPE_YARN
               ? weft__gguf_put_scaling(f, o)
               : weft__gguf_refuse(f, "this scaling of the rotary embedding");
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 500000,
                                              .sliding_theta = 500000,
                                              .sliding_window_pattern = 4,
                                              .post_norm = true,
                                              .qk_norm = true,
                                              .whole_qk_norm = true},
    .windows = WEFT__WINDOW_PATTERN,
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "olmo2",
                                     .output = WEFT__GGUF_OUTPUT_ALWAYS,
                                     .claims = has_window,
                                     .windows = WEFT__GGUF_SOME,
                                     .read_rope = read_rope,
                                     .write_scaling = write_scaling},
};

WEFT__FAMILY(olmo3, Olmo3ForCausalLM, .own = &own);
