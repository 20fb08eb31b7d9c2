/* train/adapter/adapter.h -- what saving and loading an adapter share: the names in PEFT's files,
 * and what its configuration says. */
#ifndef WEFT_TRAIN_ADAPTER_H
#define WEFT_TRAIN_ADAPTER_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/train.h"

#define WEFT__ADAPTER_CONFIG "adapter_config.json"
#define WEFT__ADAPTER_TENSORS "adapter_model.safetensors"
#define WEFT__ADAPTER_PREFIX "base_model.model."

enum { WEFT__MOST_RANK = 1 << 16 };

/* Whether a parameter's path ends in ".lora_A", ".lora_B", ".lora_magnitude_vector",
 * ".lora_embedding_A" or ".lora_embedding_B"; and whether PEFT writes it without ".weight". */
bool weft__adapter_is_part(const char *path);
bool weft__adapter_is_bare(const char *path);

/* Whether `path` is `target` or ends in "." and `target`. */
bool weft__adapter_is_suffix(const char *path, const char *target);

/* What PEFT calls a path's layer: the last part that is a number, has two parts before it and one
 * after; -1: none. */
int64_t weft__adapter_layer(const char *path);

/* A list of owned strings. Zero it first. */
typedef struct weft__names {
    char **at;
    int n, capacity;
} weft__names;

weft_status weft__names_add(weft__names *names, const char *name);
bool weft__names_have(const weft__names *names, const char *name);
void weft__names_sort(weft__names *names);
void weft__names_free(weft__names *names);

/* The paths of all linears and embeddings of a tree, adapted or not, and (NULL: not wanted) of the
 * adapted ones. Experts are in experts.h. */
weft_status weft__adapter_linears(weft_module *tree, weft__names *linears, weft__names *adapted);

/* adapter_config.json, as far as it matters here. */
typedef struct weft__adapter_config {
    weft__json_doc doc; /* what the rest points into */
    int64_t rank;
    double alpha, dropout;
    bool rslora, dora;
    bool all_linear; /* target_modules is "all-linear" */
    bool by_tensors; /* target_modules is a regular expression: the tensors say which */
    weft__json targets, exclude, layers; /* lists, or absent */
    weft__json ranks, alphas;            /* rank_pattern and alpha_pattern, or absent */
    weft__json whole;                    /* modules_to_save: a list, or absent */
    weft__json parameters;               /* target_parameters: a list, or absent */
    weft__json tokens;                   /* trainable_token_indices, not checked yet, or absent */
} weft__adapter_config;

/* Reads and checks; what is neither LoRA nor DoRA is WEFT_UNSUPPORTED. On failure nothing is held.
 */
weft_status weft__adapter_config_read(const char *folder, weft__adapter_config *out);
weft_status weft__adapter_config_parse(const char *text, size_t length, const char *name,
                                       weft__adapter_config *out);
void weft__adapter_config_free(weft__adapter_config *config);

/* Whether the configuration adapts the linear of that path. Not for by_tensors. */
bool weft__adapter_config_fits(const weft__adapter_config *config, const char *path);

/* Whether it adapts the parameter of that path, one of experts. */
bool weft__adapter_config_has(const weft__adapter_config *config, const char *parameter);

/* ---- classifier.c ---------------------------------------------------------------------------- */

/* config.json with id2label and label2id, for the adapter of a classifier; else nothing. */
weft_status weft__adapter_write_labels(weft_model *model, const char *folder);
/* The labels of an adapter's classification head; none: it has no such head. */
weft_status weft__adapter_read_labels(const char *folder, const weft_safetensors *file,
                                      weft_labels *out);
/* Makes a classifier of the model where the adapter is one's. */
weft_status weft__adapter_classify(weft_model *model, const char *folder,
                                   const weft_safetensors *file);

/* ---- tokens.c -------------------------------------------------------------------------------- */

#define WEFT__ADAPTER_TOKENS ".token_adapter.trainable_tokens_delta"

/* Makes the rows trainable that the configuration names. */
weft_status weft__adapter_train_tokens(weft_module *tree, const weft__adapter_config *config);
/* Appends the member trainable_token_indices of a tree that has such rows, with a comma. */
weft_status weft__adapter_write_tokens(weft_module *tree, weft__text *out);
/* Sets the size of the model's vocabulary, after rows of new tokens have come or gone. */
void weft__adapter_count_tokens(weft_model *model);
/* "P.token_adapter.trainable_tokens_delta" -> "P.trainable_tokens_delta"; false: another name. */
bool weft__adapter_tokens_path(const char *name, char *out, size_t size);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* Adds the eos_token of the folder's tokenizer, if it has one, to the ids that end a sequence. */
weft_status weft__adapter_add_eos(weft_model *model, const char *folder);

/* ---- adapter_pattern.c ----------------------------------------------------------------------- */

/* Member `name`: an object of regular expressions and numbers, which are ranks if `whole`. All are
 * checked. */
weft_status weft__adapter_pattern_read(const weft__json *root, const char *name, bool whole,
                                       weft__json *out);

/* The number of the first expression that fits the path; 0: none does. */
weft_status weft__adapter_pattern_find(const weft__json *pattern, const char *path, double *out);

#endif
