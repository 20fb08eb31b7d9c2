/* models/families/ministral3.c -- Ministral 3: mistral without windows, with queries that are
 * scaled by their position (Llama 4's attention temperature). */
#include "models/config.h"
#include "models/decoder.h"
#include "models/registry.h"

static const weft_config_field fields[] = {
    WEFT__DECODER_FIELDS(131072, 4096, 14336, 34, 32),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, 8),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, 128),
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, sliding_window, 0),
};

static weft_status read_growth(const weft_config *config, weft__decoder_config *c)
{
    weft__json rope;
    weft_status status = weft__config_rope_object(config, &rope);
    if (status == WEFT_OK && rope.value == NULL)
        return weft_fail(WEFT_INVALID, "%s: rope_parameters is missing", weft_config_where(config));
    if (status == WEFT_OK)
        status = weft__json_find_number(&rope, "llama_4_scaling_beta", &c->query_beta);
    if (status == WEFT_OK)
        status = weft__json_find_int(&rope, "original_max_position_embeddings", &c->query_period);
    if (status == WEFT_OK && c->query_beta != 0 && c->query_period < 1)
        return weft__json_fail(&rope, WEFT_INVALID,
                               "llama_4_scaling_beta needs a positive "
                               "original_max_position_embeddings");
    return status;
}

static weft_module *build(const weft_config *config, bool has_head, weft_model_info *info)
{
    weft__decoder_config c = {.theta = 1e6};
    if (weft_config_read(config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK ||
        read_growth(config, &c) != WEFT_OK)
        return NULL;
    return weft__decoder_new(config, &c, WEFT__WINDOW_ALL, NULL, has_head, info);
}

const weft_model_family weft__family_ministral3 = {
    .model_type = "ministral3",
    .architecture = "Ministral3ForCausalLM",
    .build = build,
    WEFT__DECODER_FORWARD,
};
