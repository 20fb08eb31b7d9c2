/* generate/slots.h -- a KV cache for several sequences of different lengths. */
#ifndef WEFT_GENERATE_SLOTS_H
#define WEFT_GENERATE_SLOTS_H

#include "weft/model.h"

/* A cache of B sequences for steps of one token each (weft_model_call's offset and positions are
 * (B) and (B, 1)): token b is written at offset[b] and attends to the tokens before it. NULL when
 * out of memory. */
weft_cache *weft__slots_new(void);

/* Copies the first `length` tokens of row `from` of keys and values (., S, Hk, D) to slot `slot`;
 * the first call creates `n` slots. */
weft_status weft__slots_put(weft_cache *self, int64_t n, int64_t slot, weft_array *k, weft_array *v,
                            int64_t from, int64_t length);

/* Makes room for `length` tokens in each slot. */
weft_status weft__slots_reserve(weft_cache *self, int64_t length);

/* Keeps the n slots listed in `which`, in that order. */
weft_status weft__slots_keep(weft_cache *self, const int32_t *which, int64_t n);

#endif
