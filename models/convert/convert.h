/* models/convert/convert.h -- internal interface of the conversion. */
#ifndef WEFT_MODELS_CONVERT_CONVERT_H
#define WEFT_MODELS_CONVERT_CONVERT_H

#include <json-c/json_object.h>

#include "core/io/folder.h"
#include "models/gguf/gguf.h"
#include "weft/chat.h"
#include "weft/convert.h"
#include "weft/model.h"

/* ---- convert.c ------------------------------------------------------------------------------- */

/* Additions of a caller to a conversion. Each function may be NULL. */
typedef struct weft__convert_hooks {
    weft_status (*edit)(void *context, weft_model *model); /* called after loading */
    weft_status (*add)(void *context, const char *folder); /* adds files to the folder before it is
                                                            * renamed */
    weft__gguf_weight *weight; /* gives the weights to encode in a GGUF file (models/gguf/gguf.h) */
    void *context;
    const char *text; /* folder with the tokenizer to write; NULL: the model's */
} weft__convert_hooks;

/* weft_convert with `hooks` (NULL: none). `options` must remain valid and may be changed by
 * `edit`. */
weft_status weft__convert_with(const char *model, const char *out,
                               const weft_convert_options *options,
                               const weft__convert_hooks *hooks, weft_convert_report *report);

/* ---- quantize.c: bits of each matrix, and their description in config.json ------------------- */

weft_status weft__convert_check(const weft_convert_options *o);
weft_status weft__convert_quantize(weft_model *model, const weft_convert_options *o);
/* The text of config.json, with "quantization" matching the model's matrices; with `text_only` that
 * of a multimodal model's text model. The caller frees *text. */
weft_status weft__convert_config(weft_model *model, bool text_only, char **text);
/* Whether its head is the embedding. */
bool weft__model_is_tied(weft_model *model);
/* Whether its head was tied to the embedding when loaded, but is no longer. */
bool weft__model_is_untied(weft_model *model);
/* Whether its vocabulary size differs from its configuration. */
bool weft__model_is_resized(const weft_model *model);

/* ---- text_config.c --------------------------------------------------------------------------- */

/* Replaces the configuration of a multimodal model by that of its text model alone. */
weft_status weft__text_config(weft_model *model, json_object **root);

/* ---- types.c: the types of matrices -----------------------------------------------------------
 */

/* Types with the bytes of their matrices, the largest first. Zeroed: empty. */
enum { WEFT__TYPES = 16 };
typedef struct weft__type_bytes {
    const char *name;
    int64_t bytes;
} weft__type_bytes;
typedef struct weft__types {
    weft__type_bytes at[WEFT__TYPES];
    int n;
} weft__types;

void weft__types_add(weft__types *types, const char *name, int64_t bytes);
/* "Q4_K, Q6_K" */
void weft__types_text(const weft__types *types, char *out, size_t size);
/* Adds those of a model. */
void weft__types_of(weft_model *model, weft__types *types);

/* The index of an array's first value that is NaN or infinite; -1: none. */
int64_t weft__first_not_finite(weft_array *a);
/* Whether the model has matrices in MLX's format. */
bool weft__model_is_mlx(weft_model *model);
/* Converts all float parameters to `dtype`, when they are evaluated; matrices in MLX's format only
 * with `mlx`. */
weft_status weft__model_retype(weft_model *model, weft_dtype dtype, bool mlx);
/* Sets the dtype in config.json to that of the first dense matrix. */
void weft__config_put_dtype(weft_model *model, json_object *root);

/* ---- folder.c: folders of conversions, and the tokenizer and chat files in them -------------- */

/* weft__folder_open_beside. WEFT_INVALID if `out` exists and must not be replaced. */
weft_status weft__folder_begin(const char *out, bool replace, weft__folder *f);
/* Copies the files about text: tokenizer, chat templates, generation_config.json; without
 * `tokenizer` only the last. */
weft_status weft__text_files_copy(const char *from, const char *to, bool tokenizer);
/* Copies modules.json of sentence-transformers and the files that belong to it, if they exist. */
weft_status weft__embed_files_copy(const char *from, const char *to);
/* Copies the configurations of processors of other modalities. */
weft_status weft__processor_files_copy(const char *from, const char *to);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* Writes tokenizer.json, tokenizer_config.json and chat_template.jinja from a GGUF file's metadata.
 */
weft_status weft__text_files_make(const char *gguf, const char *to);
/* Writes chat_template.jinja, additional_chat_templates/ and, unless it exists, a
 * tokenizer_config.json with the special tokens. */
weft_status weft__chat_files_make(const weft_chat *chat, const char *to);

#endif
