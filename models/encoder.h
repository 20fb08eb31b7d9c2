/* models/encoder.h -- encoders like BERT (Google 2018): embeddings of tokens, positions and
 * types, then layers of attention in both directions and an MLP, each followed by a LayerNorm. */
#ifndef WEFT_MODELS_ENCODER_H
#define WEFT_MODELS_ENCODER_H

#include "weft/model.h"

/* Fields with their names in config.json. The family's table reads them. */
typedef struct weft__encoder_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t max_position_embeddings, type_vocab_size, pad_token_id;
    double layer_norm_eps;
    const char *hidden_act, *position_embedding_type;
    bool is_decoder;
} weft__encoder_config;

/* The rows of a table; the arguments are defaults. */
#define WEFT__ENCODER_FIELDS(V, E, F, L, H, positions, types, pad)                                 \
    WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, vocab_size, V),                                \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, hidden_size, E),                           \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, intermediate_size, F),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, num_hidden_layers, L),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, num_attention_heads, H),                   \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, max_position_embeddings, positions),       \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, type_vocab_size, types),                   \
        WEFT_CONFIG_OPTIONAL(INT, weft__encoder_config, pad_token_id, pad),                        \
        WEFT_CONFIG_OPTIONAL(DOUBLE, weft__encoder_config, layer_norm_eps, 1e-12),                 \
        WEFT_CONFIG_OPTIONAL(BOOL, weft__encoder_config, is_decoder, false),                       \
        WEFT_CONFIG_TEXT(weft__encoder_config, hidden_act, "gelu"),                                \
        WEFT_CONFIG_TEXT(weft__encoder_config, position_embedding_type, "absolute")

typedef struct weft__encoder_kind {
    const weft_config_field *fields;
    int n_fields;
    /* The first position is pad_token_id + 1. Padding tokens in a text have position pad_token_id
     * and are not counted. */
    bool after_padding;
} weft__encoder_kind;

/* The tree is model (embeddings, encoder, pooler if the checkpoint has one). */
weft_module *weft__encoder_build(const weft__encoder_kind *kind, const weft_config *config,
                                 weft_model_info *info);

/* The functions of the families of encoders (weft/model.h). Tensors may be named as in
 * transformers' base model ("encoder.layer.0...") or as in its models with heads
 * ("bert.encoder.layer.0..."), whose heads are not used. */
weft_array *weft__encoder_hidden(weft_module *module, weft_array *tokens,
                                 const weft_model_call *call);
weft_array *weft__encoder_head(weft_module *module, weft_array *hidden);
bool weft__encoder_rename(void *context, const char *name, char *out, size_t size);

/* The literal of a family, whose file defines `build`. */
#define WEFT__ENCODER(name, type, class)                                                           \
    const weft_model_family weft__family_##name = {                                                \
        .model_type = type,                                                                        \
        .architecture = #class,                                                                    \
        .build = build,                                                                            \
        .hidden = weft__encoder_hidden,                                                            \
        .head = weft__encoder_head,                                                                \
        .rename = weft__encoder_rename,                                                            \
    }

#endif
