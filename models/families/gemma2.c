/* models/families/gemma2.c -- Gemma 2 (Gemma team 2024): norms before and after each branch,
 * softcapped scores and logits, a window on every other layer. */
#include "models/families/gemma.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__GEMMA_FIELDS(256000, 2304, 9216, 26, 8, 4, 256),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, query_pre_attn_scalar, 256),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, attn_logit_softcapping, 50),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, final_logit_softcapping, 30),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_offset, 1),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000, .sandwich = true, .sliding_window_pattern = 2};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK ||
        weft__gemma_check(config, &c) != WEFT_OK)
        return NULL;
    weft__gemma_null_is_none(config, "attn_logit_softcapping", &c.attn_logit_softcapping);
    weft__gemma_null_is_none(config, "final_logit_softcapping", &c.final_logit_softcapping);
    weft__gemma_scales(&c);
    return weft__decoder_new(config, &c, WEFT__WINDOW_PATTERN, NULL, has_head, info);
}

const weft_model_family weft__family_gemma2 = {
    .model_type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
    .tied = true,
};
