/* generate/caches/ring.h -- the cache that holds all tokens, or the first few and the last of them.
 *
 * Token p of the text is in slot p while that is below the capacity; from there on the slots behind
 * the sinks are a ring: slot sinks + (p - sinks) mod (capacity - sinks). */
#ifndef WEFT_GENERATE_CACHES_RING_H
#define WEFT_GENERATE_CACHES_RING_H

#include "generate/caches/store.h"
#include "weft/cache.h"

#define WEFT__UNBOUNDED INT64_MAX

typedef struct weft__ring {
    weft_cache cache;
    weft__store k, v;
    int64_t sinks;    /* a query sees so many of the first tokens */
    int64_t keep;     /* and, with these, so many in all: the last ones */
    int64_t capacity; /* slots, at least `keep`; the rest lets the last tokens be trimmed */
    int64_t length;   /* tokens of the text */
    int64_t top;      /* the longest that it was: what lies in the slots */
} weft__ring;

/* Whether the options make sense, and how many sinks they mean. */
weft_status weft__cache_options_check(const weft_cache_options *o, int64_t *sinks);

/* The slot of token p. */
int64_t weft__ring_slot(const weft__ring *c, int64_t p);
/* As an array, offset (1) being the token. */
weft_array *weft__ring_slot_array(const weft__ring *c, weft_array *offset);

/* What L queries see of keys and values in the order of the text: `sinks` tokens from 0 on, and
 * those from `first` on up to the last query's own, `last`. */
void weft__ring_see_text(const weft__ring *c, weft_cache_view *view, int64_t L, int64_t sinks,
                         int64_t first, int64_t last);
/* Of keys and values in the order of all slots, the first query being token offset (1). */
void weft__ring_see_slots(const weft__ring *c, weft_cache_view *view, int64_t L,
                          weft_array *offset);

#endif
