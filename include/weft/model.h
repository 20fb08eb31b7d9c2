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
/* The value of a key, or `fallback` if it is absent, null or of another type; a null bool is false,
 * as in Python. A string belongs to the config. */
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
    double fallback; /* when absent or null; a null bool is false */
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

/* The inputs of a layer's attention. */
typedef struct weft_attention_record {
    int64_t source;      /* the layer that the keys and values come from, usually the same */
    weft_array *queries; /* (B, L, H, D), rotated, before the scale of the scores */
    weft_array *keys;    /* (B, S, Hk, D), rotated: all that the queries attend to */
    bool with_weights;   /* set by the caller: also record the weights */
    /* (B, L, H, S) float32: the share of each key in each query's sum of values, 0 for masked keys.
     * NULL without with_weights, and for quantized keys. */
    weft_array *weights;
} weft_attention_record;

/* Statistics of a layer. */
typedef struct weft_layer_summary {
    weft_array *rms;     /* (B, L) float32: root mean square of the residual stream after it */
    weft_array *experts; /* (B L, k) int32: the router's choice; NULL without experts */
    weft_array *weights; /* (B L, k) float32: their weights */
} weft_layer_summary;

/* How a forward is called. All zero: the whole sequence, from position 0, without caches. */
typedef struct weft_model_call {
    weft_cache **caches;   /* weft_model_info.n_caches of them, or NULL */
    weft_array *positions; /* (L) or (B, L) int32; NULL: 0, 1, ... after what the caches hold */
    weft_array *mask;      /* in addition to causality, as in weft_attention; may be NULL. Not for
                            * encoders */
    /* For packed rows: (B, L) int32, the index in its row where each token's sequence begins.
     * Sequences of a row do not see each other, in attention and recurrent layers; `positions` must
     * restart with each. Without caches, and only if weft_model_info.takes_first. NULL: each row is
     * one sequence. */
    weft_array *first;
    /* For several sequences that share tokens, such as a prompt, which are then computed once:
     * unpack (B, L) int32 has the flat index into `tokens` of each sequence's tokens, for padding
     * any, and pack, with the shape of `tokens`, the flat index into unpack of each token in one of
     * its sequences, -1 for padding. Attention is that of the sequences; what a token sees before
     * itself must be the same in all of its sequences. With `positions` (of `tokens`), without
     * caches, mask and `first`, and only if weft_model_info.takes_shared. NULL: each row is a
     * sequence. */
    weft_array *pack, *unpack;
    /* For encoders: (B) int32, the number of tokens of each row; no token sees those after them,
     * whose hidden states are undefined. NULL: all. Other models ignore it, since no token of
     * theirs sees later ones. */
    weft_array *lengths;
    /* For compiled steps, if weft_model_info.takes_offset: int32 (1), or (B) with one token for
     * each row, the position of the first token; caches are then used by weft_cache_append. NULL:
     * the caches' position. */
    weft_array *offset;
    /* Room for all layers, or NULL. The forward sets the arrays (weft_set) and the caller drops
     * them. Not in compiled functions. A program's own family may ignore it. */
    weft_attention_record *records;
    /* The same, also in compiled functions that have the arrays in their state. */
    weft_layer_summary *summaries;
    bool checkpoint; /* gradient checkpointing per layer */
    /* NEFTune's alpha (Jain et al. 2023): adds noise to the embeddings (B, L, E), uniform in
     * +-alpha / sqrt(L E), with a key of the default generator. Only if
     * weft_model_info.takes_noise. 0: off. */
    double embedding_noise;
    /* The length of the whole sequence when it is computed in several calls: rotations that depend
     * on the length are then as in a single call. 0: the sequence ends with these tokens. */
    int64_t length;
} weft_model_call;

/* General properties of a model, filled by the family's `build`. */
typedef struct weft_model_info {
    int64_t n_layers;
    int64_t n_caches; /* in the order of the layers: of most models one for each of the first
                       * layers, which have their own keys and values; 0: one for every layer */
    int64_t vocab_size;
    int64_t n_labels; /* of a classifier (weft_model_classify); 0: it predicts tokens */
    int64_t hidden_size;
    int64_t max_positions; /* 0: unknown */
    double softcap;        /* of the logits; 0: none */
    bool tied;             /* the output head is the embedding */
    bool takes_offset;     /* the family supports weft_model_call.offset */
    bool takes_first;      /* and weft_model_call.first */
    bool takes_noise;      /* and weft_model_call.embedding_noise */
    bool takes_shared;     /* and weft_model_call.pack and unpack */
    bool encoder;          /* every token sees all others: there are no caches, and no text is
                            * generated */
    /* Some layers have recurrent states instead of keys and values, which cannot be trimmed. Drafts
     * are then unsupported. */
    bool keeps_states;
    /* A partial_rotary_factor of config.json that the family ignores, as transformers does; 0:
     * none.
     */
    double ignored_partial;
    /* > 0: keys are rotated in another way in longer sequences than this, so caches of shorter ones
     * cannot be continued beyond it; generation computes them again. Such a call fails, except with
     * `offset`, whose value is not known. */
    int64_t renews_at;
} weft_model_info;

enum { WEFT_LAYER_STATES = 2 /* at most */ };

/* The attention of one layer. */
typedef struct weft_layer_attention {
    int64_t window; /* 0: none */
    int64_t n_kv_heads, head_dim;
    weft_dtype dtype; /* of keys and values */
    weft_device *device;
    /* > 0: values are not kept: they are the first so many elements of each key. weft_cache_update
     * then takes NULL for them. */
    int64_t latent;
    /* > 0: instead of keys and values the layer has so many recurrent states, float32, with these
     * shapes for one sequence. */
    int n_states;
    weft_dims states[WEFT_LAYER_STATES];
} weft_layer_attention;

typedef struct weft_model_family weft_model_family;
struct weft_model_family {
    const char *model_type;
    const char *architecture; /* its class in "architectures", for files without model_type; may be
                               * NULL */
    /* The module tree, whose paths are the tensors' names ("model.layers.0...", "lm_head.weight").
     * `has_head`: there is a separate output matrix. NULL, with the message, on failure. */
    weft_module *(*build)(const weft_model_family *family, const weft_config *config, bool has_head,
                          weft_model_info *info);
    /* tokens (B, L) int32 -> hidden states (B, L, E), the final norm applied. */
    weft_array *(*hidden)(weft_module *module, weft_array *tokens, const weft_model_call *call);
    /* Hidden states (..., E) -> logits (..., V). */
    weft_array *(*head)(weft_module *module, weft_array *hidden);
    /* The output matrix (V, E), for losses that do not store the logits; may be NULL. */
    weft_array *(*head_weight)(weft_module *module);
    /* Describes the layer of a cache. NULL: no windows, and the caches' memory is unknown. */
    void (*attention)(weft_module *module, int64_t cache, weft_layer_attention *out);
    /* Creates a cache; NULL: weft_cache_new_with and the caller's options. */
    weft_cache *(*new_cache)(weft_module *module, int64_t cache);
    /* `hidden` and `head` move their arrays to the device of the parameters that they use, so that
     * weft_model_options.gpu_layers works. A parameter belongs to layer N if its path contains
     * "layers.N.", and to the input embedding if it contains "embed_tokens". */
    bool follows_parameters;
    bool tied; /* a new model's head is the embedding unless tie_word_embeddings says otherwise */
    /* Maps a tensor's name to its path; false drops it. NULL: strips the usual prefixes
     * ("language_model.model.", ...) and drops the towers of other modalities. */
    weft_nn_rename *rename;
    const char *text_type; /* of a multimodal model: the model_type of its text model alone */
    const struct weft__family *own; /* of the built-in families (models/family.h); else NULL */
};

/* Registers a family; the literal must not be freed. WEFT_INVALID if the model_type is taken. */
WEFT_NODISCARD WEFT_API weft_status weft_model_register(const weft_model_family *family)
    WEFT_NONNULL(1);
/* By model_type; NULL when unknown. */
WEFT_API const weft_model_family *weft_model_family_find(const char *model_type);
WEFT_API int weft_model_family_count(void);
WEFT_API const weft_model_family *weft_model_family_at(int i);

/* ---- Models --------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

enum { WEFT_MODEL_DEVICES = 16 }; /* most devices of one model */

typedef struct weft_model_options {
    weft_dtype dtype;    /* float32, float16 or bfloat16; 0: as in the checkpoint; for
                          * a GGUF file in blocks weft_device_matrix_dtype */
    weft_device *device; /* NULL: the thread's default */
    /* How much of the model is on the device; the rest is on the CPU. 0: everything. N > 0: the
     * last N layers; if the model has fewer, also the final norm and the output head with its tied
     * embedding. Below 0: nothing. Caches and adapters are on the device of their layer. */
    int64_t gpu_layers;
    /* Compute everything but the input embedding on the device: the weights of linears and experts
     * that gpu_layers leaves on the CPU (0: all) are copied there for each use, also if encoded.
     * Caches, adapters and all other parameters are on the device. A layer in training whose
     * weights are copied is computed again for its gradient, as with `checkpoint`. */
    bool stream;
    /* Spread the layers over these devices, in order: each computes with about the same number of
     * weights, in proportion to the memory of the devices. The input embedding is on the first, the
     * final norm and the head on the last; a tied head has a copy there. Caches and adapters are on
     * the device of their layer, and the results have the bits of one device of their kind.
     * WEFT_INVALID beside gpu_layers, stream, and more than WEFT_MODEL_DEVICES. NULL or one:
     * everything is on `device`. */
    weft_device *const *devices;
    int n_devices;
    /* Quantizes linears, embeddings and experts, but not routers, to 2, 3, 4, 5, 6 or 8 bits
     * (affine, groups of 64). Weights that are quantized already, or whose rows are not a multiple
     * of the group, stay as they are. 0: as in the checkpoint. */
    int64_t quantize;
    /* Use weft_linear_int8, which rounds activations to 8 bits (with AMX activations and quantized
     * weights to bfloat16) where the device supports it: faster for long prompts and large batches,
     * and with AVX2 for generation. */
    bool int8_activations;
} weft_model_options;

/* Loads a folder with config.json and weights, or a GGUF file. A folder without safetensors files
 * may contain one GGUF file. Quantized GGUF matrices are memory-mapped and frozen. *out is freed
 * with weft_model_free. NULL options: all zero. WEFT_IO for a file that cannot be read,
 * WEFT_UNSUPPORTED for an unknown family, WEFT_INVALID for malformed files and for tensors that are
 * missing, unexpected or of another shape, which the message lists. */
WEFT_NODISCARD WEFT_API weft_status weft_model_load(const char *folder,
                                                    const weft_model_options *options,
                                                    weft_model **out);

/* How a checkpoint compares with a family's tree for its config.json. */
typedef struct weft_model_likeness {
    const weft_model_family *family; /* NULL: none has any of the tensors */
    int n_same;                      /* parameters whose tensor has the expected name and shape */
    int n_differences;               /* tensors that are missing, unexpected or of another shape */
    /* One line for equal tensors of all layers, as in "lacks model.layers.*.mlp.up_proj.weight (28
     * tensors)", and one for each key of config.json that the family does not read. NULL: none. */
    char *differences;
} weft_model_likeness;

/* Finds the family that is nearest to a folder's checkpoint: with the fewest differences, then the
 * fewest keys of config.json that it does not read. Its formulas may differ in what names and
 * shapes do not show. Free it with weft_model_likeness_free. Fails as weft_model_load does for its
 * files. */
WEFT_NODISCARD WEFT_API weft_status weft_model_likeness_find(const char *folder,
                                                             weft_model_likeness *out)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_model_likeness_free(weft_model_likeness *likeness) WEFT_NONNULL(1);

/* Creates a model with random weights; free it with weft_model_free. The configuration is copied.
 * WEFT_UNSUPPORTED when no family has its model_type, WEFT_INVALID when it is malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_model_new(const weft_config *config, weft_model **out)
    WEFT_NONNULL(2);

/* Writes config.json and model.safetensors to a folder, which is created if necessary, and deleted
 * again on failure. WEFT_INVALID when the tree has adapters, WEFT_IO when the files cannot be
 * written. */
WEFT_NODISCARD WEFT_API weft_status weft_model_save(weft_model *model, const char *folder)
    WEFT_NONNULL(1);

typedef struct weft_gguf_model_options {
    /* The type of matrices: F32 (also for NULL), F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K. The
     * output matrix, and matrices whose rows are not whole blocks, are at least Q8_0 or F16. All
     * other tensors are F32. */
    const char *type;
    /* The folder or GGUF file whose tokenizer and chat templates are stored in the file. May be
     * NULL. */
    const char *text;
    /* Rules "PATTERN=TYPE,..." for matrices whose path ("model.layers.0.mlp.up_proj.weight")
     * contains the pattern, in which * matches anything; the first matching rule counts.
     * WEFT_INVALID for a pattern without a match. May be NULL. */
    const char *overrides;
    weft_save_progress progress;
} weft_gguf_model_options;

/* Writes a GGUF file. NULL options: all zero. WEFT_UNSUPPORTED, with the reason, for models and
 * tokenizers that the format or Weft's readers do not support; WEFT_INVALID if the model has an
 * adapter; WEFT_IO if the file cannot be written. */
WEFT_NODISCARD WEFT_API weft_status weft_model_save_gguf(weft_model *model, const char *path,
                                                         const weft_gguf_model_options *options);

/* Checks whether a GGUF file can describe the model, with its adapters merged. WEFT_UNSUPPORTED,
 * with the reason, if weft_model_save_gguf would refuse it. */
WEFT_NODISCARD WEFT_API weft_status weft_model_check_gguf(weft_model *model) WEFT_NONNULL(1);

WEFT_API void weft_model_free(weft_model *model); /* NULL is accepted */

/* The module tree, description, family and configuration of a model, which owns them. */
WEFT_API weft_module *weft_model_module(weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_model_info *weft_model_info_of(const weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_model_family *weft_model_family_of(const weft_model *model) WEFT_NONNULL(1);
WEFT_API const weft_config *weft_model_config(const weft_model *model) WEFT_NONNULL(1);

/* The labels of a classifier, in the order of its logits. All zero: an empty list. */
typedef struct weft_labels {
    char **at; /* (n), owned */
    int n;
    bool open; /* in weft_dataset_options.labels: rows add labels, and their texts are not read */
} weft_labels;

/* Appends a copy of `label`, also of a duplicate. WEFT_MEMORY when out of memory, without a change.
 */
WEFT_NODISCARD WEFT_API weft_status weft_labels_add(weft_labels *labels, const char *label);
/* The index of `label`, or -1. */
WEFT_API int weft_labels_index(const weft_labels *labels, const char *label);
/* Frees the labels and empties the list. */
WEFT_API void weft_labels_free(weft_labels *labels);

/* Turns the model into a classifier like transformers' AutoModelForSequenceClassification: replaces
 * the output head by a linear "score" without a bias, with n rows from a normal distribution whose
 * deviation is the configuration's initializer_range (0.02). A text's logits are those of its last
 * token. An encoder gets the head of its class in transformers; each of its tokens then has the
 * logits of its text. The model then cannot generate. A checkpoint whose class is
 * ...ForSequenceClassification is loaded as such a classifier if it has at least two labels.
 * weft_nn_lora_inject trains what is new of the head beside its adapters (weft_module.whole), and
 * score and classifier always. WEFT_INVALID for fewer than two labels and for a model with an
 * adapter or labels; WEFT_UNSUPPORTED for a family with its own head. */
WEFT_NODISCARD WEFT_API weft_status weft_model_classify(weft_model *model,
                                                        const char *const *labels, int n);
/* The labels of a classifier by its config.json or its GGUF file, in the order of the head's rows;
 * empty for other models and for folders without such a file. Free with weft_labels_free. Fails as
 * weft_config_load or weft_gguf_open. */
WEFT_NODISCARD WEFT_API weft_status weft_model_labels(const char *path, weft_labels *out);
WEFT_API const char *weft_model_label(const weft_model *model, int64_t i); /* NULL: none */

/* The ids that end a sequence, owned by the model: those of config.json and generation_config.json,
 * else the eos_token of the folder's tokenizer. From a GGUF file: eos, eot and eom; without eot and
 * eom, control tokens that are known to end a turn ("<|im_end|>"). Loading an adapter whose folder
 * has a tokenizer adds its eos_token. */
WEFT_API const int32_t *weft_model_eos(const weft_model *model, int *n) WEFT_NONNULL(1, 2);

/* The parts of the checkpoint that were not loaded, such as "vision_tower, lm_head
 * (tie_word_embeddings)": parts of other modalities and a redundant head. Owned by the model; NULL
 * if everything was loaded. */
WEFT_API const char *weft_model_skipped(const weft_model *model) WEFT_NONNULL(1);

/* tokens (B, L) int32 -> hidden (B, L, E) -> logits (B, L, V). NULL call: all zero. */
WEFT_API weft_array *weft_model_hidden(weft_model *model, weft_array *tokens,
                                       const weft_model_call *call) WEFT_NONNULL(1);
WEFT_API weft_array *weft_model_head(weft_model *model, weft_array *hidden) WEFT_NONNULL(1);
WEFT_API weft_array *weft_model_forward(weft_model *model, weft_array *tokens,
                                        const weft_model_call *call);

/* The current output matrix (V, E), possibly encoded, for weft_linear_cross_entropy with
 * weft_model_info.softcap. Borrowed. NULL if the family does not provide it or it has an adapter.
 */
WEFT_API weft_array *weft_model_head_weight(weft_model *model) WEFT_NONNULL(1);

/* The caches that given options would create. */
typedef struct weft_cache_plan {
    int64_t max_context; /* below 0: all tokens are kept */
    int64_t sink_tokens;
    int kv_bits;           /* 32, 16, 8 or 4 */
    bool reduced;          /* max_context is below the model's positions, for lack of memory */
    int64_t token_bytes;   /* per token below max_context; 0: unknown */
    int64_t context_bytes; /* for max_context tokens; 0: unknown or unbounded */
} weft_cache_plan;

/* Plans caches. By default caches and parameters, or weft_memory_active if larger, may use up to
 * 85% of their device's memory and of weft_memory_limit, but caches hold at least 256 tokens.
 * WEFT_INVALID for options out of range. */
WEFT_NODISCARD WEFT_API weft_status weft_model_plan_caches(weft_model *model,
                                                           const weft_cache_options *options,
                                                           weft_cache_plan *out) WEFT_NONNULL(3);

/* Creates caches for one sequence or batch, one for each of the first weft_model_info.n_caches
 * layers; free them with weft_model_free_caches. NULL options: all zero. Returns NULL, with a
 * message, when out of memory and for options out of range. */
WEFT_API weft_cache **weft_model_new_caches(weft_model *model, const weft_cache_options *options);
WEFT_API void weft_model_free_caches(weft_model *model, weft_cache **caches); /* NULL: accepted */

#ifdef __cplusplus
}
#endif
#endif
