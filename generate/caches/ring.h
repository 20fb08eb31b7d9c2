/* generate/caches/ring.h -- the KV cache that holds all tokens, or the first few and the last ones.
 *
 * The token at position p is in slot p while p is below the capacity. From there on the slots after
 * the sinks form a ring: slot sinks + (p - sinks) mod (capacity - sinks).
 */
#ifndef WEFT_GENERATE_CACHES_RING_H
#define WEFT_GENERATE_CACHES_RING_H

#include "generate/caches/pages.h"
#include "generate/caches/store.h"
#include "weft/cache.h"

#define WEFT__UNBOUNDED INT64_MAX

/* Where the rows of a step have their slots, in caches whose arrays are pages (caches/pages.h). */
typedef struct weft__paging {
    weft_array *table;  /* int32 (B, N): pages of each row */
    weft_array *places; /* int32 (B): where its new token is, among the slots of all pages */
} weft__paging;

typedef struct weft__ring {
    weft_cache cache;
    weft__store k, v;
    int64_t latent; /* > 0: values are the first so many elements of the keys, and v is `none` */
    int64_t sinks;  /* number of first tokens that queries attend to */
    int64_t keep;   /* total number of tokens that queries attend to: the sinks and the last ones */
    int64_t capacity;           /* number of slots, at least `keep`; the others allow trimming */
    const weft__paging *paging; /* NULL: each sequence has a row of the arrays. Otherwise they are
                                 * (1, pages * WEFT__PAGE, Hk, ...), and only `append` is used */
    int64_t length;             /* tokens of the sequence */
    int64_t top;                /* its largest value so far: the extent of the slots' contents */
} weft__ring;

/* Checks the options, and computes the number of sinks. */
weft_status weft__cache_options_check(const weft_cache_options *o, int64_t *sinks);

/* weft_cache_new_with for weft_layer_attention.latent. */
weft_cache *weft__ring_new(const weft_cache_options *options, int64_t window, int64_t latent);

/* The ring that a cache is, or NULL. */
weft__ring *weft__ring_of(weft_cache *cache);

/* Whether two caches are of the same type and, if they are rings, of the same size and precision,
 * so that a token has the same slot in both. */
bool weft__cache_alike(const weft_cache *a, const weft_cache *b);

/* The slot of position p. */
int64_t weft__ring_slot(const weft__ring *c, int64_t p);
/* The same as an array for positions in an array. */
weft_array *weft__ring_slot_array(const weft__ring *c, weft_array *offset);

/* Sets the view of L queries for keys and values in the order of positions: the `sinks` first
 * tokens, and the tokens from `first` to `last`, the position of the last query. */
void weft__ring_see_text(const weft__ring *c, weft_cache_view *view, int64_t L, int64_t sinks,
                         int64_t first, int64_t last);
/* The same for keys and values in the order of S slots; offset is the position of the first
 * query, (1), or of each row's only one, (B). */
void weft__ring_see_slots(const weft__ring *c, weft_cache_view *view, int64_t S, int64_t L,
                          weft_array *offset);

#endif
