/* generate/prompt_cache/prompt_cache_file.c -- saves a prompt cache's entries to a file and loads
 * them. */
#include <stdio.h>

#include "generate/prompt_cache/prompt_cache.h"
#include "weft/io.h"
#include "weft/ops.h"

static const char kind[] = "prompt cache";

enum { PREFIX = 24 };

static const char *prefix_of(int64_t i, char out[PREFIX])
{
    snprintf(out, PREFIX, "%lld.", (long long)i);
    return out;
}

weft_status weft_prompt_cache_save(weft_prompt_cache *cache, const char *path)
{
    weft__saving s = {0};
    uint64_t adapter;
    char prefix[PREFIX];
    int64_t n = 0;
    s.status = weft__fingerprint_adapter(cache->model, &adapter);
    weft_scope_open_lean();
    pthread_mutex_lock(&cache->lock);
    for (const weft__entry *e = cache->first; e && s.status == WEFT_OK; e = e->next) {
        const int64_t fixed = e->fixed;
        if (e->adapter != adapter)
            continue; /* from another adapter or another state of the model */
        prefix_of(n++, prefix);
        weft__saving_add_ids(&s, e->ids, e->n, prefix, "ids");
        weft__saving_add_numbers(&s, &fixed, 1, prefix, "fixed");
        weft__saving_add_caches(&s, cache->model, e->caches, &e->options, prefix);
    }
    weft__saving_add_numbers(&s, &n, 1, "", "entries");
    const weft_status status = weft__saving_write(&s, path, kind, cache->model, NULL, 0);
    pthread_mutex_unlock(&cache->lock);
    weft_scope_close(NULL);
    return status;
}

static weft_status read_entry(weft_prompt_cache *cache, const weft_safetensors *file,
                              const char *path, const char *prefix, uint64_t adapter)
{
    int64_t n, fixed;
    int32_t *ids;
    weft_cache_options options;
    weft_cache **caches;
    weft_status status = weft__saved_numbers(file, path, prefix, "fixed", &fixed, 1);
    if (status == WEFT_OK)
        status = weft__saved_caches(file, path, prefix, cache->model, &options, &caches);
    if (status != WEFT_OK)
        return status;
    status = weft__saved_ids(file, path, prefix, "ids", cache->model, &ids, &n);
    if (status == WEFT_OK && (n < 1 || weft_cache_offset(caches[0]) != n))
        status = weft_fail(WEFT_INVALID, "%s: '%s': %lld ids for caches of %lld tokens", path,
                           weft_printable(prefix), (long long)n,
                           (long long)weft_cache_offset(caches[0]));
    if (status == WEFT_OK) {
        pthread_mutex_lock(&cache->lock);
        status = weft__prompt_cache_add(cache, ids, n, &options, caches, adapter, fixed != 0);
        pthread_mutex_unlock(&cache->lock);
    } else {
        weft_model_free_caches(cache->model, caches);
    }
    weft_free(ids);
    return status;
}

weft_status weft_prompt_cache_load(weft_prompt_cache *cache, const char *path)
{
    weft_safetensors *file;
    uint64_t adapter;
    int64_t n = 0;
    char prefix[PREFIX];
    weft_status status = weft__saved_open(path, kind, cache->model, &file);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    status = weft__fingerprint_adapter(cache->model, &adapter);
    if (status == WEFT_OK)
        status = weft__saved_numbers(file, path, "", "entries", &n, 1);
    /* The most recent entry was written first, and must be added last. */
    for (int64_t i = n < weft_safetensors_count(file) ? n - 1 : -1; i >= 0 && status == WEFT_OK;
         i--)
        status = read_entry(cache, file, path, prefix_of(i, prefix), adapter);
    if (status == WEFT_OK && n >= weft_safetensors_count(file))
        status = weft_fail(WEFT_INVALID, "%s: %lld entries in a file of %d arrays", path,
                           (long long)n, weft_safetensors_count(file));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return status;
}
