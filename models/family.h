/* models/family.h -- what a built-in family says about itself: one record in its file, read by the
 * decoder, the names of tensors, and the readers and writers of files. */
#ifndef WEFT_MODELS_FAMILY_H
#define WEFT_MODELS_FAMILY_H

#include "models/decoder.h"

/* A tensor of a layer: `gguf` "attn_q" and `path` "self_attn.q_proj" stand for its weight and its
 * bias, unless `gguf` has a dot or `path` ends with ".weight". A path that begins with "model." or
 * "lm_head.", or is of a head for labels, is complete. */
typedef struct weft__tensor_name {
    const char *gguf, *path;
    const char *stored; /* in transformers' checkpoints, complete, of expert 0 where each is stored
                         * by itself: "mlp.experts.0.up_proj.weight"; NULL: as the path */
} weft__tensor_name;

/* The names of latent attention's parts (models/latent.c). */
#define WEFT__LATENT_NAMES                                                                         \
    {"attn_q_a", "self_attn.q_a_proj", NULL}, {"attn_q_a_norm", "self_attn.q_a_layernorm", NULL},  \
        {"attn_q_b", "self_attn.q_b_proj", NULL},                                                  \
        {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", NULL},                                   \
    {                                                                                              \
        "attn_kv_a_norm", "self_attn.kv_a_layernorm", NULL                                         \
    }

/* The names of the parts of Mamba 2 (models/mamba2.c). */
#define WEFT__MAMBA2_NAMES(part)                                                                   \
    {"ssm_in", part ".in_proj", NULL}, {"ssm_conv1d", part ".conv1d", NULL},                       \
        {"ssm_a", part ".A_log", NULL}, {"ssm_d", part ".D", NULL},                                \
        {"ssm_dt.bias", part ".dt_bias", NULL}, {"ssm_norm", part ".norm", NULL},                  \
    {                                                                                              \
        "ssm_out", part ".out_proj", NULL                                                          \
    }

struct weft__gguf_arch; /* models/gguf/arch.h */

typedef struct weft__family {
    const weft_config_field *fields; /* of the struct that begins with a weft__decoder_config */
    int n_fields;
    size_t size;                            /* of that struct; 0: it is a weft__decoder_config */
    const weft__decoder_config *defaults;   /* of what the fields do not set */
    weft__window_rule windows;              /* without layer_types */
    const weft__architecture *architecture; /* NULL: the standard blocks */
    /* Sets what follows from several fields, and checks them; may be NULL. */
    weft_status (*finish)(const weft_config *config, weft__decoder_config *c);
    const weft__tensor_name *names; /* where they differ from the usual ones; ends with zeros */
    const char *layers;             /* begins the paths of layers' tensors; NULL: "model.layers." */
    /* Parts of paths, and those that transformers' checkpoints have instead; NULL at the end. */
    const weft__module_name *stored_parts;
    const struct weft__gguf_arch *gguf; /* NULL: none */
} weft__family;

#define WEFT__FIELDS(rows) .fields = rows, .n_fields = sizeof rows / sizeof *rows

/* The literal of a family: its model_type, its class in transformers, its record and, optionally,
 * other fields of weft_model_family. */
#define WEFT__FAMILY(type, class, ...)                                                             \
    const weft_model_family weft__family_##type = {                                                \
        .model_type = #type,                                                                       \
        .architecture = #class,                                                                    \
        .build = weft__decoder_build,                                                              \
        .hidden = weft__decoder_hidden,                                                            \
        .head = weft__decoder_head,                                                                \
        .head_weight = weft__decoder_head_weight,                                                  \
        .attention = weft__decoder_attention,                                                      \
        .follows_parameters = true,                                                                \
        __VA_ARGS__,                                                                               \
    }

/* The family of a multimodal model's text model alone, or the family itself. */
const weft_model_family *weft__family_of_text(const weft_model_family *family);

/* Converts between the names of one tensor: a GGUF file's, and a tree's path. False: unknown. */
bool weft__name_from_gguf(const weft__family *family, const char *name, char *out, size_t size);
bool weft__name_to_gguf(const weft__family *family, const char *path, char *out, size_t size);
/* The name in transformers' checkpoints of a tensor that has another one than its path; false: it
 * has not. */
bool weft__name_stored(const weft__family *family, const char *path, char *out, size_t size);

#define FAMILY(name) extern const weft_model_family weft__family_##name;
#include "models/families/table.h"
#undef FAMILY

#endif
