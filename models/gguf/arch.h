/* models/gguf/arch.h -- what a family says about its GGUF files, and what its functions call. */
#ifndef WEFT_MODELS_GGUF_ARCH_H
#define WEFT_MODELS_GGUF_ARCH_H

#include "core/io/text.h"
#include "models/block.h"
#include "models/family.h"
#include "weft/gguf.h"

typedef struct weft__gguf_reader weft__gguf_reader;
typedef struct weft__gguf_facts weft__gguf_facts;

/* What files can say about windows. */
typedef enum weft__gguf_windows {
    WEFT__GGUF_NO_WINDOWS,
    WEFT__GGUF_ONE_WINDOW, /* on all layers or on none */
    WEFT__GGUF_SOME,       /* a list of the layers that have it; nothing without windows */
    WEFT__GGUF_ALWAYS      /* the same, also without windows */
} weft__gguf_windows;

/* How files describe latent attention (models/latent.c). */
typedef enum weft__gguf_latents {
    WEFT__GGUF_NO_LATENTS,
    WEFT__GGUF_HEADS,   /* by the keys and values of each head */
    WEFT__GGUF_ABSORBED /* as one head of latents, with the keys and values of heads beside it */
} weft__gguf_latents;

/* The output matrix in files. */
typedef enum weft__gguf_output {
    WEFT__GGUF_OUTPUT_OPTIONAL, /* without one it is the embedding */
    WEFT__GGUF_OUTPUT_NEVER,    /* it is the embedding */
    WEFT__GGUF_OUTPUT_ALWAYS    /* readers need one */
} weft__gguf_output;

typedef struct weft__gguf_arch {
    const char *name;      /* general.architecture */
    const char *otherwise; /* the architecture as which files are read that no family claims */
    /* Whether files of that architecture with these values are of this family; NULL: those that no
     * other family claims. */
    bool (*claims)(const weft__gguf_reader *file);
    /* The architecture of the family's other models, and whether it is not needed; NULL: it is not.
     */
    const struct weft__gguf_arch *next;
    bool (*fits)(const weft__gguf_facts *facts);
    bool permuted; /* rows of q and k are in pairs, for interleaved rotation */
    bool by_layer; /* the sizes of heads and MLPs may differ between layers */
    /* The width of a layer's MLP and its heads of keys. NULL: intermediate_size, and n_kv_heads or,
     * in linear layers, 0. */
    int64_t (*width)(const weft__gguf_facts *facts, const weft__layer *layer);
    int64_t (*kv_heads)(const weft__gguf_facts *facts, const weft__layer *layer);
    bool unrotated;     /* layers have no rotation */
    bool two_rotations; /* layers with a window have a base of their own */
    bool divisors; /* readers divide frequencies by WEFT__GGUF_DIVISORS, as llama3's rule does */
    bool biases;   /* o_proj and the MLP may have biases */
    weft__gguf_output output;
    weft__gguf_windows windows;
    bool two_sided; /* windows count the tokens on both sides */
    /* Of encoders: describes the model as a decoder with the same sizes, by
     * weft__gguf_encoder_sizes. NULL: a decoder. */
    weft_status (*describe)(weft__gguf_facts *facts);
    bool linears; /* files may have two linears after the pooling */
    /* Begin the paths of parameters that files do not have, and that only files of classifiers
     * have; NULL: none. */
    const char *dropped, *of_head;
    bool classifies; /* files may have a head for labels, whose tensors `names` has */
    weft__gguf_latents latents;
    bool plain_shares;  /* the weights of chosen experts add up to 1 only if the file says so */
    double norm_offset; /* offset that was added to the norms' gains */
    bool layer_norms;   /* the norms are LayerNorms, with the key of their epsilon */
    /* The scale of scores that readers assume: this or, if it is 0, by the size of a head; in
     * models of `wide_layers` layers by their width per head. Another scale is multiplied into the
     * weights that produce the queries. */
    double scale;
    int64_t wide_layers;
    bool own_scale;               /* files say the scale, attention.scale */
    const char *const *unadapted; /* modules whose adapters llama.cpp ignores; NULL at the end */
    /* A parameter in the form of files of a model, or with NULL from a file to the tree's form; the
     * array itself if they are the same. Parameters whose shape changes are stored in float32.
     * NULL: all are the same. */
    weft_array *(*convert)(const char *path, weft_array *a, const weft__gguf_facts *to_file);
    /* From a file to config.json: the rotation, and everything of the family's own. NULL: the usual
     * rotation, and nothing. */
    weft_status (*read_rope)(weft__gguf_reader *file);
    void (*read)(weft__gguf_reader *file);
    /* From a model to a file, likewise. */
    weft_status (*write_scaling)(weft__gguf_facts *facts, const weft_rope_options *rope);
    weft_status (*write)(weft__gguf_facts *facts);
} weft__gguf_arch;

/* The number of heads of a matrix, by its path, whose rows are in another order; 0: none. */
int64_t weft__gguf_moved_heads(const weft__gguf_arch *arch, const char *path, int64_t heads,
                               int64_t kv_heads);

/* For `convert`: taps of a convolution (C, 1, taps), which files have as (C, taps). */
weft_array *weft__gguf_taps(weft_array *a, bool to_file);
/* mamba2.c: for `convert`, `read` and `write`. `c` NULL: from a file; `keys` are those of the
 * number of heads, their size, the groups, the states' size, the taps, and of biases of the
 * convolution. */
weft_array *weft__gguf_mamba2(const char *path, weft_array *a, const weft__mamba2_config *c);
void weft__gguf_read_mamba2(weft__gguf_reader *r, const char *const keys[6]);
weft_status weft__gguf_write_mamba2(weft__gguf_facts *f, const weft__mamba2_config *c);

/* The key of the norms' epsilon. */
static inline const char *weft__gguf_epsilon(const weft__gguf_arch *arch)
{
    return arch->layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

/* For `claims`: files are read as those of another family. */
bool weft__gguf_unclaimed(const weft__gguf_reader *file);

/* NULL: the family has no GGUF files. */
const weft__gguf_arch *weft__gguf_arch_of(const weft_model_family *family);

/* ---- reading: config.c ---------------------------------------------------------------------- */

struct weft__gguf_reader {
    const weft_gguf *file;
    char name[64]; /* general.architecture */
    const weft_model_family *family;
    const weft__gguf_arch *arch;
    weft__text out; /* config.json */
};

/* Finds the family. WEFT_UNSUPPORTED, with the list of supported architectures: none. */
weft_status weft__gguf_reader_of(const weft_gguf *file, weft__gguf_reader *out);

/* Values of the architecture; `name` has no prefix. */
const weft_gguf_value *weft__gguf_value(const weft__gguf_reader *r, const char *name);
int64_t weft__gguf_integer(const weft__gguf_reader *r, const char *name, int64_t otherwise);
/* Of values that are one number or a list by layer: that of a layer, and the first positive one, or
 * 0. */
int64_t weft__gguf_of_layer(const weft__gguf_reader *r, const char *name, int64_t layer,
                            int64_t otherwise);
int64_t weft__gguf_first(const weft__gguf_reader *r, const char *name);
double weft__gguf_number(const weft__gguf_reader *r, const char *name, double otherwise);
/* Whether the file has the tensor. */
bool weft__gguf_has(const weft__gguf_reader *r, const char *tensor);
/* The n F32 numbers of a tensor with one dim, which may be unaligned; NULL: absent, or another
 * kind. And one of them. */
const char *weft__gguf_floats(const weft__gguf_reader *r, const char *tensor, int64_t *n);
double weft__gguf_float_at(const char *floats, int64_t i);
#define WEFT__GGUF_DIVISORS "rope_freqs.weight" /* of the frequencies */
/* The size of a head in layers without a window. */
int64_t weft__gguf_head_dim(const weft__gguf_reader *r);

/* Appends ,"key":x to config.json. Numbers have a fraction or an exponent, since transformers
 * distinguishes floats from integers: the shortest decimal for a float32, the usual type in these
 * files. */
void weft__gguf_add_integer(weft__gguf_reader *r, const char *key, int64_t x);
void weft__gguf_add_bool(weft__gguf_reader *r, const char *key, bool x);
void weft__gguf_add_number(weft__text *out, const char *key, double x);
/* Copies an integer or a number, if the file has it. */
void weft__gguf_copy(weft__gguf_reader *r, const char *key, const char *name);
/* Appends layer_types of layers without a window, if the file has none: config.json's defaults have
 * one. */
void weft__gguf_add_full_layers(weft__gguf_reader *r);
/* Appends a tensor's numbers as a list. */
void weft__gguf_add_list(weft__gguf_reader *r, const char *key, const char *tensor);
/* longrope.c: `read_rope` and `write_scaling` of architectures with longrope. */
weft_status weft__gguf_read_longrope(weft__gguf_reader *r);
weft_status weft__gguf_write_longrope(weft__gguf_facts *f, const weft_rope_options *o);
/* Appends the base of the rotation and the share of a head that it covers. */
weft_status weft__gguf_add_rotation(weft__gguf_reader *r);
/* Appends the numbers of yarn's scaling to an object. */
void weft__gguf_add_yarn(weft__gguf_reader *r);

/* ---- writing: metadata.c -------------------------------------------------------------------- */

enum { WEFT__GGUF_VALUES = 64, WEFT__GGUF_KEY = 96 };

/* Metadata in order of insertion. */
typedef struct weft__gguf_values {
    weft_gguf_value values[WEFT__GGUF_VALUES];
    char keys[WEFT__GGUF_VALUES][WEFT__GGUF_KEY];
    uint32_t integers[WEFT__GGUF_VALUES];
    float numbers[WEFT__GGUF_VALUES];
    weft_gguf_string strings[WEFT__GGUF_VALUES];
    void *lists[WEFT__GGUF_VALUES]; /* memory of arrays */
    int n;
} weft__gguf_values;

/* A model, and what its modules were built from. */
struct weft__gguf_facts {
    weft_model *model;
    const weft_config *config;
    const weft__family *family;
    const weft__gguf_arch *arch;
    const char *where; /* the file, for messages */
    const char *type;  /* of matrices; NULL: their own */
    const char *overrides;
    weft_save_progress progress;
    weft__decoder_facts decoder;
    weft__decoder_config *own; /* what `decoder` refers to, of an encoder; owned */
    weft__layer *layers;
    weft_rope_options ropes[2];
    int64_t n_layers, heads, kv_heads, head_dim;
    const weft__layer *windowed; /* the first layer with a window; NULL: none */
    bool head;                   /* the file has a head for labels, or with one row (head.c) */
    bool untied;         /* the file has an output matrix although the model's is the embedding */
    double query_factor; /* factor for the queries, to match the format's scale of scores */
    /* Divisors of frequencies, which the format stores as tensors, and their names. */
    weft_array *divisors[2];
    const char *divisor_names[2];
    int n_divisors;
    weft_array *linears[2]; /* after the pooling, kept; or NULL */
    weft__gguf_values values;
};

/* The name of a parameter. Without experts, the MLP beside them has the name of an MLP. */
bool weft__gguf_name(const weft__gguf_facts *facts, const char *path, char *out, size_t size);

/* For `describe`: sizes, epsilon and context; the layers, without windows, are `layers`, and the
 * rotations `ropes`. */
weft_status weft__gguf_encoder_sizes(weft__gguf_facts *facts, const weft__decoder_config *c);
/* For `write` of an encoder: attention in both directions. */
void weft__gguf_put_encoder(weft__gguf_facts *facts);
/* For `read` and `write`: the activation, which files say only if it is not the exact gelu. */
void weft__gguf_read_activation(weft__gguf_reader *r, const char *key);
weft_status weft__gguf_put_activation(weft__gguf_facts *facts, const char *activation);
/* Whether a tensor is that of a linear after the pooling, which is no parameter. */
bool weft__gguf_is_linear(const char *tensor);
/* Writes the pooling of a model's folder or GGUF file, and sets `linears`. */
weft_status weft__gguf_put_pooling(weft__gguf_facts *facts, const char *source);

/* head.c. Sets `head`; `whole`: also for one of the checkpoint that the tree does not have.
 * WEFT_UNSUPPORTED for a head that files of the architecture cannot have. */
weft_status weft__gguf_find_head(weft__gguf_facts *facts, bool whole);
/* Whether files do not have a parameter. */
bool weft__gguf_is_dropped(const weft__gguf_facts *facts, const char *path);
/* The labels, and how a text becomes a vector. */
weft_status weft__gguf_put_head(weft__gguf_facts *facts);
/* A head with one row is not in the tree: calls `add` for its tensors. */
typedef weft_status weft__gguf_add(void *context, const char *name, weft_array *a);
weft_status weft__gguf_each_of_head(const weft__gguf_facts *facts, weft__gguf_add *add,
                                    void *context);
/* From a file to config.json: the class and the labels. WEFT_UNSUPPORTED for rows without labels.
 */
weft_status weft__gguf_read_head(weft__gguf_reader *r);

/* WEFT_UNSUPPORTED: `what` cannot be in files of this architecture. */
weft_status weft__gguf_refuse(const weft__gguf_facts *facts, const char *what);
/* Writes how many of the first layers have no experts. WEFT_UNSUPPORTED: later ones have none
 * either. */
weft_status weft__gguf_put_dense_layers(weft__gguf_facts *facts);
/* Adds divisors of frequencies. */
void weft__gguf_put_divisors(weft__gguf_facts *facts, const char *name, weft_array *divisors);
/* The usual scaling of the rotation, and its form for yarn. */
weft_status weft__gguf_put_scaling(weft__gguf_facts *facts, const weft_rope_options *rope);
void weft__gguf_put_yarn(weft__gguf_facts *facts, const weft_rope_options *rope);

/* Names without the prefix "general." or "tokenizer." belong to the architecture. */
void weft__gguf_put_integer(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_bool(weft__gguf_facts *facts, const char *name, bool x);
void weft__gguf_put_signed(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_number(weft__gguf_facts *facts, const char *name, double x);
weft_status weft__gguf_put_ids(weft__gguf_facts *facts, const char *name, const int32_t *ids,
                               int n);
void weft__gguf_put_text(weft__gguf_facts *facts, const char *name, const char *text);
/* Room for n texts, which the caller sets; NULL: out of memory. */
weft_gguf_string *weft__gguf_put_texts(weft__gguf_facts *facts, const char *name, int64_t n);

/* Collects facts from the model; `where` begins messages. WEFT_UNSUPPORTED if the format has no
 * architecture for the model. `whole`: for a file of the model, not of an adapter. Release them
 * also after a failure. */
weft_status weft__gguf_facts_of(weft_model *model, const char *where, bool whole,
                                weft__gguf_facts *out);

/* Adds the metadata of the model, and sets its divisors. WEFT_UNSUPPORTED for what the format
 * cannot express. */
weft_status weft__gguf_describe(weft__gguf_facts *facts);

/* Reorders rows from halves to pairs, for interleaved rotation. */
weft_array *weft__gguf_pairs(weft_array *a, int64_t heads);

/* Whether the query factor applies to the parameter at `path`. */
bool weft__gguf_makes_queries(const weft__gguf_facts *facts, const char *path);

/* Adds the sampler options of the model's generation_config.json. */
weft_status weft__gguf_put_sampling(weft__gguf_facts *facts);
void weft__gguf_facts_release(weft__gguf_facts *facts);

#endif
