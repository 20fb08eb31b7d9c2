/* generate/prompt_cache/files.h -- reading and writing files that contain KV caches. */
#ifndef WEFT_GENERATE_PROMPT_CACHE_FILES_H
#define WEFT_GENERATE_PROMPT_CACHE_FILES_H

#include "weft/prompt_cache.h"

enum { WEFT__HEX = 17 }; /* size of a hash as text */

/* ---- fingerprint.c -------------------------------------------------------------------------- */

uint64_t weft__hash(uint64_t hash, const void *bytes, size_t n);

/* The second field of weft_fingerprint. */
weft_status weft__fingerprint_adapter(weft_model *model, uint64_t *out);

/* Writes 16 digits to `out`, and returns it; "none" for 0. */
const char *weft__hash_text(uint64_t hash, char out[WEFT__HEX]);

/* ---- files.c -------------------------------------------------------------------------------- */

/* Arrays to be written to a file. */
typedef struct weft__saving {
    weft_named_arrays arrays;
    weft_status status; /* the first failure */
} weft__saving;

void weft__saving_add(weft__saving *s, weft_array *a, const char *prefix, const char *name);
void weft__saving_add_numbers(weft__saving *s, const int64_t *numbers, int64_t n,
                              const char *prefix, const char *name);
void weft__saving_add_ids(weft__saving *s, const int32_t *ids, int64_t n, const char *prefix,
                          const char *name);
/* Adds a model's caches, and the options that they were created with. */
void weft__saving_add_caches(weft__saving *s, weft_model *model, weft_cache **caches,
                             const weft_cache_options *options, const char *prefix);
/* Writes the file and empties `s`. The metadata begin with `kind` and the model's fingerprint. */
weft_status weft__saving_write(weft__saving *s, const char *path, const char *kind,
                               weft_model *model, const weft_metadata *metadata, int n);

/* Opens a file of the kind that was written with the same model and adapter. */
weft_status weft__saved_open(const char *path, const char *kind, weft_model *model,
                             weft_safetensors **out);
/* n numbers. */
weft_status weft__saved_numbers(const weft_safetensors *file, const char *path, const char *prefix,
                                const char *name, int64_t *out, int64_t n);
/* Reads ids, which must be in the model's vocabulary. Free with weft_free. */
weft_status weft__saved_ids(const weft_safetensors *file, const char *path, const char *prefix,
                            const char *name, weft_model *model, int32_t **ids, int64_t *n);
weft_status weft__saved_caches(const weft_safetensors *file, const char *path, const char *prefix,
                               weft_model *model, weft_cache_options *options,
                               weft_cache ***caches);

#endif
