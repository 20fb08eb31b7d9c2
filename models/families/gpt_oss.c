/* models/families/gpt_oss.c -- gpt-oss (OpenAI 2025): attention sinks, a window on every other
 * layer, biases everywhere, experts with clamped activations that are published in MXFP4. */
#include "models/config.h"
#include "models/family.h"

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

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){.theta = 150000,
                                              .sliding_window_pattern = 2,
                                              .sinks = true,
                                              .norm_topk_prob = true,
                                              .alternating = true},
    .finish = finish,
    .windows = WEFT__WINDOW_PATTERN,
};

WEFT__FAMILY(gpt_oss, GptOssForCausalLM, .own = &own);
