/* train/adapter/adapter.h -- shared by loading and saving adapters: PEFT tensor names and
 * configuration. */
#ifndef WEFT_TRAIN_ADAPTER_H
#define WEFT_TRAIN_ADAPTER_H

#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "models/names.h"
#include "weft/train.h"

#define WEFT__ADAPTER_CONFIG "adapter_config.json"
#define WEFT__ADAPTER_TENSORS "adapter_model.safetensors"
#define WEFT__ADAPTER_MLX_TENSORS "adapters.safetensors"

/* Removes the weights of other formats than `own` from an adapter's folder, so that the
 * configuration is that of the only ones. */
weft_status weft__adapter_remove_others(const char *folder, const char *own);
#define WEFT__ADAPTER_PREFIX "base_model.model."

/* weft_adapter_save. With `vectors` the names are those of the class without a head, as which
 * embeddings are computed. */
weft_status weft__adapter_save_for(weft_model *model, const char *folder, const char *base_name,
                                   bool vectors);

enum { WEFT__MOST_RANK = 1 << 16 };

/* weft__adapter_is_part: whether a parameter's path ends in ".lora_A", ".lora_B",
 * ".lora_magnitude_vector", ".lora_embedding_A" or ".lora_embedding_B". weft__adapter_is_bare:
 * whether PEFT writes the parameter without ".weight". */
bool weft__adapter_is_part(const char *path);
bool weft__adapter_is_bare(const char *path);

/* Whether `path` is `target` or ends in "." and `target`. */
bool weft__adapter_is_suffix(const char *path, const char *target);

/* The layer index in a path, by PEFT's rule: the last numeric component with two components before
 * it and one after it. -1: none. */
int64_t weft__adapter_layer(const char *path);

/* A list of owned strings. Zero it first. */
typedef struct weft__names {
    char **at;
    int n;
} weft__names;

weft_status weft__names_add(weft__names *names, const char *name);
bool weft__names_have(const weft__names *names, const char *name);
void weft__names_sort(weft__names *names);
void weft__names_free(weft__names *names);

/* Lists the paths of all linears and embeddings of a tree, adapted or not, and of the adapted ones
 * in `adapted` (may be NULL). Experts are listed by the functions in experts.h. */
weft_status weft__adapter_linears(weft_module *tree, weft__names *linears, weft__names *adapted);

/* The fields of adapter_config.json that Weft uses. */
typedef struct weft__adapter_config {
    weft__json_doc doc; /* owns the JSON that the other fields point into */
    int64_t rank;
    double alpha, dropout;
    bool rslora, dora;
    bool tying;      /* ensure_weight_tying: what is tied to an adapted module is adapted too */
    bool all_linear; /* target_modules is "all-linear" */
    bool by_tensors; /* target_modules is a regular expression; the tensors determine the modules */
    weft__json targets, exclude, layers; /* lists, or absent; `exclude` may be an expression */
    weft__json ranks, alphas;            /* rank_pattern and alpha_pattern, or absent */
    weft__json whole;                    /* modules_to_save: a list, or absent */
    weft__json parameters;               /* target_parameters: a list, or absent */
    weft__json tokens;                   /* trainable_token_indices, not checked yet, or absent */
    const weft__naming *naming;          /* of the modules that the fields name */
} weft__adapter_config;

/* Reads and checks the configuration. WEFT_UNSUPPORTED for methods other than LoRA and DoRA. On
 * failure nothing needs to be freed. */
weft_status weft__adapter_config_read(const char *folder, weft__adapter_config *out);
weft_status weft__adapter_config_parse(const char *text, size_t length, const char *name,
                                       weft__adapter_config *out);
void weft__adapter_config_free(weft__adapter_config *config);

/* ---- names.c --------------------------------------------------------------------------------- */

/* Opens the tensors of a folder in PEFT's format. */
weft_status weft__adapter_open(const char *folder, weft_safetensors **out);
/* Gives the tensors of a model's adapter the paths of its tree, and removes those of towers.
 * *naming is the naming that they had. WEFT_UNSUPPORTED if the adapter changes a tower. */
weft_status weft__adapter_use_paths(weft_safetensors *file, const weft__naming **naming);

/* ---- config.c -------------------------------------------------------------------------------- */

/* Whether the configuration adapts the linear at the path. Must not be called if by_tensors is set.
 */
weft_status weft__adapter_config_fits(const weft__adapter_config *config, const char *path,
                                      bool *out);

/* Whether the configuration adapts the expert parameter at the path. */
bool weft__adapter_config_has(const weft__adapter_config *config, const char *parameter);

/* ---- classifier.c ---------------------------------------------------------------------------- */

/* For the adapter of a classifier, writes config.json with id2label and label2id; otherwise writes
 * nothing. */
weft_status weft__adapter_write_labels(weft_model *model, const char *folder);
/* Turns the model into a classifier if the adapter was trained for one. */
weft_status weft__adapter_classify(weft_model *model, const char *folder,
                                   const weft_safetensors *file);

/* ---- tokens.c -------------------------------------------------------------------------------- */

#define WEFT__ADAPTER_TOKENS ".token_adapter.trainable_tokens_delta"

/* Makes the rows of the tokens trainable that the configuration lists. */
weft_status weft__adapter_train_tokens(weft_module *tree, const weft__adapter_config *config);
/* Appends the JSON member trainable_token_indices and a comma; nothing if the tree has no trained
 * token rows. */
weft_status weft__adapter_write_tokens(weft_module *tree, weft__text *out);
/* Updates the vocabulary size of the model after rows of new tokens were added or removed. */
void weft__adapter_count_tokens(weft_model *model);
/* Converts "P.token_adapter.trainable_tokens_delta" to "P.trainable_tokens_delta". False for any
 * other name. */
bool weft__adapter_tokens_path(const char *name, char *out, size_t size);

/* ---- save.c --------------------------------------------------------------------------------- */

/* WEFT_INVALID if the folder has no adapter but files that saving one would overwrite. */
weft_status weft__adapter_check_folder(const char *folder);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* Adds the eos_token of the folder's tokenizer, if it has one, to the model's end-of-sequence ids.
 */
weft_status weft__adapter_add_eos(weft_model *model, const char *folder);

/* Writes the tokenizer and the chat templates of a merged model to a new folder beside `out`.
 * The caller discards it, also after a failure; it is not open if the adapters have neither, so
 * that those of the model are used. */
weft_status weft__adapters_gather_text(const char *model, const char *adapters, const char *out,
                                       weft__folder *f);

/* ---- set.c ---------------------------------------------------------------------------------- */

/* weft_adapter_load, for an adapter that will be removed again: WEFT_UNSUPPORTED for fully trained
 * modules and for rows of tokens. */
weft_status weft__adapter_load_removable(weft_model *model, const char *path,
                                         const weft_adapter_options *options);

/* ---- pattern.c ------------------------------------------------------------------------------ */

/* Reads member `name`, an object that maps regular expressions to numbers, and checks all of them.
 * With `whole` the numbers must be ranks. */
weft_status weft__adapter_pattern_read(const weft__json *root, const char *name, bool whole,
                                       weft__json *out);

/* Whether a regular expression, a string, matches the complete name. */
weft_status weft__adapter_regex_fits(const weft__json *regex, const char *name, bool *out);

/* The number of the first expression that matches the path; 0 if none matches. */
weft_status weft__adapter_pattern_find(const weft__json *pattern, const char *path, double *out);

#endif
