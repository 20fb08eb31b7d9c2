/* models/convert/convert.h -- between the files of this folder. */
#ifndef WEFT_MODELS_CONVERT_CONVERT_H
#define WEFT_MODELS_CONVERT_CONVERT_H

#include "weft/convert.h"
#include "weft/model.h"

/* ---- convert.c ------------------------------------------------------------------------------- */

/* What a caller adds to a conversion. Either function may be NULL. */
typedef struct weft__convert_hooks {
    weft_status (*edit)(void *context, weft_model *model); /* after loading */
    weft_status (*add)(void *context, const char *folder); /* files of a folder, before renaming */
    void *context;
    const char *text; /* a folder with the tokenizer to be written; NULL: the model's */
} weft__convert_hooks;

/* weft_convert with `hooks` (NULL: none). `options` must remain valid and may be changed by
 * `edit`. */
weft_status weft__convert_with(const char *model, const char *out,
                               const weft_convert_options *options,
                               const weft__convert_hooks *hooks, weft_convert_report *report);

/* ---- quantize.c: which matrices get which bits, and what config.json says of it -------------- */

weft_status weft__convert_check(const weft_convert_options *o);
weft_status weft__convert_quantize(weft_model *model, const weft_convert_options *o);
/* config.json's text with "quantization" as the model's matrices are; *text is the caller's. */
weft_status weft__convert_config(weft_model *model, char **text);
/* Whether its head was tied to the embedding when it was loaded and is no longer. */
bool weft__model_is_untied(weft_model *model);
/* Whether it has more tokens than its configuration says. */
bool weft__model_is_resized(const weft_model *model);

/* ---- folder.c: folders that appear whole or not at all, and the files of text in them ---------
 */

/* A folder beside `out`, new and empty; *beside is the caller's. WEFT_INVALID when something is at
 * `out` and must stay. */
weft_status weft__folder_begin(const char *out, bool replace, char **temporary);
/* With WEFT_OK: it becomes `out`. Else it is removed. Returns `status`, or the failure. */
weft_status weft__folder_end(const char *out, const char *temporary, weft_status status);
/* Whether there is something at `path`. */
bool weft__exists(const char *path);

/* Deletes a file, or a folder with all that is in it; links are not followed. */
weft_status weft__folder_remove(const char *path);
/* Copies what of a folder is about text: tokenizer, chat templates, generation_config.json; without
 * a tokenizer the last alone. */
weft_status weft__text_files_copy(const char *from, const char *to, bool tokenizer);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* tokenizer.json, tokenizer_config.json and chat_template.jinja from a GGUF file's metadata. */
weft_status weft__text_files_make(const char *gguf, const char *to);

#endif
