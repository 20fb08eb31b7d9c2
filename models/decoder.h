/* models/decoder.h -- the decoder that llama and its relatives share: pre-norm blocks of rotary
 * grouped-query attention and a gated MLP. */
#ifndef WEFT_MODELS_DECODER_H
#define WEFT_MODELS_DECODER_H

#include "weft/model.h"

/* What a family says of itself. The fields that config.json has too carry its names; a family's
 * table fills those it knows, and its constructor the rest. */
typedef struct weft__decoder_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t sliding_window, max_window_layers;
    double rms_norm_eps;
    bool attention_bias; /* on q, k and v */
    bool output_bias;    /* on o */
    bool mlp_bias;
    bool qk_norm; /* RMSNorm of each head's q and k before the rotation */
    bool use_sliding_window;
    const char *hidden_act;
    double theta; /* when config.json says none */
} weft__decoder_config;

/* The rows of a family's table that all have; `V`, `E`, `F`, `L` and `H` are the defaults. */
#define WEFT__DECODER_FIELDS(V, E, F, L, H)                                                        \
    WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, vocab_size, V),                                \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, hidden_size, E),                           \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, intermediate_size, F),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_hidden_layers, L),                     \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_attention_heads, H),                   \
        WEFT_CONFIG_OPTIONAL(DOUBLE, weft__decoder_config, rms_norm_eps, 1e-6),                    \
        WEFT_CONFIG_TEXT(weft__decoder_config, hidden_act, "silu")

/* Which layers have a window when config.json has no layer_types. */
typedef enum weft__window_rule {
    WEFT__WINDOW_NONE,
    WEFT__WINDOW_ALL, /* every layer, when sliding_window is positive */
    WEFT__WINDOW_LATE /* with use_sliding_window: those from max_window_layers on */
} weft__window_rule;

/* The module tree: model (embed_tokens, layers, norm) and lm_head, tied to the embedding when
 * has_head is false. num_key_value_heads and head_dim of 0 take their defaults. NULL, with the
 * message, on failure. */
weft_module *weft__decoder_new(const weft_config *config, weft__decoder_config *c,
                               weft__window_rule windows, bool has_head, weft_model_info *info);

/* The family's functions (weft/model.h). */
weft_array *weft__decoder_hidden(weft_module *module, weft_array *tokens,
                                 const weft_model_call *call);
weft_array *weft__decoder_head(weft_module *module, weft_array *hidden);
weft_array *weft__decoder_head_weight(weft_module *module);

#endif
