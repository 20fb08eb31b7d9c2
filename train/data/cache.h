/* train/data/cache.h -- caches tokenized datasets in files. */
#ifndef WEFT_TRAIN_DATASET_CACHE_H
#define WEFT_TRAIN_DATASET_CACHE_H

#include "train/data/dataset.h"

/* The warnings that were logged while reading, one per line, to repeat them when the cache is used.
 */
typedef struct weft__said {
    char text[4096];
    size_t n;
} weft__said;

/* Logs a warning and appends it to `said`, which may be NULL. */
void weft__data_warn(weft__said *said, const char *format, ...) WEFT_PRINTF(2, 3);

/* The name of the cache file for these arguments of weft_dataset_load_mixture: a hash of the
 * contents of all data files, the tokenizer's files, the chat template and the options. The caller
 * frees *out. *out is NULL if there is no cache folder or caching is impossible: for standard input
 * and for templates that write the date. WEFT_IO for a file that cannot be read. */
weft_status weft__dataset_cache_name(const weft_data_source *sources, int n,
                                     const weft_tokenizer *tokenizer,
                                     const weft_dataset_options *options, double split, char **out);

/* Opens a cache file. True if it exists and is complete. `validation` is NULL if it is not wanted.
 */
bool weft__dataset_cache_open(const char *path, weft_dataset **train, weft_dataset **validation);

/* Writes a cache file. `validation` may be NULL. */
weft_status weft__dataset_cache_write(const char *path, const weft_dataset *train,
                                      const weft_dataset *validation, const weft__said *said);

#endif
