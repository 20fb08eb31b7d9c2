/* models/generation.h -- a checkpoint's generation settings, from config.json and
 * generation_config.json. */
#ifndef WEFT_MODELS_GENERATION_H
#define WEFT_MODELS_GENERATION_H

#include "models/config.h"

typedef struct weft__ids {
    int32_t *at;
    int n;
} weft__ids;

typedef struct weft__generation_config {
    /* generation_config.json, or a GGUF file's equivalent; NULL: none */
    weft_config *config;
    weft__ids eos;      /* from both files, without duplicates; otherwise the tokenizer's */
    weft__ids suppress; /* those within the vocabulary of V tokens */
} weft__generation_config;

/* `folder` NULL: uses config.json, and g->config if it is set. Freed by weft__generation_free, also
 * after a failure. */
weft_status weft__generation_read(weft__generation_config *g, const weft_config *config,
                                  const char *folder, int64_t V);
/* Adds an id that ends a sequence, unless it is in the list. */
weft_status weft__generation_add_eos(weft__generation_config *g, int32_t id);
void weft__generation_free(weft__generation_config *g);

/* Adds an id to those that end a sequence. Ids outside of the vocabulary are ignored. */
weft_status weft__model_add_eos(weft_model *model, int32_t id);
/* Keeps only the first n of them, as before others were added. */
void weft__model_keep_eos(weft_model *model, int n);

const weft__generation_config *weft__model_generation(const weft_model *model);

#endif
