/* weft/prompt_cache.h -- the prompt cache: the KV caches of earlier prompts, for reuse.
 *
 *     weft_prompt_cache *cache;
 *     status = weft_prompt_cache_new(model, NULL, &cache);
 *     weft_generate_options options = {.prompt_cache = cache};
 *
 * Generation then skips the longest prefix of the prompt that an entry has, and stores its own
 * sequence as an entry (weft_generate_batch: of sequences computed together, the prompt). Functions
 * may be called from several threads. If rotary embeddings depend on the length (dynamic,
 * longrope), an entry's keys are rotated for the length at which they were computed.
 */
#ifndef WEFT_PROMPT_CACHE_H
#define WEFT_PROMPT_CACHE_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Fingerprints --------------------------------------------------------------------------- */

/* A hash that distinguishes models; it is not cryptographic. */
typedef struct weft_fingerprint {
    uint64_t model;   /* configuration; names, shapes, dtypes, encodings and bytes of parameters; of
                         those over 64 KiB only 16 evenly spaced pieces of 4 KiB */
    uint64_t adapter; /* names, scales and all bytes of its matrices; 0: no adapter */
} weft_fingerprint;

/* Computes the fingerprint of a model; parameters on another device are read in full. Fails as
 * weft_read does. */
WEFT_NODISCARD WEFT_API weft_status weft_model_fingerprint(weft_model *model, weft_fingerprint *out)
    WEFT_NONNULL(2);

/* ---- The cache ------------------------------------------------------------------------------ */

typedef struct weft_prompt_cache weft_prompt_cache;

typedef struct weft_prompt_cache_options {
    /* The limit for all keys and values; the least recently used entry is evicted first. 0: an
     * eighth of weft_device_memory or weft_memory_limit. */
    int64_t max_bytes;
    int64_t min_tokens; /* shorter prefixes are computed again; 0: 16; below 0: none is */
} weft_prompt_cache_options;

/* Creates a prompt cache in *out; free it with weft_prompt_cache_free. Borrows the model. Entries
 * of another adapter are not used; after other parameters change, call weft_prompt_cache_clear.
 * NULL options: all zero. WEFT_INVALID for options out of range. */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_new(weft_model *model,
                                                          const weft_prompt_cache_options *options,
                                                          weft_prompt_cache **out) WEFT_NONNULL(3);
WEFT_API void weft_prompt_cache_free(weft_prompt_cache *cache); /* NULL is accepted */
WEFT_API void weft_prompt_cache_clear(weft_prompt_cache *cache) WEFT_NONNULL(1);

typedef struct weft_prompt_cache_metrics {
    int64_t hits, misses;            /* lookups */
    int64_t hit_tokens, miss_tokens; /* of their prompts: found, and to be computed */
    int64_t evictions;               /* entries that were evicted */
    int64_t entries, bytes;          /* now */
} weft_prompt_cache_metrics;

/* Counts of lookups, evictions and entries. */
WEFT_API weft_prompt_cache_metrics weft_prompt_cache_measure(weft_prompt_cache *cache)
    WEFT_NONNULL(1);

/* Computes a sequence of n ids, such as instructions that many prompts begin with, and stores it as
 * an entry that later prompts do not extend. `prefill` tokens are computed at a time; 0: 512.
 * WEFT_INVALID for a sequence that the model cannot take, WEFT_UNSUPPORTED for one that is longer
 * than weft_model_info.renews_at. */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_warm(weft_prompt_cache *cache,
                                                           const int32_t *ids, size_t n,
                                                           const weft_cache_options *options,
                                                           int64_t prefill) WEFT_NONNULL(1);

/* Looks up a prompt of n ids. *caches are KV caches with these options that hold its longest known
 * prefix of *matched < n tokens, or new ones and 0. The caller puts them back or frees them with
 * weft_model_free_caches. An entry that has dropped tokens (max_context, windows) matches only
 * prompts that begin with nearly all of it. NULL options: all zero. Fails only when out of memory.
 */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_take(weft_prompt_cache *cache,
                                                           const int32_t *ids, size_t n,
                                                           const weft_cache_options *options,
                                                           weft_cache ***caches, int64_t *matched)
    WEFT_NONNULL(1, 6);

/* Stores caches that hold the first tokens of a sequence of n ids. Takes ownership of `caches`,
 * even on failure. Tokens beyond the n ids are trimmed; caches that cannot be trimmed are freed.
 * Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_put(weft_prompt_cache *cache,
                                                          const int32_t *ids, size_t n,
                                                          const weft_cache_options *options,
                                                          weft_cache **caches);

/* Writes all entries to a safetensors file, complete or absent; WEFT_IO if that fails. WEFT_INVALID
 * if the path is a file that is not of a prompt cache or a generation, which is not replaced. */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_save(weft_prompt_cache *cache,
                                                           const char *path) WEFT_NONNULL(1);
/* Adds the entries of a file from weft_prompt_cache_save. WEFT_INVALID for entries of another model
 * or adapter, which the message names, and for a malformed file; WEFT_IO if it cannot be read. */
WEFT_NODISCARD WEFT_API weft_status weft_prompt_cache_load(weft_prompt_cache *cache,
                                                           const char *path) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
