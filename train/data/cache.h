/* train/data/cache.h -- datasets kept in files, so that data is tokenized once. */
#ifndef WEFT_TRAIN_DATASET_CACHE_H
#define WEFT_TRAIN_DATASET_CACHE_H

#include "train/data/dataset.h"

/* What reading said in the log, a line each, to be said again. */
typedef struct weft__said {
    char text[4096];
    size_t n;
} weft__said;

/* Logs a warning and remembers it. `said` may be NULL. */
void weft__data_warn(weft__said *said, const char *format, ...) WEFT_PRINTF(2, 3);

/* The name of the file of what these arguments of weft_dataset_load_mixture give: a hash of the
 * contents of all files, of the tokenizer's, of the chat template and of the options. *out is the
 * caller's; NULL when there is no cache, or none is possible: for standard input, and for templates
 * that write the date. WEFT_IO for a file that cannot be read. */
weft_status weft__dataset_cache_name(const weft_data_source *sources, int n,
                                     const weft_tokenizer *tokenizer,
                                     const weft_dataset_options *options, double split, char **out);

/* Opens a file of the cache: true if it exists and is complete. `validation` NULL: without one. */
bool weft__dataset_cache_open(const char *path, weft_dataset **train, weft_dataset **validation);

/* Writes one; `validation` may be NULL. */
weft_status weft__dataset_cache_write(const char *path, const weft_dataset *train,
                                      const weft_dataset *validation, const weft__said *said);

#endif
