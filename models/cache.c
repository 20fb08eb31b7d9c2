/* models/cache.c -- the cache interface: calls caches of any type, and computes attention over
 * their views. */
#include <math.h>

#include "weft/cache.h"
#include "weft/ops.h"

/* Closes the scope and returns the arrays of the view. The cache's own arrays are in its slots. */
static weft_cache_view close_view(weft_cache_view view)
{
    weft_array **fields[] = {&view.keys,
                             &view.values,
                             &view.key_codes.codes,
                             &view.key_codes.steps,
                             &view.key_codes.least,
                             &view.value_codes.codes,
                             &view.value_codes.steps,
                             &view.value_codes.least,
                             &view.lengths,
                             &view.mask,
                             &view.positions,
                             &view.pages};
    enum { FIELDS = sizeof fields / sizeof *fields };
    weft_array *arrays[FIELDS];
    for (int i = 0; i < FIELDS; i++)
        arrays[i] = *fields[i];
    weft_scope_close_n(arrays, FIELDS);
    for (int i = 0; i < FIELDS; i++)
        *fields[i] = arrays[i];
    return view;
}

weft_cache_view weft_cache_update(weft_cache *cache, weft_array *k, weft_array *v)
{
    weft_scope_open();
    return close_view(cache->type->update(cache, k, v));
}

int64_t weft_cache_offset(const weft_cache *cache)
{
    return cache->type->offset(cache);
}

int64_t weft_cache_length(const weft_cache *cache)
{
    return cache->type->length(cache);
}

int weft_cache_state(weft_cache *cache, weft_array ***slots)
{
    return cache->type->state(cache, slots);
}

int weft_cache_numbers(weft_cache *cache, int64_t **numbers)
{
    return cache->type->numbers(cache, numbers);
}

weft_status weft_cache_check(const weft_cache *cache)
{
    return cache->type->check(cache);
}

weft_cache *weft_cache_copy(weft_cache *cache)
{
    weft_array **from[WEFT_CACHE_SLOTS], **to[WEFT_CACHE_SLOTS];
    int64_t *counts[WEFT_CACHE_NUMBERS], *copies[WEFT_CACHE_NUMBERS];
    weft_cache *copy = cache->type->another(cache);
    if (copy == NULL)
        return NULL;
    const int n = weft_cache_state(cache, from);
    weft_cache_state(copy, to);
    for (int i = 0; i < n; i++) {
        if (weft_set(to[i], *from[i]) != WEFT_OK) {
            weft_cache_free(copy);
            return NULL;
        }
    }
    const int m = weft_cache_numbers(cache, counts);
    weft_cache_numbers(copy, copies);
    for (int i = 0; i < m; i++)
        *copies[i] = *counts[i];
    return copy;
}

bool weft_cache_can_trim(const weft_cache *cache, int64_t n)
{
    return cache->type->can_trim(cache, n);
}

weft_status weft_cache_trim(weft_cache *cache, int64_t n)
{
    weft_scope_open_lean();
    const weft_status status = cache->type->trim(cache, n);
    weft_scope_close(NULL);
    return status;
}

void weft_cache_reset(weft_cache *cache)
{
    weft_scope_open_lean();
    cache->type->reset(cache);
    weft_scope_close(NULL);
}

bool weft_cache_appends(const weft_cache *cache)
{
    const weft_cache_type *type = cache->type;
    return type->reserve && type->append && type->advance;
}

weft_status weft_cache_reserve(weft_cache *cache, int64_t n)
{
    weft_scope_open_lean();
    const weft_status status = cache->type->reserve(cache, n);
    weft_scope_close(NULL);
    return status;
}

weft_cache_view weft_cache_append(weft_cache *cache, weft_array *k, weft_array *v,
                                  weft_array *offset)
{
    weft_scope_open();
    return close_view(cache->type->append(cache, k, v, offset));
}

void weft_cache_advance(weft_cache *cache, int64_t n)
{
    cache->type->advance(cache, n);
}

void weft_cache_free(weft_cache *cache)
{
    if (cache)
        cache->type->free(cache);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* The caller's mask over positions, (..., L, tokens or 1), for the keys in the view. */
static weft_array *over_keys(weft_array *mask, const weft_cache_view *view)
{
    if (mask == NULL || view->positions == NULL || weft_dim(mask, -1) == 1)
        return mask;
    return weft_take(mask, view->positions, -1);
}

static weft_array *both(weft_array *mask, weft_array *visible)
{
    if (mask == NULL || visible == NULL)
        return mask ? mask : visible;
    if (weft_dtype_of(mask) == WEFT_BOOL)
        return weft_logical_and(mask, visible);
    return weft_where(visible, mask, weft_scalar(-INFINITY, weft_dtype_of(mask)));
}

weft_array *weft_cache_attention(weft_array *q, const weft_cache_view *view,
                                 const weft_attention_options *options)
{
    weft_scope_open();
    weft_attention_options o = *options;
    if (!o.causal || o.lengths)
        return weft_scope_close(
            weft_error_array("cache: attention: expected causal attention without lengths"));
    if (o.mask && view->positions && weft_ndim(view->positions) > 1)
        return weft_scope_close(weft_error_array(
            "cache: attention: a mask is unsupported where rows are at positions of their own"));
    o.mask = both(over_keys(o.mask, view), view->mask);
    o.lengths = view->lengths;
    o.pages = view->pages;
    if (view->mask)
        o.causal = false;
    if (view->window > 0 && (o.window == 0 || view->window < o.window))
        o.window = view->window;
    if (view->mask)
        o.window = 0;
    if (view->key_codes.codes)
        return weft_scope_close(weft_attention_codes(q, &view->key_codes, &view->value_codes, &o));
    return weft_scope_close(weft_attention(q, view->keys, view->values, &o));
}
