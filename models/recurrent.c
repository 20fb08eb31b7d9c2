/* models/recurrent.c -- the cache of a layer with states of fixed size instead of keys and values.
 * It can be reset, but not trimmed. */
#include "models/recurrent.h"

#include <string.h>

#include "core/failure.h"
#include "weft/ops.h"

typedef struct recurrent {
    weft_cache cache;
    weft_array *states[WEFT_LAYER_STATES]; /* (B, shape...), float32; NULL while empty */
    weft_dims shapes[WEFT_LAYER_STATES];
    int n;
    int64_t length; /* tokens read */
} recurrent;

static weft_cache_view refused(void)
{
    weft_array *error =
        weft_error_array("cache: a layer that keeps a state has no keys and values");
    return (weft_cache_view){.keys = error, .values = error};
}

static weft_cache_view update(weft_cache *self, weft_array *k, weft_array *v)
{
    (void)self;
    (void)k;
    (void)v;
    return refused();
}

static weft_cache_view append(weft_cache *self, weft_array *k, weft_array *v, weft_array *offset)
{
    (void)self;
    (void)k;
    (void)v;
    (void)offset;
    return refused();
}

static int64_t length(const weft_cache *self)
{
    return ((const recurrent *)self)->length;
}

static int state(weft_cache *self, weft_array ***slots)
{
    recurrent *c = (recurrent *)self;
    for (int i = 0; i < c->n; i++)
        slots[i] = &c->states[i];
    return c->n;
}

static int numbers(weft_cache *self, int64_t **out)
{
    out[0] = &((recurrent *)self)->length;
    return 1;
}

/* Whether `state` is (B, shape...), where B (-1 at first) must be the same for all. */
static bool fits(weft_array *state, weft_dims shape, int64_t *B)
{
    if (state == NULL || !weft_ok(state) || weft_dtype_of(state) != WEFT_FLOAT32 ||
        weft_ndim(state) != shape.n + 1)
        return false;
    *B = *B < 0 ? weft_dim(state, 0) : *B;
    bool same = weft_dim(state, 0) == *B;
    for (int i = 0; i < shape.n; i++)
        same = same && weft_dim(state, i + 1) == shape.at[i];
    return same;
}

static weft_status check(const weft_cache *self)
{
    const recurrent *c = (const recurrent *)self;
    const bool empty = c->length == 0;
    bool fine = c->length >= 0 && c->length <= INT32_MAX / 2;
    int64_t B = -1;
    for (int i = 0; i < c->n; i++)
        fine = fine && (empty ? c->states[i] == NULL : fits(c->states[i], c->shapes[i], &B));
    return fine ? WEFT_OK
                : weft_fail(WEFT_INVALID, "cache: arrays and numbers are not those of a %s cache",
                            self->type->name);
}

static weft_cache *another(const weft_cache *self)
{
    const recurrent *c = (const recurrent *)self;
    return weft__recurrent_new(c->shapes, c->n);
}

static void reset(weft_cache *self)
{
    recurrent *c = (recurrent *)self;
    for (int i = 0; i < c->n; i++) {
        weft_drop(c->states[i]);
        c->states[i] = NULL;
    }
    c->length = 0;
}

static bool can_trim(const weft_cache *self, int64_t n)
{
    return n == 0 || n == ((const recurrent *)self)->length;
}

static weft_status trim(weft_cache *self, int64_t n)
{
    const int64_t held = length(self);
    if (!can_trim(self, n))
        return weft_fail(n < 0 || n > held ? WEFT_INVALID : WEFT_UNSUPPORTED,
                         "cache: trim: a state forgets all of its %lld tokens or none, got %lld",
                         (long long)held, (long long)n);
    if (n > 0)
        reset(self);
    return WEFT_OK;
}

static void recurrent_free(weft_cache *self)
{
    reset(self);
    weft_free(self);
}

static weft_status reserve(weft_cache *self, int64_t n)
{
    (void)self;
    (void)n;
    return WEFT_OK; /* never larger */
}

static void advance(weft_cache *self, int64_t n)
{
    ((recurrent *)self)->length += n;
}

static const weft_cache_type recurrent_type = {
    .name = "recurrent",
    .update = update,
    .offset = length,
    .length = length,
    .state = state,
    .numbers = numbers,
    .check = check,
    .another = another,
    .can_trim = can_trim,
    .trim = trim,
    .reset = reset,
    .free = recurrent_free,
    .reserve = reserve,
    .append = append,
    .advance = advance,
};

weft_cache *weft__recurrent_new(const weft_dims *shapes, int n)
{
    recurrent *c = weft_calloc(1, sizeof *c);
    if (c == NULL) {
        weft_fail(WEFT_MEMORY, "out of memory for a cache");
        return NULL;
    }
    c->cache.type = &recurrent_type;
    c->n = n;
    memcpy(c->shapes, shapes, (size_t)n * sizeof *shapes);
    return &c->cache;
}

bool weft__recurrent_is(const weft_cache *cache)
{
    return cache->type == &recurrent_type;
}

/* ---- a step ---------------------------------------------------------------------------------- */

weft_array *weft__recurrent_before(const weft_dims *shapes, int n, int64_t B,
                                   const weft__step *step, const weft_cache *cache,
                                   weft_array **states)
{
    if (step->mask)
        return weft_error_array("a mask besides causality is unsupported where layers keep states");
    if (cache && !weft__recurrent_is(cache))
        return weft_error_array("expected a recurrent cache, got a %s one", cache->type->name);
    for (int i = 0; i < n; i++) {
        weft_dims all = {.n = shapes[i].n + 1, .at = {B}};
        for (int k = 0; k < shapes[i].n; k++)
            all.at[k + 1] = shapes[i].at[k];
        states[i] = cache ? ((const recurrent *)cache)->states[i] : NULL;
        if (states[i] == NULL)
            states[i] = weft_zeros(all, WEFT_FLOAT32);
    }
    return NULL;
}

/* Sets all states after L more tokens; a compiled step counts the tokens later (L = 0). */
static weft_status put(weft_cache *cache, weft_array *const *states, int64_t L)
{
    recurrent *c = (recurrent *)cache;
    int64_t B = -1;
    for (int i = 0; i < c->n; i++) {
        if (!weft_ok(states[i]))
            return weft__report(states[i]);
        if (!fits(states[i], c->shapes[i], &B))
            return weft_fail(WEFT_INVALID, "cache: state %d is of another shape or dtype", i);
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->n && status == WEFT_OK; i++)
        status = weft_set(&c->states[i], states[i]);
    c->length += status == WEFT_OK ? L : 0;
    return status;
}

weft_array *weft__recurrent_after(weft_array *y, const weft__step *step, weft_cache *cache,
                                  weft_array *const *states)
{
    return cache && put(cache, states, step->offset ? 0 : weft_dim(y, 1)) != WEFT_OK
               ? weft_error_array("%s", weft_error_message())
               : y;
}

weft_array *weft__positions_in_row(weft_array *like, int64_t L)
{
    return weft_to(weft_arange(0, (double)L, 1, WEFT_INT32), weft_device_of(like));
}

weft_array *weft__recurrent_resets(weft_array *g, weft_array *first)
{
    enum { FORGET = -10000 }; /* e^FORGET is 0, and FORGET times 0 is not NaN */
    if (first == NULL)
        return g;
    weft_array *begins = weft_equal(weft__positions_in_row(first, weft_dim(g, 1)), first);
    return weft_where(weft_expand_dims(begins, -1), weft_scalar(FORGET, WEFT_FLOAT32), g);
}
