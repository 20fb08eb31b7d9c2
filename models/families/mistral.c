/* models/families/mistral.c -- Mistral (Jiang et al. 2023): llama with a window on every layer. */
#include "models/config.h"
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 14336, 32, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return NULL;
    /* null means no window; files without the key are of the first release, which has one. */
    if (!weft__config_mentions(config, "sliding_window"))
        c.sliding_window = 4096;
    return weft__decoder_new(config, &c, WEFT__WINDOW_ALL, NULL, has_head, info);
}

#define MISTRAL(name, class)                                                                       \
    const weft_model_family weft__family_##name = {                                                \
        .model_type = #name,                                                                       \
        .architecture = #class,                                                                    \
        .build = build,                                                                            \
        WEFT__DECODER_FORWARD,                                                                     \
    }
MISTRAL(mistral, MistralForCausalLM);
MISTRAL(ministral, MinistralForCausalLM); /* layer_types lists the layers with a window */
MISTRAL(mistral3,
        Mistral3ForConditionalGeneration); /* multimodal; its text_config may lack a type */
#undef MISTRAL
