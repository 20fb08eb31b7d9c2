/* models/cache.c -- the key/value cache that holds everything, and calling caches of any type. */
#include "core/shape.h"
#include "weft/model.h"

enum { BLOCK = 256 }; /* tokens by which the capacity grows */

typedef struct growing_cache {
    weft_cache cache;
    weft_array *k, *v; /* (B, capacity, Hk, D); NULL while empty */
    int64_t length;
} growing_cache;

/* ---- the growing cache ---------------------------------------------------------------------- */

static int64_t round_up(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

/* `held` with room for `length` tokens like `fresh` (B, L, Hk, D). The old block is copied into a
 * new one of exactly the new capacity. */
static weft_array *with_room(weft_array *held, weft_array *fresh, int64_t length)
{
    const int64_t capacity = round_up(length);
    if (held == NULL) {
        weft_dims shape = weft_shape(fresh);
        shape.at[1] = capacity;
        return weft_zeros(shape, weft_dtype_of(fresh));
    }
    const int64_t more = capacity - weft_dim(held, 1);
    return more > 0 ? weft_pad(held, 1, 0, more, 0) : held;
}

/* `held` with `fresh` written from token `length` on. */
static weft_array *extended(weft_array *held, weft_array *fresh, int64_t length)
{
    const int64_t total = length + weft_dim(fresh, 1);
    const int32_t start = (int32_t)length;
    return weft_slice_update(with_room(held, fresh, total), fresh,
                             weft_from_data(&start, WEFT_INT32, WEFT_DIMS(1)), WEFT_DIMS(1));
}

static bool check(const growing_cache *c, weft_array *fresh, weft_array *held, weft_array **error)
{
    char expected[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    const weft_dims shape = weft_shape(fresh);
    if (!weft_ok(fresh)) {
        *error = fresh;
        return false;
    }
    if (shape.n == 4 && held == NULL)
        return true;
    weft_dims fit = shape;
    if (held) {
        fit = weft_shape(held);
        fit.at[1] = shape.n == 4 ? shape.at[1] : c->length;
    }
    if (shape.n == 4 && weft__shape_equal(&fit, &shape) &&
        weft_dtype_of(fresh) == weft_dtype_of(held))
        return true;
    *error = weft_error_array("cache: expected %s %s, got %s %s",
                              held ? weft__shape_text(&fit, expected) : "(B, L, Hk, D)",
                              held ? weft_dtype_name(weft_dtype_of(held)) : "",
                              weft__shape_text(&shape, got), weft_dtype_name(weft_dtype_of(fresh)));
    return false;
}

static void update(weft_cache *self, weft_array *k, weft_array *v, weft_array **keys,
                   weft_array **values)
{
    growing_cache *c = (growing_cache *)self;
    weft_array *error = NULL;
    if (!check(c, k, c->k, &error) || !check(c, v, c->v, &error)) {
        *keys = *values = error;
        return;
    }
    if (weft_dim(k, 0) != weft_dim(v, 0) || weft_dim(k, 1) != weft_dim(v, 1)) {
        *keys = *values = weft_error_array("cache: keys and values differ in batch or length");
        return;
    }
    weft_array *all_k = extended(c->k, k, c->length); /* (B, capacity, Hk, D) */
    weft_array *all_v = extended(c->v, v, c->length);
    if (!weft_ok(all_k) || !weft_ok(all_v)) {
        *keys = *values = weft_ok(all_k) ? all_v : all_k;
        return;
    }
    /* Neither can be refused: both are good. */
    weft_set(&c->k, all_k);
    weft_set(&c->v, all_v);
    c->length += weft_dim(k, 1);
    *keys = weft_slice_axis(all_k, 1, 0, c->length); /* (B, S, Hk, D) */
    *values = weft_slice_axis(all_v, 1, 0, c->length);
}

static int64_t length(const weft_cache *self)
{
    return ((const growing_cache *)self)->length;
}

static int state(weft_cache *self, weft_array ***slots)
{
    growing_cache *c = (growing_cache *)self;
    slots[0] = &c->k;
    slots[1] = &c->v;
    return 2;
}

/* What is forgotten stays in memory until it is overwritten; attention never sees it. */
static weft_status trim(weft_cache *self, int64_t n)
{
    growing_cache *c = (growing_cache *)self;
    if (n < 0 || n > c->length)
        return weft_fail(WEFT_INVALID, "cache: trim: expected 0 to %lld tokens, got %lld",
                         (long long)c->length, (long long)n);
    c->length -= n;
    return WEFT_OK;
}

static void reset(weft_cache *self)
{
    growing_cache *c = (growing_cache *)self;
    weft_drop(c->k);
    weft_drop(c->v);
    c->k = c->v = NULL;
    c->length = 0;
}

static weft_status reserve(weft_cache *self, int64_t n)
{
    growing_cache *c = (growing_cache *)self;
    if (c->k == NULL || c->length + n <= weft_dim(c->k, 1))
        return WEFT_OK;
    weft_scope_open();
    weft_array *k = with_room(c->k, c->k, c->length + n);
    weft_array *v = with_room(c->v, c->v, c->length + n);
    const weft_status status =
        weft_update((weft_array **[]){&c->k, &c->v}, (weft_array *[]){k, v}, 2);
    weft_scope_close(NULL);
    return status;
}

static void append(weft_cache *self, weft_array *k, weft_array *v, weft_array *offset,
                   weft_array **keys, weft_array **values, weft_array **lengths)
{
    growing_cache *c = (growing_cache *)self;
    weft_array *error = c->k ? NULL : weft_error_array("cache: append: no tokens came before");
    if (error || !check(c, k, c->k, &error) || !check(c, v, c->v, &error)) {
        *keys = *values = *lengths = error;
        return;
    }
    *keys = weft_slice_update(c->k, k, offset, WEFT_DIMS(1)); /* (B, capacity, Hk, D) */
    *values = weft_slice_update(c->v, v, offset, WEFT_DIMS(1));
    weft_array *L = weft_scalar_int(weft_dim(k, 1), WEFT_INT32);
    *lengths = weft_add(offset, L);
    weft_set(&c->k, *keys);
    weft_set(&c->v, *values);
}

static void advance(weft_cache *self, int64_t n)
{
    ((growing_cache *)self)->length += n;
}

static void growing_free(weft_cache *self)
{
    reset(self);
    weft_free(self);
}

static const weft_cache_type growing = {
    .name = "growing",
    .update = update,
    .offset = length,
    .length = length,
    .state = state,
    .trim = trim,
    .reset = reset,
    .free = growing_free,
    .reserve = reserve,
    .append = append,
    .advance = advance,
};

weft_cache *weft_cache_new(void)
{
    growing_cache *c = weft_calloc(1, sizeof *c);
    if (c == NULL) {
        weft_fail(WEFT_MEMORY, "no memory for a cache");
        return NULL;
    }
    c->cache.type = &growing;
    return &c->cache;
}

/* ---- any cache ------------------------------------------------------------------------------ */

void weft_cache_update(weft_cache *cache, weft_array *k, weft_array *v, weft_array **keys,
                       weft_array **values)
{
    cache->type->update(cache, k, v, keys, values);
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

weft_status weft_cache_trim(weft_cache *cache, int64_t n)
{
    return cache->type->trim(cache, n);
}

void weft_cache_reset(weft_cache *cache)
{
    cache->type->reset(cache);
}

bool weft_cache_appends(const weft_cache *cache)
{
    const weft_cache_type *type = cache->type;
    return type->reserve && type->append && type->advance;
}

weft_status weft_cache_reserve(weft_cache *cache, int64_t n)
{
    return cache->type->reserve(cache, n);
}

void weft_cache_append(weft_cache *cache, weft_array *k, weft_array *v, weft_array *offset,
                       weft_array **keys, weft_array **values, weft_array **lengths)
{
    cache->type->append(cache, k, v, offset, keys, values, lengths);
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
