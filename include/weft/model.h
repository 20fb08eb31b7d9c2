/* weft/model.h -- language models: configuration, families, loading, forward.
 *
 *     weft_model *model;
 *     weft_status status = weft_model_load("path/to/checkpoint", NULL, &model);
 *     weft_cache **caches = weft_model_new_caches(model, NULL);
 *     weft_array *logits = weft_model_forward(model, tokens, &(weft_model_call){.caches = caches});
 *
 * A family is a name, a constructor and a forward; weft_model_register adds a program's own.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/cache.h"
#include "weft/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- config.json ---------------------------------------------------------------------------- */

/* A parsed configuration. A key is looked up in "text_config" first and then at the top; null is as
 * absent. */
typedef struct weft_config weft_config;

/* Reads a configuration from a file, or from text, `where` being its name in messages. Free *out
 * with weft_config_free. WEFT_IO when the file cannot be read, WEFT_INVALID for malformed JSON. */
WEFT_NODISCARD WEFT_API weft_status weft_config_load(const char *path, weft_config **out)
    WEFT_NONNULL(2);
WEFT_NODISCARD WEFT_API weft_status weft_config_parse(const char *text, const char *where,
                                                      weft_config **out) WEFT_NONNULL(3);
WEFT_API void weft_config_free(weft_config *config); /* NULL is accepted */

/* The text as it was read, and its name in messages; both owned by the config. */
WEFT_API const char *weft_config_text(const weft_config *config) WEFT_NONNULL(1);
WEFT_API const char *weft_config_where(const weft_config *config) WEFT_NONNULL(1);

/* Whether a key is there and not null. */
WEFT_API bool weft_config_has(const weft_config *config, const char *key);
/* The value of a key, or `fallback` if it is absent or of another type. A string belongs to the
 * config. */
WEFT_API int64_t weft_config_int(const weft_config *config, const char *key, int64_t fallback);
WEFT_API double weft_config_double(const weft_config *config, const char *key, double fallback);
WEFT_API bool weft_config_bool(const weft_config *config, const char *key, bool fallback);
WEFT_API const char *weft_config_string(const weft_config *config, const char *key,
                                        const char *fallback);

/* A struct's fields by the keys of config.json, which are the fields' names. */
typedef enum weft_config_type {
    WEFT_CONFIG_INT,    /* int64_t */
    WEFT_CONFIG_DOUBLE, /* double */
    WEFT_CONFIG_BOOL,   /* bool */
    WEFT_CONFIG_STRING  /* const char *, the config's; fallback is text */
} weft_config_type;

typedef struct weft_config_field {
    const char *name;
    weft_config_type type;
    size_t offset;
    bool required;
    double fallback; /* when absent */
    const char *text;
} weft_config_field;

#define WEFT_CONFIG_REQUIRED(kind, T, member)                                                      \
    {                                                                                              \
#member, WEFT_CONFIG_##kind, offsetof(T, member), true, 0, NULL                            \
    }
#define WEFT_CONFIG_OPTIONAL(kind, T, member, value)                                               \
    {                                                                                              \
#member, WEFT_CONFIG_##kind, offsetof(T, member), false, (value), NULL                     \
    }
#define WEFT_CONFIG_TEXT(T, member, value)                                                         \
    {                                                                                              \
#member, WEFT_CONFIG_STRING, offsetof(T, member), false, 0, (value)                        \
    }

/* Fills the struct `out` from n fields. WEFT_INVALID with one message that lists every required key
 * that is absent and every value of a wrong type. */
WEFT_NODISCARD WEFT_API weft_status weft_config_read(const weft_config *config,
                                                     const weft_config_field *fields, int n,
                                                     void *out);

/* Fills *out with the rotary embedding of a configuration, in the older style (rope_theta,
 * rope_scaling) or the newer one (rope_parameters). `theta` is the default. The lists of factors
 * belong to the config. WEFT_INVALID for malformed values, WEFT_UNSUPPORTED for an unknown kind. */
WEFT_NODISCARD WEFT_API weft_status weft_config_rope(const weft_config *config, int64_t head_dim,
                                                     double theta, weft_rope_options *out);

/* ---- Families ------------------------------------------------------------------------------- */

/* What a layer's attention worked on. */
typedef struct weft_attention_record {
    int64_t source;      /* the layer whose keys and values these are: usually its own */
    weft_array *queries; /* (B, L, H, D), rotated, before the scale of the scores */
    weft_array *keys;    /* (B, S, Hk, D), rotated: all that the queries attend to */
} weft_attention_record;

/* What there is to know of a layer's work without its arrays. */
typedef struct weft_layer_summary {
    weft_array *rms; /* (B, L) float32: root of the mean square of the residual stream behind it */
    weft_array *experts; /* (B L, k) int32, as its router chose them; NULL: it has none */
    weft_array *weights; /* (B L, k) float32 */
} weft_layer_summary;

/* How a forward is called. All zero: the whole sequence, from position 0, without caches. */
typedef struct weft_model_call {
    weft_cache **caches;   /* one for each of the first n_caches layers, or NULL */
    weft_array *positions; /* (L) or (B, L) int32; NULL: 0, 1, ... after what the caches hold */
    weft_array *mask;      /* besides causality, as weft_attention's; NULL: none */
    /* (B, L) int32: where in its row the sequence of each token begins, for rows that hold several,
     * one behind another: none sees another, in attention and in layers with states. Positions are
     * then to start anew with each. Without caches, and where the family takes it
     * (weft_model_info's takes_first). NULL: each row is one sequence. */
    weft_array *first;
    /* For steps that are compiled (weft_model_info's takes_offset): int32 (1), the position of the
     * first token, the caches being called by append. NULL: as the caches count. */
    weft_array *offset;
    /* Room for all layers, whose arrays are set (weft_set) and then the caller's to drop; not in
     * compiled functions. A family of a program's own may leave it as it is. NULL: nothing is kept.
     */
    weft_attention_record *records;
    /* As `records`, but also in compiled functions that have the arrays in their state. */
    weft_layer_summary *summaries;
    bool checkpoint; /* compute each layer's inside again for its gradient */
    /* NEFTune's alpha (Jain et al. 2023): to the embeddings (B, L, E) noise is added that is
     * uniform in +-alpha / sqrt(L E), with a key of the default generator. Where the family takes
     * it (weft_model_info's takes_noise). 0: none. */
    double embedding_noise;
} weft_model_call;

/* General properties of a model, filled by the family's `build`. */
typedef struct weft_model_info {
    int64_t n_layers;
    int64_t n_caches; /* layers with keys and values of their own, which are the first; 0: all */
    int64_t vocab_size;
    int64_t n_labels; /* of a classifier (weft_model_classify); 0: it predicts tokens */
    int64_t hidden_size;
    int64_t max_positions; /* 0: unknown */
    double softcap;        /* of the logits; 0: none */
    bool tied;             /* the output head is the embedding */
    bool takes_offset;     /* the family supports weft_model_call.offset */
    bool takes_first;      /* and weft_model_call.first */
    bool takes_noise;      /* and weft_model_call.embedding_noise */
    /* Some layers keep states in place of keys and values, which cannot be trimmed. Drafts are then
     * unsupported, and the sequences of a batch are computed one by one. */
    bool keeps_states;
} weft_model_info;

enum { WEFT_LAYER_STATES = 2 /* at most */ };

/* The attention of one layer. */
typedef struct weft_layer_attention {
    int64_t window; /* 0: none */
    int64_t n_kv_heads, head_dim;
    weft_dtype dtype; /* of keys and values */
    weft_device *device;
    /* > 0: in place of keys and values the layer keeps so many states, float32, of one text's
     * shapes. */
    int n_states;
    weft_dims states[WEFT_LAYER_STATES];
} weft_layer_attention;

typedef struct weft_model_family {
    const char *model_type;
    /* The module tree, whose paths are the tensors' names ("model.layers.0...", "lm_head.weight").
     * `has_head`: there is a separate output matrix. NULL, with the message, on failure. */
    weft_module *(*build)(const weft_config *config, bool has_head, weft_model_info *info);
    /* tokens (B, L) int32 -> hidden states (B, L, E), the final norm applied. */
    weft_array *(*hidden)(weft_module *module, weft_array *tokens, const weft_model_call *call);
    /* Hidden states (..., E) -> logits (..., V). */
    weft_array *(*head)(weft_module *module, weft_array *hidden);
    /* The output matrix (V, E), for losses that never hold the logits; NULL: there is none. */
    weft_array *(*head_weight)(weft_module *module);
    /* Of a layer that has a cache. NULL: no windows, and what caches need is not known. */
    void (*attention)(weft_module *module, int64_t layer, weft_layer_attention *out);
    /* A layer's cache of the family's own; NULL: weft_cache_new_with, by the caller's options. */
    weft_cache *(*new_cache)(weft_module *module, int64_t layer);
    /* `hidden` and `head` move what they compute to where the parameters are that compute it, so
     * that weft_model_options.gpu_layers can part them. A parameter is in layer N when "layers.N."
     * is in its path, and in the input embedding when "embed_tokens" is. */
    bool follows_parameters;
    bool tied; /* a new model's head is the embedding unless tie_word_embeddings says otherwise */
    /* A tensor's name -> its path, or false to drop it; NULL: the usual prefixes are stripped
     * ("language_model.model.", ...) and other modalities' towers dropped. */
    weft_nn_rename *rename;
} weft_model_family;

/* Adds a family; the literal must outlive the process's use of it. WEFT_INVALID when the model_type
 * is taken. */
WEFT_NODISCARD WEFT_API weft_status weft_model_register(const weft_model_family *family)
    WEFT_NONNULL(1);
/* By model_type; NULL when unknown. */
WEFT_API const weft_model_family *weft_model_family_find(const char *model_type);
WEFT_API int weft_model_family_count(void);
WEFT_API const weft_model_family *weft_model_family_at(int i);

/* ---- Models --------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

typedef struct weft_model_options {
    weft_dtype dtype;    /* float32, float16 or bfloat16; 0: as in the checkpoint; for
                          * a GGUF file in blocks weft_device_matrix_dtype */
    weft_device *device; /* NULL: the thread's default */
    /* How much of the model is on the device, the rest being on the CPU. 0: everything; N > 0: the
     * last N layers and, when there are fewer than N, the final norm and the output head (with an
     * embedding that is tied to it); below 0: nothing. Caches and adapters are where their layer
     * is. */
    int64_t gpu_layers;
    /* Stores the weights of linears, embeddings and experts in that many bits (2, 3, 4, 5, 6 or 8;
     * affine, in groups of 64), where rows are whole groups and they are not in an encoding yet;
     * routers stay as they are. 0: as in the checkpoint. */
    int64_t quantize;
    /* Linears compute weft_linear_int8: long prompts and large batches are read faster where the
     * device rounds, with the rounding of activations to 8 bits. */
    bool int8_activations;
} weft_model_options;

/* Loads config.json and the weights from a folder, or a GGUF file, which has both: by its name, or
 * from a folder where it is the only one and no safetensors file is beside it (else an error that
 * lists them). Matrices in its blocks stay where they are in the file, and are frozen. The message
 * of a failure names the file and lists all tensors that are missing, unexpected or of another
 * shape. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_model_load(const char *folder,
                                                    const weft_model_options *options,
                                                    weft_model **out);

/* Creates a model with random weights; free it with weft_model_free. The configuration is copied.
 * WEFT_UNSUPPORTED when no family has its model_type, WEFT_INVALID when it is malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_model_new(const weft_config *config, weft_model **out)
    WEFT_NONNULL(2);

/* Writes config.json and model.safetensors to a folder, which is created if necessary. WEFT_INVALID
 * when the tree has adapters, WEFT_IO when the files cannot be written. */
WEFT_NODISCARD WEFT_API weft_status weft_model_save(weft_model *model, const char *folder)
    WEFT_NONNULL(1);

typedef struct weft_gguf_model_options {
    /* How matrices are stored: F32 (also for NULL), F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K. The
     * one that gives the logits and those whose rows are not whole blocks are Q8_0 or F16 at least,
     * everything else is F32. */
    const char *type;
    /* The folder or the GGUF file whose tokenizer and chat templates the file gets, so that text
     * can be made from it alone. NULL: none. */
    const char *text;
    /* "PATTERN=TYPE,...": the type of matrices whose path ("model.layers.0.mlp.up_proj.weight") has
     * the pattern in it, * standing for anything; of several the first. A pattern that is in no
     * path is WEFT_INVALID. NULL: none. */
    const char *overrides;
    weft_save_progress progress;
} weft_gguf_model_options;

/* Writes a GGUF file. WEFT_UNSUPPORTED for models and tokenizers that the format, or
 * weft_model_load and weft_tokenizer_load from it, cannot express; the message says what. Adapters
 * must have been removed. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_model_save_gguf(weft_model *model, const char *path,
                                                         const weft_gguf_model_options *options);

WEFT_API void weft_model_free(weft_model *model); /* NULL is accepted */

/* The module tree, description, family and configuration of a model, which owns them. */
WEFT_API weft_module *weft_model_module(weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_model_info *weft_model_info_of(const weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_model_family *weft_model_family_of(const weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_config *weft_model_config(const weft_model *model) WEFT_NONNULL(1);

/* The labels of a classifier, in the order of its logits. Zeroed: none. */
typedef struct weft_labels {
    char **at; /* (n), owned */
    int n;
    bool open; /* weft_dataset_options.labels: rows add these, and their texts are not read */
} weft_labels;

/* Appends a copy of `label`, also of one that is there already. WEFT_MEMORY when there is no
 * memory; then nothing has changed. */
WEFT_NODISCARD WEFT_API weft_status weft_labels_add(weft_labels *labels, const char *label);
/* The place of `label`; -1 when it is not there. */
WEFT_API int weft_labels_index(const weft_labels *labels, const char *label);
/* Frees the copies and makes the list empty. */
WEFT_API void weft_labels_free(weft_labels *labels);

/* Makes a classifier of the model, as transformers' AutoModelForSequenceClassification: in place of
 * the output head a linear "score" without a bias, whose n rows are drawn from a normal
 * distribution with the configuration's initializer_range (0.02). The logits of a text are those
 * behind its last token. Not for generating. WEFT_INVALID for fewer than two labels, a model with
 * an adapter or with labels; WEFT_UNSUPPORTED for a family with a head of its own. */
WEFT_NODISCARD WEFT_API weft_status weft_model_classify(weft_model *model,
                                                        const char *const *labels, int n);
WEFT_API const char *weft_model_label(const weft_model *model, int64_t i); /* NULL: none */

/* The ids that end a text: those of config.json and generation_config.json, or, where they have
 * none, the eos_token of the folder's tokenizer; of a GGUF file, its
 * eos, eot and eom, and where it has neither of the last two, control tokens with the texts of
 * such ("<|im_end|>"). The model's. */
WEFT_API const int32_t *weft_model_eos(const weft_model *model, int *n) WEFT_NONNULL(1, 2);

/* The parts of the checkpoint that were left out: those that are not of the text model, and a head
 * that tie_word_embeddings makes superfluous, as in "vision_tower, lm_head (tie_word_embeddings)";
 * NULL: none. The model's. */
WEFT_API const char *weft_model_skipped(const weft_model *model) WEFT_NONNULL(1);

/* tokens (B, L) int32 -> hidden (B, L, E) -> logits (B, L, V). NULL call: all zero. */
WEFT_API weft_array *weft_model_hidden(weft_model *model, weft_array *tokens,
                                       const weft_model_call *call) WEFT_NONNULL(1);
WEFT_API weft_array *weft_model_head(weft_model *model, weft_array *hidden) WEFT_NONNULL(1);
WEFT_API weft_array *weft_model_forward(weft_model *model, weft_array *tokens,
                                        const weft_model_call *call);

/* The output matrix (V, E) as the slots hold it now, perhaps encoded, for weft_linear_cross_entropy
 * with weft_model_info's softcap; NULL when the family has none, or there is an adapter around it.
 * A borrowed array: the slot's. */
WEFT_API weft_array *weft_model_head_weight(weft_model *model) WEFT_NONNULL(1);

/* What caches by the options are, before they are made. */
typedef struct weft_cache_plan {
    int64_t max_context; /* below 0: all tokens are kept */
    int64_t sink_tokens;
    bool reduced;          /* to fewer than the model's positions, because of the memory */
    int64_t token_bytes;   /* for each token below max_context; 0: not known */
    int64_t context_bytes; /* when max_context tokens have come; 0: not known, or unbounded */
} weft_cache_plan;

/* By default caches may take up to 85% of their device's memory, and of weft_memory_limit, with
 * the parameters that are there, or with weft_memory_active where that is more; but at least 256
 * tokens. WEFT_INVALID for options that make no sense. */
WEFT_NODISCARD WEFT_API weft_status weft_model_plan_caches(weft_model *model,
                                                           const weft_cache_options *options,
                                                           weft_cache_plan *out) WEFT_NONNULL(3);

/* Caches for one sequence or batch, one a layer (weft_model_info's n_caches of them). NULL options:
 * all zero. NULL, with the message, without memory and for options that make no sense. */
WEFT_API weft_cache **weft_model_new_caches(weft_model *model, const weft_cache_options *options);
WEFT_API void weft_model_free_caches(weft_model *model, weft_cache **caches); /* NULL: accepted */

#ifdef __cplusplus
}
#endif
#endif
