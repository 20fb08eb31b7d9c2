/* models/families/gemma2.c -- Gemma 2 (Gemma team 2024): norms before and after each branch,
 * softcapped scores and logits, a window on every other layer. */
#include "models/families/gemma.h"

static const weft_config_field fields[] = {
    WEFT__GEMMA_FIELDS(256000, 2304, 9216, 26, 8, 4, 256),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, query_pre_attn_scalar, 256),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, attn_logit_softcapping, 50),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, final_logit_softcapping, 30),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_offset, 1),
};

static weft_status finish(const weft_config *config, weft__decoder_config *c)
{
    weft__gemma_null_is_none(config, "attn_logit_softcapping", &c->attn_logit_softcapping);
    weft__gemma_null_is_none(config, "final_logit_softcapping", &c->final_logit_softcapping);
    return weft__gemma_finish(config, c);
}

/* Readers cap scores and logits, and have a window without a key of it. */
static weft_status write(weft__gguf_facts *f)
{
    const weft__decoder_config *c = f->decoder.config;
    if (!(c->attn_logit_softcapping > 0) || !(c->final_logit_softcapping > 0) || !f->windowed)
        return weft__gguf_refuse(f, "logits without a cap, or a model without windows");
    return weft__gemma_write(f);
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(
        const weft__decoder_config){.theta = 10000, .sandwich = true, .sliding_window_pattern = 2},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
    .names = weft__gemma_names,
    .gguf = &(const weft__gguf_arch){.name = "gemma2",
                                     .output = WEFT__GGUF_OUTPUT_NEVER,
                                     .windows = WEFT__GGUF_SOME,
                                     .norm_offset = 1,
                                     .wide_layers = 46,
                                     .read = weft__gemma_read,
                                     .write = write},
};

WEFT__FAMILY(gemma2, Gemma2ForCausalLM, .own = &own, .tied = true);
