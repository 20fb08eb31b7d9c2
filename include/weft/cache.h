/* weft/cache.h -- KV caches: the keys and values of previous tokens, for attention.
 *
 *     weft_cache_view view = weft_cache_update(cache, k, v);
 *     weft_array *y = weft_cache_attention(q, &view, &(weft_attention_options){.causal = true});
 *
 * A model's caches: weft_model_new_caches (weft/model.h). A program may make its own type; the
 * table is the interface.
 */
#ifndef WEFT_CACHE_H
#define WEFT_CACHE_H

#include "weft/neural.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What is kept --------------------------------------------------------------------------- */

/* All zero: all of the model's positions; keys and values in 16 bits if the model's weights are
 * quantized, otherwise in its compute dtype. */
typedef struct weft_cache_options {
    /* The number of tokens that a layer keeps: the first `sink_tokens` of the sequence and the last
     * max_context - sink_tokens, including the query's own (attention sinks, Xiao et al. 2023).
     * Positions do not change. A layer with a window of at most this size keeps its window. 0: the
     * model's positions, or fewer where memory is short (weft_model_plan_caches); below 0: all of
     * them. */
    int64_t max_context;
    int64_t sink_tokens; /* fewer than max_context; 0: 4, or half of max_context; below 0: none */
    /* How keys and values are stored. 32: in the compute dtype. 16: as float16, unless that dtype
     * has 16 bits. 8 or 4: quantized. 0: 16 for a model with quantized weights, whose errors are
     * much larger, otherwise 32. */
    int kv_bits;
    /* At least this many of the last tokens can be trimmed (weft_cache_trim), which takes more
     * memory in caches that drop the first tokens. For speculative decoding. */
    int64_t trim;
    /* Layers with a window keep as many tokens as the others, so that everything can be trimmed. */
    bool whole;
    int64_t batch; /* sequences in one cache, for what they need in memory; 0: 1 */
} weft_cache_options;

/* ---- One layer's cache ---------------------------------------------------------------------- */

typedef struct weft_cache weft_cache;

/* What L new queries attend to; borrowed arrays, as an op's results. On a failure keys and values
 * are error arrays. weft_cache_attention uses all of it. */
typedef struct weft_cache_view {
    weft_array *keys, *values; /* (B, S, Hk, D), in the compute dtype or float16; or `pages` */
    /* The same quantized; codes NULL: the cache is not quantized. */
    weft_kv_codes key_codes, value_codes;
    weft_array *lengths; /* weft_attention's; NULL: S */
    /* bool (L, S) or (B, 1, 1, S): which keys each query sees, including causality and windows.
     * NULL: the last L keys are the new ones, or L is 1, and causality and `window` decide. */
    weft_array *mask;
    weft_array *positions; /* int32 (S) or (B, 1, 1, S): of each key; NULL: 0, 1, ... */
    weft_array *pages;     /* weft_attention's: keys, values and codes are in pages; NULL: not */
    int64_t window;        /* > 0: the attention window */
} weft_cache_view;

enum {
    WEFT_CACHE_SLOTS = 8,  /* arrays that a cache has at most */
    WEFT_CACHE_NUMBERS = 4 /* numbers */
};

typedef struct weft_cache_type {
    const char *name;
    /* Appends k and v (B, L, Hk, D) and returns all that the new queries attend to. On a failure
     * the cache is unchanged. */
    weft_cache_view (*update)(weft_cache *self, weft_array *k, weft_array *v);
    int64_t (*offset)(const weft_cache *self); /* position of the next token */
    int64_t (*length)(const weft_cache *self); /* tokens that are held */
    /* The addresses of the arrays that it holds into `slots` (room for WEFT_CACHE_SLOTS) and
     * returns their number. Arrays are NULL while it is empty. */
    int (*state)(weft_cache *self, weft_array ***slots);
    /* The addresses of the numbers which, with the arrays, are the complete state (room for
     * WEFT_CACHE_NUMBERS). */
    int (*numbers)(weft_cache *self, int64_t **numbers);
    /* Whether arrays and numbers that were read from a file are valid for such a cache. */
    weft_status (*check)(const weft_cache *self);
    /* An empty cache of the same kind; NULL: out of memory. */
    weft_cache *(*another)(const weft_cache *self);
    bool (*can_trim)(const weft_cache *self, int64_t n); /* whether trim would */
    weft_status (*trim)(weft_cache *self, int64_t n);    /* forgets the last n tokens */
    void (*reset)(weft_cache *self);                     /* forgets all */
    void (*free)(weft_cache *self);

    /* For compiled steps, which are traced once and run at many offsets. All three NULL: steps with
     * this cache are not compiled. */

    /* Reserves room for n more tokens, during which the arrays of `state` keep their shapes. */
    weft_status (*reserve)(weft_cache *self, int64_t n);
    /* As update, but everything that varies between steps is in arrays: `offset` int32 (1) is the
     * position of the first new token, and S is constant. Needs reserved room; does not count
     * tokens. In batches `offset` is (B), and each row has one new token. */
    weft_cache_view (*append)(weft_cache *self, weft_array *k, weft_array *v, weft_array *offset);
    /* Counts n tokens that a step has appended. */
    void (*advance)(weft_cache *self, int64_t n);
} weft_cache_type;

/* The first member of every cache. */
struct weft_cache {
    const weft_cache_type *type;
};

/* A cache that holds all tokens in their dtype: k and v (B, capacity, Hk, D), whose capacity grows
 * by 256 tokens. NULL: out of memory. Caches are owned by the caller and freed with
 * weft_cache_free. */
WEFT_API weft_cache *weft_cache_new(void);
/* The cache of a layer with an attention window (0: none) for these options; a max_context of 0
 * means all tokens, kv_bits 0 means 32. Its type is "growing" (all tokens), "rotating" (the first
 * tokens and the last ones) or "window" (the last ones). It grows with the sequence up to its
 * limit. NULL, with the message: out of memory or options out of range. */
WEFT_API weft_cache *weft_cache_new_with(const weft_cache_options *options, int64_t window);

/* The functions of the cache's type. weft_cache_update appends k and v (B, L, Hk, D), of the same
 * float dtype, and returns what the new queries attend to; on a failure its keys and values are
 * error arrays and the cache is unchanged. weft_cache_offset is the position of the next token,
 * weft_cache_length the number of tokens held. weft_cache_state and weft_cache_numbers give the
 * addresses of the arrays and numbers that make up the cache, owned by it, and return how many
 * there are. */
WEFT_API weft_cache_view weft_cache_update(weft_cache *cache, weft_array *k, weft_array *v)
    WEFT_NONNULL(1);
WEFT_API int64_t weft_cache_offset(const weft_cache *cache) WEFT_NONNULL(1);
WEFT_API int64_t weft_cache_length(const weft_cache *cache) WEFT_NONNULL(1);
WEFT_API int weft_cache_state(weft_cache *cache, weft_array ***slots) WEFT_NONNULL(1);
WEFT_API int weft_cache_numbers(weft_cache *cache, int64_t **numbers) WEFT_NONNULL(1);

/* Checks arrays and numbers that were set from outside: WEFT_INVALID if they do not fit. */
WEFT_NODISCARD WEFT_API weft_status weft_cache_check(const weft_cache *cache) WEFT_NONNULL(1);

/* A copy of the cache, owned by the caller. Both share memory until one of them is written to.
 * NULL, with the message: out of memory. */
WEFT_API weft_cache *weft_cache_copy(weft_cache *cache) WEFT_NONNULL(1);

/* weft_cache_trim removes the last n tokens, weft_cache_reset all. WEFT_INVALID, and nothing
 * removed, if there are fewer, or if earlier tokens that the next query needs have been
 * overwritten; weft_cache_can_trim tests this. */
WEFT_API bool weft_cache_can_trim(const weft_cache *cache, int64_t n) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_cache_trim(weft_cache *cache, int64_t n) WEFT_NONNULL(1);
WEFT_API void weft_cache_reset(weft_cache *cache) WEFT_NONNULL(1);

/* Whether the type supports compiled steps, which use the three functions below (weft_cache_type).
 * The first tokens are appended with weft_cache_update, which determines the shapes.
 * weft_cache_reserve fails only when out of memory. */
WEFT_API bool weft_cache_appends(const weft_cache *cache) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_cache_reserve(weft_cache *cache, int64_t n)
    WEFT_NONNULL(1);
WEFT_API weft_cache_view weft_cache_append(weft_cache *cache, weft_array *k, weft_array *v,
                                           weft_array *offset) WEFT_NONNULL(1);
WEFT_API void weft_cache_advance(weft_cache *cache, int64_t n) WEFT_NONNULL(1);
WEFT_API void weft_cache_free(weft_cache *cache); /* NULL is accepted */

/* weft_attention of q (B, L, H, D) over the keys and values of the view -> (B, L, H, Dv) in q's
 * dtype. `causal` must be set and `lengths` NULL. A `mask` in the options, whose last dim is 1 or
 * the number of tokens of the whole sequence, hides further tokens. */
WEFT_API weft_array *weft_cache_attention(weft_array *q, const weft_cache_view *view,
                                          const weft_attention_options *options) WEFT_NONNULL(2);

#ifdef __cplusplus
}
#endif
#endif
