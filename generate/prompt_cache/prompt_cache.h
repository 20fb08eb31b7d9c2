/* generate/prompt_cache/prompt_cache.h -- internal interface of the prompt cache. */
#ifndef WEFT_GENERATE_PROMPT_CACHE_PROMPT_CACHE_H
#define WEFT_GENERATE_PROMPT_CACHE_PROMPT_CACHE_H

#include <pthread.h>

#include "generate/prompt_cache/files.h"

typedef struct weft__entry {
    struct weft__entry *next;
    int32_t *ids; /* n ids, as many as the caches hold */
    int64_t n;
    weft_cache **caches;
    weft_cache_options options; /* that they were created with */
    uint64_t adapter;
    int64_t bytes;
    uint64_t used; /* clock of the last use */
    bool fixed;    /* never modified: only copies are returned */
} weft__entry;

struct weft_prompt_cache {
    weft_model *model;
    int64_t max_bytes, min_tokens;
    pthread_mutex_t lock; /* protects the fields below */
    weft__entry *first;
    uint64_t clock;
    weft_prompt_cache_metrics metrics;
};

/* Takes the caches in any case. Called with the lock. */
weft_status weft__prompt_cache_add(weft_prompt_cache *cache, const int32_t *ids, int64_t n,
                                   const weft_cache_options *options, weft_cache **caches,
                                   uint64_t adapter, bool fixed);

#endif
