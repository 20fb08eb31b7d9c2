/* generate/slots.h -- keys and values of several texts, each at its own length. */
#ifndef WEFT_GENERATE_SLOTS_H
#define WEFT_GENERATE_SLOTS_H

#include "weft/model.h"

/* A cache of B texts for steps of one token each (weft_model_call's offset and positions being (B)
 * and (B, 1)): token b is written at offset[b] and sees what is in front of it. NULL without
 * memory. */
weft_cache *weft__slots_new(void);

/* Copies the first `length` tokens of row `from` of keys and values (., S, Hk, D) to slot `slot`;
 * the first call decides that there are `n` slots. */
weft_status weft__slots_put(weft_cache *self, int64_t n, int64_t slot, weft_array *k, weft_array *v,
                            int64_t from, int64_t length);

/* Room for `length` tokens in each slot. */
weft_status weft__slots_reserve(weft_cache *self, int64_t length);

/* Keeps the n slots that `which` names, in its order. */
weft_status weft__slots_keep(weft_cache *self, const int32_t *which, int64_t n);

#endif
