/* models/families/gemma.h -- shared by Gemma 2, 3 and 4: rows of their configuration tables, and
 * the scale of the embedding. */
#ifndef WEFT_MODELS_GEMMA_H
#define WEFT_MODELS_GEMMA_H

#include <math.h>

#include "models/config.h"
#include "models/decoder.h"

/* Older files say "hidden_act": "gelu" but mean the tanh form; only hidden_activation counts. */
#define WEFT__GEMMA_ACTIVATION                                                                     \
    {                                                                                              \
        "hidden_activation", WEFT_CONFIG_STRING, offsetof(weft__decoder_config, hidden_act),       \
            false, 0, "gelu_pytorch_tanh"                                                          \
    }

#define WEFT__GEMMA_FIELDS(V, E, F, L, H, Hk, D)                                                   \
    WEFT__DECODER_FIELDS(V, E, F, L, H), WEFT__GEMMA_ACTIVATION,                                   \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, num_key_value_heads, Hk),                  \
        WEFT_CONFIG_OPTIONAL(INT, weft__decoder_config, head_dim, D),                              \
        WEFT_CONFIG_OPTIONAL(BOOL, weft__decoder_config, attention_bias, false)

/* For a key that has a default but may be null: sets the value to 0 then. */
static inline void weft__gemma_null_is_none(const weft_config *config, const char *key,
                                            double *value)
{
    if (weft__config_mentions(config, key) && !weft_config_has(config, key))
        *value = 0;
}

/* The default of query_pre_attn_scalar is only for absent keys: null or 0 is an error. */
static inline weft_status weft__gemma_check(const weft_config *config,
                                            const weft__decoder_config *c)
{
    const char *key = "query_pre_attn_scalar", *where = weft_config_where(config);
    if (weft__config_mentions(config, key) && !weft_config_has(config, key))
        return weft_fail(WEFT_INVALID, "%s: %s: expected a positive number, got null", where, key);
    if (!(c->query_pre_attn_scalar > 0) || !isfinite(c->query_pre_attn_scalar))
        return weft_fail(WEFT_INVALID, "%s: %s: expected a positive number, got %g", where, key,
                         c->query_pre_attn_scalar);
    return WEFT_OK;
}

/* Embeddings are multiplied by sqrt(hidden_size), and scores by 1 / sqrt(query_pre_attn_scalar) in
 * families that have it. */
static inline void weft__gemma_scales(weft__decoder_config *c)
{
    c->output_bias = c->attention_bias;
    c->embedding_scale = sqrt((double)c->hidden_size);
    if (c->query_pre_attn_scalar > 0)
        c->attention_scale = 1 / sqrt(c->query_pre_attn_scalar);
}

#endif
