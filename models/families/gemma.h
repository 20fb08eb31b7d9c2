/* models/families/gemma.h -- shared by Gemma 2, 3 and 4. */
#ifndef WEFT_MODELS_GEMMA_H
#define WEFT_MODELS_GEMMA_H

#include "models/config.h"
#include "models/gguf/arch.h"

/* Older files say "hidden_act": "gelu" but mean the tanh form; only hidden_activation counts. */
#define WEFT__GEMMA_ACTIVATION                                                                     \
    {                                                                                              \
        "hidden_activation", WEFT_CONFIG_STRING, offsetof(weft__decoder_config, hidden_act),       \
            false, 0, "gelu_pytorch_tanh"                                                          \
    }

#define WEFT__GEMMA_FIELDS(V, E, F, L, H, Hk, D)                                                   \
    WEFT__DECODER_FIELDS(V, E, F, L, H, Hk, D), WEFT__GEMMA_ACTIVATION, WEFT__ATTENTION_BIAS

/* For a key that has a default but may be null: sets the value to 0 then. */
void weft__gemma_null_is_none(const weft_config *config, const char *key, double *value);

/* Embeddings are multiplied by sqrt(hidden_size), and scores by 1 / sqrt(query_pre_attn_scalar),
 * which must be positive. */
weft_status weft__gemma_finish(const weft_config *config, weft__decoder_config *c);

/* Names of the norms after each branch, which the blocks of Gemma 2, 3 and 4 have. */
#define WEFT__GEMMA_NAMES                                                                          \
    {"post_attention_norm", "post_attention_layernorm", NULL},                                     \
        {"ffn_norm", "pre_feedforward_layernorm", NULL},                                           \
    {                                                                                              \
        "post_ffw_norm", "post_feedforward_layernorm", NULL                                        \
    }
extern const weft__tensor_name weft__gemma_names[];

/* The scale of scores, softcaps and, with two rotations, the second base, between GGUF metadata and
 * config.json; Gemma 4 has only softcaps. 0 in a file is null in config.json: no cap. */
void weft__gemma_read_cap(weft__gguf_reader *r, const char *key, double otherwise);
void weft__gemma_read(weft__gguf_reader *r);
weft_status weft__gemma_write(weft__gguf_facts *f);

#endif
