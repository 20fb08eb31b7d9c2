/* models/encoder.h -- encoders like BERT (Google 2018): embeddings of tokens, positions and
 * types, then layers of attention in both directions and an MLP, each followed by a LayerNorm. */
#ifndef WEFT_MODELS_ENCODER_H
#define WEFT_MODELS_ENCODER_H

#include "models/names.h"
#include "weft/layers.h"
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

/* ---- encoder_head.c -------------------------------------------------------------------------- */

/* From the vector of a text to its logits. */
typedef enum weft__encoder_head_kind {
    WEFT__HEAD_BERT,    /* classifier(tanh(model.pooler.dense)) */
    WEFT__HEAD_ROBERTA, /* classifier.out_proj(tanh(classifier.dense)) */
    WEFT__HEAD_MODERN   /* classifier(head.norm(activation(head.dense))) */
} weft__encoder_head_kind;

/* The root of a tree. Without labels it has only the encoder. */
typedef struct weft__encoder_model {
    weft_module module;
    weft_module *model, *head, *classifier; /* classifier NULL: no labels */
    weft_module **pooler;                   /* the field in the encoder of BERT */
    weft__encoder_head_kind kind;
    weft_activation *activation;
    bool mean;        /* of the hidden states of all tokens; or the first one's */
    const char *norm; /* the path of a parameter that is on the encoder's device */
} weft__encoder_model;

/* Adds a head with n rows, with random weights as in transformers; E = hidden_size. */
weft_status weft__encoder_classify(weft_module *module, const weft_config *config, int64_t E,
                                   int n);
/* With labels, the vector of each token's text, in place of the hidden states x (B, L, E). */
weft_array *weft__encoder_pooled(const weft__encoder_model *m, weft_array *x,
                                 const weft_model_call *call);
/* The names of transformers' class with a head. */
const weft__naming *weft__encoder_naming(const weft_module *module);

/* ---- parts for encoders with other layers --------------------------------------------------- */

/* What the layers of a forward pass share. */
typedef struct weft__encoder_step {
    weft_array *lengths;      /* (B), or NULL */
    weft_array *first, *ends; /* (B, L): the tokens of each one's sequence; NULL: all */
    const void *extra;        /* the architecture's own */
    /* Of the call, and of the layer that is computed; NULL: not recorded. */
    weft_attention_record *records, *record;
} weft__encoder_step;

/* x (B, L, E) through a layer: (B, L, E) */
typedef weft_array *weft__encoder_layer(weft_module *layer, weft_array *x,
                                        const weft__encoder_step *step);

/* The step of a call with tokens (B, L), on the default device. */
weft__encoder_step weft__encoder_begin(const weft_model_call *call);
/* Attention of q, k, v (B, L, H, D) with these options, over the tokens of each one's sequence. */
weft_array *weft__encoder_attention(weft_array *q, weft_array *k, weft_array *v,
                                    weft_attention_options options, const weft__encoder_step *step);
/* x (B, L, E) through all layers of a list. */
weft_array *weft__encoder_layers(weft_module *layers, weft__encoder_layer *forward, weft_array *x,
                                 const weft__encoder_step *step, bool checkpoint);
/* An error array for more tokens than positions; NULL: they fit. */
weft_array *weft__encoder_too_long(const weft_array *tokens, int64_t positions);
/* An activation by its name in config.json; NULL, with a message that names the key: unknown. */
weft_activation *weft__encoder_activation(const weft_config *config, const char *key,
                                          const char *name);

/* A size by its name in config.json. */
typedef struct weft__encoder_size {
    const char *name;
    int64_t value, least, most; /* `most` keeps every product of two sizes within 64 bits */
} weft__encoder_size;
weft_status weft__encoder_check(const weft_config *config, const weft__encoder_size *sizes, int n);
/* Checks that E = hidden_size is divisible by the number of heads. */
weft_status weft__encoder_check_heads(const weft_config *config, int64_t E, int64_t H);
/* x on the default device; NULL for NULL. */
weft_array *weft__encoder_here(weft_array *x);

/* The literal of a family, whose file defines `build`. */
#define WEFT__ENCODER(name, type, class, record)                                                   \
    const weft_model_family weft__family_##name = {                                                \
        .model_type = type,                                                                        \
        .architecture = #class,                                                                    \
        .build = build,                                                                            \
        .hidden = weft__encoder_hidden,                                                            \
        .head = weft__encoder_head,                                                                \
        .rename = weft__encoder_rename,                                                            \
        .own = record,                                                                             \
    }

#endif
