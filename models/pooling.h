/* models/pooling.h -- how the hidden states of a text become one vector, in files of
 * sentence-transformers and in GGUF files. */
#ifndef WEFT_MODELS_POOLING_H
#define WEFT_MODELS_POOLING_H

#include "core/io/json.h"
#include "weft/batch.h"

/* Parses a file of the folder; doc->root stays NULL if there is no such file. */
weft_status weft__settings_file(const char *folder, const char *name, weft__json_doc *doc,
                                weft__json *root);
/* Reads config.json of the folder `path` of a Pooling module. */
weft_status weft__settings_pooling(const char *folder, const char *path, weft_pooling *out,
                                   bool *excludes_prompts);
/* The pooling of a model's folder or GGUF file, if it is an embedder. */
weft_status weft__pooling_of(const char *source, bool *found, weft_pooling *out);
/* Its number in GGUF files; 0: they have none. */
int weft__pooling_number(weft_pooling pooling);

#endif
