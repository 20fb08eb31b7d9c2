/* generate/caches/ring.c -- the KV cache that holds all tokens, or the first few and the last ones:
 * growing, rotating (with attention sinks; Xiao et al. 2023), or of a sliding window. */
#include "generate/caches/ring.h"

#include <string.h>

#include "core/math.h"

enum { BLOCK = WEFT__PAGE }; /* tokens by which the capacity grows */

/* ---- writing -------------------------------------------------------------------------------- */

/* The number of slots to allocate for n tokens. */
static int64_t room_for(const weft__ring *c, int64_t n)
{
    return weft__smaller((n + BLOCK - 1) / BLOCK * BLOCK, c->capacity);
}

static int64_t room(const weft__ring *c)
{
    return c->k.held[0] ? weft_dim(c->k.held[0], 1) : 0;
}

/* Whether the ring has wrapped, or would wrap, at that length. */
static bool turned(const weft__ring *c, int64_t length)
{
    return weft__larger(c->top, length) > c->capacity;
}

static weft_array *at(int64_t slot)
{
    const int32_t start = (int32_t)slot;
    return weft_from_data(&start, WEFT_INT32, WEFT_DIMS(1));
}

/* Writes the next n tokens, `fresh`, to `into`. Tokens that later ones of them would overwrite are
 * skipped. */
static weft__parts written(const weft__ring *c, weft__parts into, const weft__parts *fresh,
                           int64_t n)
{
    const int64_t begin = c->length, end = begin + n;
    int64_t p = begin;
    while (p < end) {
        if (end > c->capacity && p >= c->sinks)
            p = weft__larger(p, end - (c->capacity - c->sinks));
        const int64_t slot = weft__ring_slot(c, p);
        int64_t stop = weft__smaller(end, p + (c->capacity - slot)); /* capacity may be INT64_MAX */
        if (end > c->capacity && p < c->sinks)
            stop = weft__smaller(stop, c->sinks);
        const weft__parts run = weft__parts_slice(fresh, p - begin, stop - begin);
        into = weft__parts_write(&into, &run, at(slot));
        p = stop;
    }
    return into;
}

/* Slices tokens [from, to), which must all be present, in order: at most two contiguous runs. */
static int read_runs(const weft__ring *c, const weft__parts *held, int64_t from, int64_t to,
                     weft__parts out[2])
{
    int n = 0;
    while (from < to) {
        const int64_t slot = weft__ring_slot(c, from),
                      stop = weft__smaller(to, from + c->capacity - slot);
        out[n++] = weft__parts_slice(held, slot, slot + stop - from);
        from = stop;
    }
    return n;
}

/* ---- update --------------------------------------------------------------------------------- */

static weft_cache_view failed(weft_array *error)
{
    return (weft_cache_view){.keys = error, .values = error};
}

static weft_array *check(const weft__ring *c, weft_array *k, weft_array *v)
{
    weft_array *error = weft__store_check(&c->k, k);
    if (error == NULL)
        error = weft__store_check(&c->v, v);
    if (error == NULL && c->latent >= weft_dim(k, 3))
        error = weft_error_array("cache: expected keys of more than %lld elements, got %lld",
                                 (long long)c->latent, (long long)weft_dim(k, 3));
    if (error == NULL && v &&
        (weft_dim(k, 0) != weft_dim(v, 0) || weft_dim(k, 1) != weft_dim(v, 1)))
        error = weft_error_array("cache: keys and values differ in batch or length");
    return error;
}

static weft_cache_view view_of(const weft__ring *c, const weft__parts *k, const weft__parts *v)
{
    weft_array *keys = weft__store_decode(&c->k, k);
    if (c->latent > 0)
        return (weft_cache_view){.keys = keys, .values = weft_slice_axis(keys, 3, 0, c->latent)};
    return (weft_cache_view){.keys = keys,
                             .values = weft__store_decode(&c->v, v),
                             .key_codes = weft__store_codes(&c->k, k),
                             .value_codes = weft__store_codes(&c->v, v)};
}

/* The keys or values that L new queries need, where `fresh` are theirs and `held` the earlier ones.
 */
static weft__parts chunk(const weft__ring *c, const weft__parts *held, const weft__parts *fresh,
                         int64_t sinks, int64_t first)
{
    weft__parts runs[4];
    int n = sinks > 0 ? read_runs(c, held, 0, sinks, runs) : 0;
    n += read_runs(c, held, first, c->length, runs + n);
    runs[n++] = *fresh;
    return weft__parts_concatenate(runs, n);
}

/* The view for several tokens when the ring wraps: the first of them still attend to tokens that
 * the last ones overwrite. */
static weft_cache_view see_chunk(const weft__ring *c, const weft__parts *k, const weft__parts *v,
                                 int64_t L)
{
    const weft__parts held_k = weft__store_held(&c->k), held_v = weft__store_held(&c->v);
    const int64_t reach = c->keep - c->sinks - 1; /* tokens that the first query attends to before
                                                   * itself */
    int64_t sinks = weft__smaller(c->sinks, c->length),
            first = weft__larger(sinks, c->length - reach);
    if (first == sinks)
        first = sinks = 0;
    const weft__parts all_k = chunk(c, &held_k, k, sinks, first),
                      all_v = chunk(c, &held_v, v, sinks, first);
    weft_cache_view view = view_of(c, &all_k, &all_v);
    weft__ring_see_text(c, &view, L, sinks, first, c->length + L - 1);
    return view;
}

/* The view of all tokens in the order of positions or, with a window, of those that it covers. */
static weft_cache_view see_run(const weft__ring *c, const weft__parts *k, const weft__parts *v,
                               int64_t L)
{
    const int64_t end = c->length + L;
    const int64_t first = c->sinks > 0 ? 0 : weft__larger(0, c->length - c->keep + 1);
    const weft__parts run_k = weft__parts_slice(k, first, end),
                      run_v = weft__parts_slice(v, first, end);
    weft_cache_view view = view_of(c, &run_k, &run_v);
    weft__ring_see_text(c, &view, L, 0, first, end - 1);
    return view;
}

static weft_cache_view see_slots(const weft__ring *c, const weft__parts *k, const weft__parts *v,
                                 int64_t L, weft_array *offset)
{
    weft_cache_view view = view_of(c, k, v);
    weft__ring_see_slots(c, &view, weft_dim(view.keys, 1), L, offset);
    return view;
}

/* The same in pages. */
static weft_cache_view see_pages(const weft__ring *c, const weft__parts *k, const weft__parts *v,
                                 weft_array *offset)
{
    weft_array *table = weft_to(c->paging->table, weft_device_of(k->at[0]));
    const weft__parts pages_k = weft__parts_pages(k, WEFT__PAGE),
                      pages_v = weft__parts_pages(v, WEFT__PAGE);
    weft_cache_view view = view_of(c, &pages_k, &pages_v);
    view.pages = table;
    weft__ring_see_slots(c, &view, weft_dim(table, 1) * WEFT__PAGE, 1, offset);
    return view;
}

static weft_array *first_error(const weft__parts *k, const weft__parts *v,
                               const weft_cache_view *view)
{
    for (int i = 0; i < k->n; i++) {
        if (!weft_ok(k->at[i]))
            return k->at[i];
    }
    for (int i = 0; i < v->n; i++) {
        if (!weft_ok(v->at[i]))
            return v->at[i];
    }
    if (!weft_ok(view->keys) || !weft_ok(view->values))
        return weft_ok(view->keys) ? view->values : view->keys;
    return NULL;
}

/* Stores the parts. None of the arrays has failed, so setting cannot fail. */
static void put(weft__store *store, const weft__parts *parts)
{
    for (int i = 0; i < parts->n; i++)
        (void)weft_set(&store->held[i], parts->at[i]);
}

static weft_cache_view update(weft_cache *self, weft_array *k, weft_array *v)
{
    weft__ring *c = (weft__ring *)self;
    weft_array *error = check(c, k, v);
    if (error)
        return failed(error);
    weft__store before[2] = {c->k, c->v};
    c->k.dtype = (int64_t)weft_dtype_of(k);
    c->v.dtype = (int64_t)weft_dtype_of(v ? v : k);
    const int64_t L = weft_dim(k, 1), end = c->length + L;
    const bool turns = turned(c, end);
    const weft__parts new_k = weft__store_encode(&c->k, k), new_v = weft__store_encode(&c->v, v);
    weft_cache_view view = {0};
    if (turns && L > 1)
        view = see_chunk(c, &new_k, &new_v, L); /* before anything is overwritten */
    const weft__parts held_k = weft__store_held(&c->k), held_v = weft__store_held(&c->v);
    const int64_t slots = weft__larger(room(c), room_for(c, end));
    const weft__parts all_k = written(c, weft__parts_with_room(&held_k, &new_k, slots), &new_k, L);
    const weft__parts all_v = written(c, weft__parts_with_room(&held_v, &new_v, slots), &new_v, L);
    if (!turns)
        view = see_run(c, &all_k, &all_v, L);
    else if (L <= 1)
        view = see_slots(c, &all_k, &all_v, L, at(c->length));
    error = first_error(&all_k, &all_v, &view);
    if (error) {
        c->k = before[0];
        c->v = before[1];
        return failed(error);
    }
    put(&c->k, &all_k);
    put(&c->v, &all_v);
    c->length = end;
    c->top = weft__larger(c->top, end);
    return view;
}

/* ---- compiled steps ------------------------------------------------------------------------- */

static weft_status reserve(weft_cache *self, int64_t n)
{
    weft__ring *c = (weft__ring *)self;
    const int64_t slots = room_for(c, c->length + n);
    if (room(c) == 0 || slots <= room(c))
        return WEFT_OK;
    weft_array **slot[2 * WEFT__PARTS], *more[2 * WEFT__PARTS];
    weft__store *stores[] = {&c->k, &c->v};
    int count = 0;
    weft_scope_open_lean();
    for (int i = 0; i < 2; i++) {
        const weft__parts held = weft__store_held(stores[i]);
        const weft__parts wide = weft__parts_with_room(&held, &held, slots);
        for (int p = 0; p < wide.n; p++) {
            slot[count] = &stores[i]->held[p];
            more[count++] = wide.at[p];
        }
    }
    const weft_status status = weft_update(slot, more, count);
    weft_scope_close(NULL);
    return status;
}

/* If the ring may wrap, tokens are written one at a time. */
static weft__parts written_at(const weft__ring *c, weft__parts into, const weft__parts *fresh,
                              int64_t L, weft_array *offset)
{
    if (c->paging)
        return weft__parts_write(&into, fresh, weft_to(c->paging->places, weft_device_of(offset)));
    if (room(c) < c->capacity)
        return weft__parts_write(&into, fresh, offset);
    for (int64_t i = 0; i < L; i++) {
        weft_array *token = weft_add(offset, weft_scalar_int(i, WEFT_INT32));
        const weft__parts one = weft__parts_slice(fresh, i, i + 1);
        into = weft__parts_write(&into, &one, weft__ring_slot_array(c, token));
    }
    return into;
}

static weft_cache_view append(weft_cache *self, weft_array *k, weft_array *v, weft_array *offset)
{
    weft__ring *c = (weft__ring *)self;
    weft_array *error =
        room(c) ? check(c, k, v) : weft_error_array("cache: append: no tokens came before");
    if (error)
        return failed(error);
    const int64_t L = weft_dim(k, 1), rows = weft_dim(offset, 0);
    if ((rows > 1 || c->paging) && (L != 1 || rows != weft_dim(k, 0)))
        return failed(
            weft_error_array("cache: append: rows at positions of their own take one token "
                             "each, got %lld for %lld rows and %lld positions",
                             (long long)L, (long long)weft_dim(k, 0), (long long)rows));
    if (!c->paging && room(c) == c->capacity && L > c->capacity - c->keep + 1)
        return failed(weft_error_array(
            "cache: append: %lld tokens at a time would overwrite what the first of them sees "
            "(weft_cache_options.trim: at least %lld)",
            (long long)L, (long long)L - 1));
    const weft__parts new_k = weft__store_encode(&c->k, k), new_v = weft__store_encode(&c->v, v);
    const weft__parts all_k = written_at(c, weft__store_held(&c->k), &new_k, L, offset);
    const weft__parts all_v = written_at(c, weft__store_held(&c->v), &new_v, L, offset);
    const weft_cache_view view =
        c->paging ? see_pages(c, &all_k, &all_v, offset) : see_slots(c, &all_k, &all_v, L, offset);
    error = first_error(&all_k, &all_v, &view);
    if (error)
        return failed(error);
    put(&c->k, &all_k);
    put(&c->v, &all_v);
    return view;
}

static void advance(weft_cache *self, int64_t n)
{
    weft__ring *c = (weft__ring *)self;
    c->length += n;
    c->top = weft__larger(c->top, c->length);
}

/* ---- other functions of the table ------------------------------------------------------------ */

static int64_t offset(const weft_cache *self)
{
    return ((const weft__ring *)self)->length;
}

static int64_t length(const weft_cache *self)
{
    const weft__ring *c = (const weft__ring *)self;
    return weft__smaller(c->length, c->capacity);
}

static int state(weft_cache *self, weft_array ***slots)
{
    weft__ring *c = (weft__ring *)self;
    const int n = weft__store_parts(&c->k), m = weft__store_parts(&c->v);
    for (int i = 0; i < n; i++)
        slots[i] = &c->k.held[i];
    for (int i = 0; i < m; i++)
        slots[n + i] = &c->v.held[i];
    return n + m;
}

static int numbers(weft_cache *self, int64_t **out)
{
    weft__ring *c = (weft__ring *)self;
    int64_t *all[] = {&c->length, &c->top, &c->k.dtype, &c->v.dtype};
    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all;
}

static bool fits(const weft__ring *c)
{
    const bool empty = c->k.held[0] == NULL && c->v.held[0] == NULL;
    if (c->length < 0 || c->top < c->length || c->top > INT32_MAX / 2)
        return false;
    if (empty)
        return c->top == 0;
    if (!weft__store_fits(&c->k) || !weft__store_fits(&c->v))
        return false;
    if (c->latent >= weft_dim(c->k.held[0], 3) * (c->k.bits == 4 ? 2 : 1))
        return false;
    for (int axis = 0; axis < 2 && c->latent == 0; axis++) {
        if (weft_dim(c->k.held[0], axis) != weft_dim(c->v.held[0], axis))
            return false;
    }
    return room(c) <= c->capacity && room(c) >= weft__smaller(c->top, c->capacity);
}

static weft_status check_from_outside(const weft_cache *self)
{
    return fits((const weft__ring *)self)
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "cache: arrays and numbers are not those of a %s cache",
                           self->type->name);
}

static bool can_trim(const weft_cache *self, int64_t n)
{
    const weft__ring *c = (const weft__ring *)self;
    if (n < 0 || n > c->length)
        return false;
    const int64_t next = c->length - n;
    if (!turned(c, 0) || next <= c->sinks || n == 0)
        return true;
    const int64_t needed = weft__larger(c->sinks, next - (c->keep - c->sinks) + 1);
    return needed >= c->top - (c->capacity - c->sinks);
}

/* Trimmed tokens stay in memory until they are overwritten; attention never reads them. */
static weft_status trim(weft_cache *self, int64_t n)
{
    weft__ring *c = (weft__ring *)self;
    if (n < 0 || n > c->length)
        return weft_fail(WEFT_INVALID, "cache: trim: expected 0 to %lld tokens, got %lld",
                         (long long)c->length, (long long)n);
    if (!can_trim(self, n))
        return weft_fail(WEFT_INVALID,
                         "cache: trim: %lld tokens: of the %lld before them, the next one would "
                         "have to see some that a %s cache of %lld has forgotten",
                         (long long)n, (long long)(c->length - n), self->type->name,
                         (long long)c->capacity);
    c->length -= n;
    return WEFT_OK;
}

static void reset(weft_cache *self)
{
    weft__ring *c = (weft__ring *)self;
    for (int i = 0; i < WEFT__PARTS; i++) {
        weft_drop(c->k.held[i]);
        weft_drop(c->v.held[i]);
        c->k.held[i] = c->v.held[i] = NULL;
    }
    c->length = c->top = 0;
}

static void ring_free(weft_cache *self)
{
    reset(self);
    weft_free(self);
}

/* ---- creating -------------------------------------------------------------------------------- */

static weft_cache *another(const weft_cache *self);

#define TYPE(text)                                                                                 \
    {                                                                                              \
        .name = (text), .update = update, .offset = offset, .length = length, .state = state,      \
        .numbers = numbers, .check = check_from_outside, .another = another, .can_trim = can_trim, \
        .trim = trim, .reset = reset, .free = ring_free, .reserve = reserve, .append = append,     \
        .advance = advance,                                                                        \
    }
static const weft_cache_type growing = TYPE("growing"), rotating = TYPE("rotating"),
                             window_type = TYPE("window");
#undef TYPE

static weft_cache *make(const weft__ring *like)
{
    weft__ring *c = weft_calloc(1, sizeof *c);
    if (c == NULL) {
        weft_fail(WEFT_MEMORY, "out of memory for a cache");
        return NULL;
    }
    *c = *like;
    return &c->cache;
}

static weft_cache *another(const weft_cache *self)
{
    const weft__ring *c = (const weft__ring *)self;
    return make(&(weft__ring){.cache = c->cache,
                              .k.bits = c->k.bits,
                              .v.bits = c->v.bits,
                              .v.none = c->v.none,
                              .latent = c->latent,
                              .sinks = c->sinks,
                              .keep = c->keep,
                              .capacity = c->capacity});
}

bool weft__cache_alike(const weft_cache *a, const weft_cache *b)
{
    if (a->type != b->type || a->type->another != another)
        return a->type == b->type;
    const weft__ring *x = (const weft__ring *)a, *y = (const weft__ring *)b;
    return x->capacity == y->capacity && x->sinks == y->sinks && x->keep == y->keep &&
           x->latent == y->latent && x->k.bits == y->k.bits && x->v.bits == y->v.bits;
}

weft__ring *weft__ring_of(weft_cache *cache)
{
    return cache->type->another == another ? (weft__ring *)cache : NULL;
}

weft_cache *weft_cache_new(void)
{
    return weft_cache_new_with(NULL, 0);
}

weft_cache *weft_cache_new_with(const weft_cache_options *options, int64_t window)
{
    return weft__ring_new(options, window, 0);
}

weft_cache *weft__ring_new(const weft_cache_options *options, int64_t window, int64_t latent)
{
    const weft_cache_options none = {0}, *o = options ? options : &none;
    int64_t sinks;
    if (weft__cache_options_check(o, &sinks) != WEFT_OK)
        return NULL;
    const int64_t context = o->max_context > 0 ? o->max_context : WEFT__UNBOUNDED;
    weft__ring c = {.cache.type = context == WEFT__UNBOUNDED ? &growing : &rotating,
                    .k.bits = o->kv_bits,
                    .v.bits = o->kv_bits,
                    .v.none = latent > 0,
                    .latent = latent,
                    .sinks = context == WEFT__UNBOUNDED ? 0 : sinks,
                    .keep = context};
    c.capacity = context == WEFT__UNBOUNDED ? context : context + o->trim;
    if (window > 0 && window <= context) {
        c.cache.type = &window_type;
        c.sinks = 0;
        c.keep = window;
        c.capacity = o->whole ? context : window + o->trim;
    }
    return make(&c);
}
