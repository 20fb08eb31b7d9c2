/* generate/prompt_cache/prompt_cache.c -- the prompt cache: entries of a text and its caches,
 * lookup of the longest prefix, and eviction. */
#include "generate/prompt_cache/prompt_cache.h"

#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "generate/caches/plan.h"
#include "weft/ops.h"

enum { MIN_TOKENS = 16, PREFILL = 512, SHARE = 8 /* default share of memory */ };

/* ---- entries -------------------------------------------------------------------------------- */

static void entry_free(weft_prompt_cache *cache, weft__entry *e)
{
    if (e == NULL)
        return;
    weft_model_free_caches(cache->model, e->caches);
    weft_free(e->ids);
    weft_free(e);
}

/* Removes it from the list. */
static void unlink_entry(weft_prompt_cache *cache, weft__entry *e)
{
    weft__entry **at = &cache->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    cache->metrics.entries--;
    cache->metrics.bytes -= e->bytes;
}

static int64_t bytes_of(weft_prompt_cache *cache, weft_cache **caches)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < weft_model_info_of(cache->model)->n_caches; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int n = weft_cache_state(caches[i], slots);
        for (int k = 0; k < n; k++)
            bytes += *slots[k] ? weft_nbytes(*slots[k]) : 0;
    }
    return bytes;
}

static void make_room(weft_prompt_cache *cache)
{
    while (cache->metrics.bytes > cache->max_bytes) {
        weft__entry *oldest = cache->first;
        for (weft__entry *e = cache->first; e; e = e->next) {
            if (e->used < oldest->used)
                oldest = e;
        }
        unlink_entry(cache, oldest);
        entry_free(cache, oldest);
        cache->metrics.evictions++;
    }
}

static int64_t common(const weft__entry *e, const int32_t *ids, int64_t n)
{
    int64_t i = 0;
    while (i < e->n && i < n && e->ids[i] == ids[i])
        i++;
    return i;
}

weft_status weft__prompt_cache_add(weft_prompt_cache *cache, const int32_t *ids, int64_t n,
                                   const weft_cache_options *options, weft_cache **caches,
                                   uint64_t adapter, bool fixed)
{
    weft__entry *e = weft_calloc(1, sizeof *e);
    if (e)
        e->ids = weft_malloc((size_t)(n + 1) * sizeof *e->ids);
    if (e == NULL || e->ids == NULL) {
        weft_free(e);
        weft_model_free_caches(cache->model, caches);
        return weft__out_of_memory("prompt cache", "an entry");
    }
    memcpy(e->ids, ids, (size_t)n * sizeof *ids);
    e->n = n;
    e->caches = caches;
    e->options = *options;
    e->adapter = adapter;
    e->fixed = fixed;
    e->bytes = bytes_of(cache, caches);
    /* Entries that are a prefix of the new text, or equal to it, are dropped. */
    for (weft__entry *old = cache->first, *next; old; old = next) {
        next = old->next;
        if (old->adapter == adapter && weft__cache_options_same(&old->options, options) &&
            (!old->fixed || (fixed && old->n == n)) && common(old, ids, n) == old->n) {
            unlink_entry(cache, old);
            entry_free(cache, old);
        }
    }
    e->used = ++cache->clock;
    e->next = cache->first;
    cache->first = e;
    cache->metrics.entries++;
    cache->metrics.bytes += e->bytes;
    make_room(cache);
    return WEFT_OK;
}

/* ---- creating -------------------------------------------------------------------------------- */

static int64_t default_bytes(void)
{
    const int64_t memory = weft_device_memory(weft_default_device()), limit = weft_memory_limit();
    return (memory > 0 && memory < limit ? memory : limit) / SHARE;
}

weft_status weft_prompt_cache_new(weft_model *model, const weft_prompt_cache_options *options,
                                  weft_prompt_cache **out)
{
    const weft_prompt_cache_options o = options ? *options : (weft_prompt_cache_options){0};
    *out = NULL;
    if (o.max_bytes < 0)
        return weft_fail(WEFT_INVALID, "prompt cache: max_bytes: expected at least 0");
    weft_prompt_cache *cache = weft_calloc(1, sizeof *cache);
    if (cache == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for a prompt cache");
    cache->model = model;
    cache->max_bytes = o.max_bytes > 0 ? o.max_bytes : default_bytes();
    cache->min_tokens = weft__count_or_default(o.min_tokens, MIN_TOKENS);
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return WEFT_OK;
}

void weft_prompt_cache_clear(weft_prompt_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    while (cache->first) {
        weft__entry *e = cache->first;
        unlink_entry(cache, e);
        entry_free(cache, e);
    }
    pthread_mutex_unlock(&cache->lock);
}

void weft_prompt_cache_free(weft_prompt_cache *cache)
{
    if (cache == NULL)
        return;
    weft_prompt_cache_clear(cache);
    pthread_mutex_destroy(&cache->lock);
    weft_free(cache);
}

weft_prompt_cache_metrics weft_prompt_cache_measure(weft_prompt_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    const weft_prompt_cache_metrics metrics = cache->metrics;
    pthread_mutex_unlock(&cache->lock);
    return metrics;
}

/* ---- lookup ---------------------------------------------------------------------------------- */

static weft_cache **copy_caches(weft_model *model, weft_cache **from)
{
    const int64_t n = weft_model_info_of(model)->n_caches;
    weft_cache **caches = weft_calloc((size_t)(n > 0 ? n : 1), sizeof(weft_cache *));
    if (caches == NULL)
        weft_fail(WEFT_MEMORY, "out of memory for %lld caches", (long long)n);
    for (int64_t i = 0; caches && i < n; i++) {
        caches[i] = weft_cache_copy(from[i]);
        if (caches[i] == NULL) {
            weft_model_free_caches(model, caches);
            return NULL;
        }
    }
    return caches;
}

static bool can_trim(weft_model *model, weft_cache **caches, int64_t n)
{
    for (int64_t i = 0; i < weft_model_info_of(model)->n_caches; i++) {
        if (!weft_cache_can_trim(caches[i], n))
            return false;
    }
    return true;
}

static weft_status trim(weft_model *model, weft_cache **caches, int64_t n)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < weft_model_info_of(model)->n_caches && status == WEFT_OK; i++)
        status = weft_cache_trim(caches[i], n);
    return status;
}

/* The entry with the longest common prefix, of *matched tokens, to which it can be trimmed. */
static weft__entry *find(weft_prompt_cache *cache, const int32_t *ids, int64_t n,
                         const weft_cache_options *options, uint64_t adapter, int64_t *matched)
{
    weft__entry *best = NULL;
    *matched = 0;
    for (weft__entry *e = cache->first; e; e = e->next) {
        if (e->adapter != adapter || !weft__cache_options_same(&e->options, options))
            continue;
        /* The last token is computed again for its logits. */
        int64_t m = common(e, ids, n);
        m = m < n ? m : n - 1;
        if (m >= cache->min_tokens && m > *matched && can_trim(cache->model, e->caches, e->n - m)) {
            best = e;
            *matched = m;
        }
    }
    return best;
}

/* Returns the entry's caches, trimmed to `matched` tokens: the entry's own if the prompt continues
 * at its end, else copies. */
static weft_status hand_out(weft_prompt_cache *cache, weft__entry *e, int64_t matched,
                            weft_cache ***caches)
{
    const int64_t beyond = e->n - matched;
    if (e->fixed || beyond > 0) {
        *caches = copy_caches(cache->model, e->caches);
        e->used = ++cache->clock;
    } else {
        *caches = e->caches;
        e->caches = NULL;
        unlink_entry(cache, e);
        entry_free(cache, e);
    }
    if (*caches == NULL)
        return weft_error_status();
    const weft_status status = trim(cache->model, *caches, beyond);
    if (status != WEFT_OK) {
        weft_model_free_caches(cache->model, *caches);
        *caches = NULL;
    }
    return status;
}

weft_status weft_prompt_cache_take(weft_prompt_cache *cache, const int32_t *ids, size_t n,
                                   const weft_cache_options *options, weft_cache ***caches,
                                   int64_t *matched)
{
    const weft_cache_options o = weft__cache_options_of(cache->model, options);
    uint64_t adapter;
    *caches = NULL;
    *matched = 0;
    weft_status status = weft__fingerprint_adapter(cache->model, &adapter);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&cache->lock);
    weft__entry *e = find(cache, ids, (int64_t)n, &o, adapter, matched);
    if (e)
        status = hand_out(cache, e, *matched, caches);
    cache->metrics.hits += *matched > 0;
    cache->metrics.misses += *matched == 0;
    cache->metrics.hit_tokens += *matched;
    cache->metrics.miss_tokens += (int64_t)n - *matched;
    pthread_mutex_unlock(&cache->lock);
    if (status != WEFT_OK || *caches)
        return status;
    *caches = weft_model_new_caches(cache->model, &o);
    return *caches ? WEFT_OK : weft_error_status();
}

/* ---- insertion ------------------------------------------------------------------------------- */

/* The number of tokens in the caches, if they agree and none has failed; else -1. */
static int64_t tokens_in(weft_model *model, weft_cache **caches)
{
    const int64_t held = weft_cache_offset(caches[0]);
    for (int64_t i = 0; i < weft_model_info_of(model)->n_caches; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int n = weft_cache_state(caches[i], slots);
        if (weft_cache_offset(caches[i]) != held)
            return -1;
        for (int k = 0; k < n; k++) {
            if (*slots[k] == NULL || weft_eval(*slots[k]) != WEFT_OK)
                return -1;
        }
    }
    return held;
}

static weft_status put(weft_prompt_cache *cache, const int32_t *ids, int64_t n,
                       const weft_cache_options *options, weft_cache **caches, bool fixed)
{
    const weft_cache_options o = weft__cache_options_of(cache->model, options);
    const int64_t held =
        weft_model_info_of(cache->model)->n_caches > 0 ? tokens_in(cache->model, caches) : -1;
    const int64_t beyond = held > n ? held - n : 0;
    uint64_t adapter = 0;
    weft_status status = weft__fingerprint_adapter(cache->model, &adapter);
    if (status == WEFT_OK && (held <= 0 || !can_trim(cache->model, caches, beyond))) {
        weft_model_free_caches(cache->model, caches);
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        status = trim(cache->model, caches, beyond);
    if (status != WEFT_OK) {
        weft_model_free_caches(cache->model, caches);
        return status;
    }
    pthread_mutex_lock(&cache->lock);
    status = weft__prompt_cache_add(cache, ids, held - beyond, &o, caches, adapter, fixed);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

weft_status weft_prompt_cache_put(weft_prompt_cache *cache, const int32_t *ids, size_t n,
                                  const weft_cache_options *options, weft_cache **caches)
{
    return put(cache, ids, (int64_t)n, options, caches, false);
}

static weft_status read_chunk(weft_model *model, const int32_t *ids, int64_t n, weft_cache **caches)
{
    weft_scope_open_lean();
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    const weft_status status =
        weft_eval(weft_model_hidden(model, tokens, &(weft_model_call){.caches = caches}));
    weft_scope_close(NULL);
    return status;
}

weft_status weft_prompt_cache_warm(weft_prompt_cache *cache, const int32_t *ids, size_t n,
                                   const weft_cache_options *options, int64_t prefill)
{
    weft_cache **caches;
    int64_t done;
    const weft_model_info *info = weft_model_info_of(cache->model);
    const int64_t step = prefill > 0 ? prefill : PREFILL, V = info->vocab_size;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "prompt cache: the text has no tokens");
    if (info->renews_at > 0 && n > (size_t)info->renews_at)
        return weft_fail(WEFT_UNSUPPORTED,
                         "prompt cache: expected at most %lld tokens, since the model rotates the "
                         "keys of longer texts in another way, got %zu",
                         (long long)info->renews_at, n);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= V)
            return weft_fail(WEFT_INVALID,
                             "prompt cache: id %zu: expected one of the vocabulary's %lld, got %d",
                             i, (long long)V, (int)ids[i]);
    }
    weft_status status = weft_prompt_cache_take(cache, ids, n, options, &caches, &done);
    if (status != WEFT_OK)
        return status;
    for (int64_t size; done < (int64_t)n && status == WEFT_OK; done += size) {
        size = (int64_t)n - done < step ? (int64_t)n - done : step;
        status = read_chunk(cache->model, ids + done, size, caches);
    }
    if (status == WEFT_OK)
        return put(cache, ids, (int64_t)n, options, caches, true);
    weft_model_free_caches(cache->model, caches);
    return status;
}
