/* generate/prompt_cache/files.h -- what files that hold caches share: whose they are, and how the
 * caches lie in them. */
#ifndef WEFT_GENERATE_PROMPT_CACHE_FILES_H
#define WEFT_GENERATE_PROMPT_CACHE_FILES_H

#include "weft/prompt_cache.h"

enum { WEFT__HEX = 17 }; /* a hash in text */

/* ---- fingerprint.c -------------------------------------------------------------------------- */

uint64_t weft__hash(uint64_t hash, const void *bytes, size_t n);

/* weft_fingerprint's second field. */
weft_status weft__fingerprint_adapter(weft_model *model, uint64_t *out);

/* 16 digits into `out`, which it returns; "none" for 0. */
const char *weft__hash_text(uint64_t hash, char out[WEFT__HEX]);

/* ---- files.c -------------------------------------------------------------------------------- */

/* Arrays on their way to a file. */
typedef struct weft__saving {
    weft_named_arrays arrays;
    weft_status status; /* the first failure */
} weft__saving;

void weft__saving_add(weft__saving *s, weft_array *a, const char *prefix, const char *name);
void weft__saving_add_numbers(weft__saving *s, const int64_t *numbers, int64_t n,
                              const char *prefix, const char *name);
void weft__saving_add_ids(weft__saving *s, const int32_t *ids, int64_t n, const char *prefix,
                          const char *name);
/* A model's caches, and the options that they were made by. */
void weft__saving_add_caches(weft__saving *s, weft_model *model, weft_cache **caches,
                             const weft_cache_options *options, const char *prefix);
/* Writes the file and empties `s`. `kind` and whose it is go into its metadata, before the rest. */
weft_status weft__saving_write(weft__saving *s, const char *path, const char *kind,
                               weft_model *model, const weft_metadata *metadata, int n);

/* Opens a file of the kind that the model, with its adapter, has written. */
weft_status weft__saved_open(const char *path, const char *kind, weft_model *model,
                             weft_safetensors **out);
/* n numbers. */
weft_status weft__saved_numbers(const weft_safetensors *file, const char *path, const char *prefix,
                                const char *name, int64_t *out, int64_t n);
/* Ids of the model's vocabulary. Free with weft_free. */
weft_status weft__saved_ids(const weft_safetensors *file, const char *path, const char *prefix,
                            const char *name, weft_model *model, int32_t **ids, int64_t *n);
weft_status weft__saved_caches(const weft_safetensors *file, const char *path, const char *prefix,
                               weft_model *model, weft_cache_options *options,
                               weft_cache ***caches);

#endif
