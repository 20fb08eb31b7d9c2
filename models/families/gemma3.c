/* models/families/gemma3.c -- Gemma 3 (Gemma team 2025), also as part of the multimodal model: five
 * layers with a window and a small rotary base for each one without. */
#include "models/families/gemma.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__GEMMA_FIELDS(262208, 2304, 9216, 26, 8, 4, 256),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 4096),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window_pattern, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, query_pre_attn_scalar, 256),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, attn_logit_softcapping, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, final_logit_softcapping, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_offset, 1),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {
        .theta = 1e6, .sliding_theta = 1e4, .sandwich = true, .qk_norm = true};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK ||
        weft__gemma_check(config, &c) != WEFT_OK)
        return NULL;
    if (weft_config_bool(config, "use_bidirectional_attention", false)) {
        weft_fail(WEFT_UNSUPPORTED, "%s: use_bidirectional_attention is unsupported",
                  weft_config_where(config));
        return NULL;
    }
    if (c.sliding_window_pattern == 0)
        c.sliding_window_pattern = weft_config_int(config, "_sliding_window_pattern", 6);
    weft__gemma_scales(&c);
    return weft__decoder_new(config, &c, WEFT__WINDOW_PATTERN, NULL, has_head, info);
}

#define GEMMA3(name, class)                                                                        \
    const weft_model_family weft__family_##name = {                                                \
        .model_type = #name,                                                                       \
        .architecture = #class,                                                                    \
        .build = build,                                                                            \
        WEFT__DECODER_FORWARD,                                                                     \
        .tied = true,                                                                              \
    }
GEMMA3(gemma3, Gemma3ForConditionalGeneration);
GEMMA3(gemma3_text, Gemma3ForCausalLM);
#undef GEMMA3
