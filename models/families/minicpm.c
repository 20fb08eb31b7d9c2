/* models/families/minicpm.c -- MiniCPM 1, 2 and 4 (Hu et al. 2024): llama with scales for
 * embeddings, residual branches and the input of the head. MiniCPM 5 is a llama. */
#include <math.h>

#include "models/decoder.h"
#include "models/registry.h"

typedef struct scalars {
    double scale_emb, scale_depth, dim_model_base; /* 0: none */
    int64_t num_experts;
} scalars;

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(32000, 4096, 11008, 32, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 0),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 0),
    WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, false),
};

static const weft_config_field scalar_fields[] = {
    WEFT_CONFIG_OPTIONAL(DOUBLE, scalars, scale_emb, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, scalars, scale_depth, 0),
    WEFT_CONFIG_OPTIONAL(DOUBLE, scalars, dim_model_base, 0),
    WEFT_CONFIG_OPTIONAL(INT, scalars, num_experts, 0),
};

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 10000};
    scalars s;
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK ||
        weft_config_read(config, scalar_fields, sizeof scalar_fields / sizeof *scalar_fields, &s) !=
            WEFT_OK)
        return NULL;
    if (s.num_experts > 0) {
        weft_fail(WEFT_UNSUPPORTED, "%s: num_experts: minicpm with experts is unsupported",
                  weft_config_where(config));
        return NULL;
    }
    c.output_bias = c.attention_bias;
    c.embedding_scale = s.scale_emb;
    if (s.scale_depth != 0 && c.num_hidden_layers > 0)
        c.residual_scale = s.scale_depth / sqrt((double)c.num_hidden_layers);
    if (s.dim_model_base != 0 && c.hidden_size > 0)
        c.hidden_scale = s.dim_model_base / (double)c.hidden_size;
    return weft__decoder_new(config, &c, WEFT__WINDOW_NONE, NULL, has_head, info);
}

const weft_model_family weft__family_minicpm = {
    .model_type = "minicpm",
    .architecture = "MiniCPMForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
    .tied = true,
};
