/* generate/slots.c -- a KV cache for several sequences of different lengths. */
#include "generate/slots.h"

#include "generate/caches/store.h"

enum { BLOCK = 256 }; /* tokens by which the capacity grows */

typedef struct slots_cache {
    weft_cache cache;
    weft_array *k, *v; /* (B, capacity, Hk, D); NULL while empty */
} slots_cache;

static weft_cache_view refused(weft_array *error)
{
    return (weft_cache_view){.keys = error, .values = error};
}

static weft_cache_view update(weft_cache *self, weft_array *k, weft_array *v)
{
    (void)self;
    (void)k;
    (void)v;
    return refused(weft_error_array("slots: texts of different lengths are appended to only"));
}

/* The offsets are in the call's arrays, so the cache has none. */
static int64_t nowhere(const weft_cache *self)
{
    (void)self;
    return 0;
}

static int state(weft_cache *self, weft_array ***slots)
{
    slots_cache *c = (slots_cache *)self;
    slots[0] = &c->k;
    slots[1] = &c->v;
    return 2;
}

static int numbers(weft_cache *self, int64_t **out)
{
    (void)self;
    (void)out;
    return 0;
}

static weft_cache *another(const weft_cache *self)
{
    (void)self;
    return weft__slots_new();
}

static bool can_trim(const weft_cache *self, int64_t n)
{
    (void)self;
    return n == 0;
}

static weft_status trim(weft_cache *self, int64_t n)
{
    (void)self;
    if (n == 0)
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED, "slots: trim: the texts have lengths of their own");
}

static void reset(weft_cache *self)
{
    slots_cache *c = (slots_cache *)self;
    weft_drop(c->k);
    weft_drop(c->v);
    c->k = c->v = NULL;
}

static void slots_free(weft_cache *self)
{
    reset(self);
    weft_free(self);
}

static weft_status reserve(weft_cache *self, int64_t n)
{
    (void)self;
    (void)n;
    return WEFT_OK; /* done by weft__slots_reserve */
}

static void advance(weft_cache *self, int64_t n)
{
    (void)self;
    (void)n;
}

/* `held` (B, S, Hk, D) with `fresh` (B, 1, Hk, D) at indices (B) of axis 1. */
static weft_array *written(weft_array *held, weft_array *fresh, weft_array *places)
{
    weft_array *at = weft_reshape(places, WEFT_DIMS(weft_dim(fresh, 0), 1, 1, 1));
    return weft_put_along_axis(held, weft_broadcast_to(at, weft_shape(fresh)), fresh, 1);
}

static weft_cache_view append(weft_cache *self, weft_array *k, weft_array *v, weft_array *offset)
{
    slots_cache *c = (slots_cache *)self;
    if (weft_ok(k) && (c->k == NULL || weft_dim(k, 1) != 1))
        return refused(weft_error_array("slots: expected one token for each text"));
    if (weft_ok(k) && weft_ok(v)) {
        k = weft__store_rounded(k, weft_dtype_of(c->k));
        v = weft__store_rounded(v, weft_dtype_of(c->v));
    }
    const weft_cache_view view = {.keys = written(c->k, k, offset),
                                  .values = written(c->v, v, offset),
                                  .lengths = weft_add(offset, weft_scalar_int(1, WEFT_INT32))};
    /* A failed array is refused; the view has its failure. */
    (void)weft_set(&c->k, view.keys);
    (void)weft_set(&c->v, view.values);
    return view;
}

static const weft_cache_type slots_type = {
    .name = "slots",
    .update = update,
    .offset = nowhere,
    .length = nowhere,
    .state = state,
    .numbers = numbers,
    .another = another,
    .can_trim = can_trim,
    .trim = trim,
    .reset = reset,
    .free = slots_free,
    .reserve = reserve,
    .append = append,
    .advance = advance,
};

weft_cache *weft__slots_new(void)
{
    slots_cache *c = weft_calloc(1, sizeof *c);
    if (c == NULL) {
        weft_fail(WEFT_MEMORY, "out of memory for a cache");
        return NULL;
    }
    c->cache.type = &slots_type;
    return &c->cache;
}

static int64_t round_up(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

static weft_status replace(slots_cache *c, weft_array *k, weft_array *v)
{
    return weft_update((weft_array **[]){&c->k, &c->v}, (weft_array *[]){k, v}, 2);
}

weft_status weft__slots_reserve(weft_cache *self, int64_t length)
{
    slots_cache *c = (slots_cache *)self;
    const int64_t more = c->k ? round_up(length) - weft_dim(c->k, 1) : 0;
    if (more <= 0)
        return WEFT_OK;
    weft_scope_open_lean();
    const weft_status status =
        replace(c, weft_pad(c->k, 1, 0, more, 0), weft_pad(c->v, 1, 0, more, 0));
    weft_scope_close(NULL);
    return status;
}

/* Zeros (n, capacity, Hk, D) like `fresh`, on its device. */
static weft_array *empty(weft_array *fresh, int64_t n, int64_t length)
{
    weft_device *before = weft_default_device();
    weft_dims shape = weft_shape(fresh);
    shape.at[0] = n;
    shape.at[1] = round_up(length);
    weft_set_default_device(weft_device_of(fresh));
    weft_array *zeros = weft_zeros(shape, weft_dtype_of(fresh));
    weft_set_default_device(before);
    return zeros;
}

/* `held` with the first `length` tokens of row `from` of `fresh` in slot `slot`. */
static weft_array *with_row(weft_array *held, weft_array *fresh, int64_t slot, int64_t from,
                            int64_t length)
{
    weft_array *row = weft_slice_axis(weft_slice_axis(fresh, 0, from, from + 1), 1, 0, length);
    return weft_slice_update_static(held, row, WEFT_DIMS(0, 1), WEFT_DIMS(slot, 0),
                                    WEFT_DIMS(slot + 1, length), WEFT_DIMS(1, 1));
}

weft_status weft__slots_put(weft_cache *self, int64_t n, int64_t slot, weft_array *k, weft_array *v,
                            int64_t from, int64_t length)
{
    slots_cache *c = (slots_cache *)self;
    weft_status status = weft__slots_reserve(self, length);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    weft_array *all_k = c->k ? c->k : empty(k, n, length);
    weft_array *all_v = c->v ? c->v : empty(v, n, length);
    status =
        replace(c, with_row(all_k, k, slot, from, length), with_row(all_v, v, slot, from, length));
    weft_scope_close(NULL);
    return status;
}

weft_status weft__slots_keep(weft_cache *self, const int32_t *which, int64_t n)
{
    slots_cache *c = (slots_cache *)self;
    if (c->k == NULL)
        return WEFT_OK;
    weft_scope_open_lean();
    weft_array *rows =
        weft_to(weft_from_data(which, WEFT_INT32, WEFT_DIMS(n)), weft_device_of(c->k));
    const weft_status status = replace(c, weft_take(c->k, rows, 0), weft_take(c->v, rows, 0));
    weft_scope_close(NULL);
    return status;
}
