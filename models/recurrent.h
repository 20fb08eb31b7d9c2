/* models/recurrent.h -- the cache of a layer with states of fixed size instead of keys and values.
 */
#ifndef WEFT_MODELS_RECURRENT_H
#define WEFT_MODELS_RECURRENT_H

#include "weft/model.h"

/* `shapes` are those of one sequence's states, float32. It can be reset, but not trimmed. NULL,
 * with the message, when out of memory. */
weft_cache *weft__recurrent_new(const weft_dims *shapes, int n);

/* Whether it is such a cache. */
bool weft__recurrent_is(const weft_cache *cache);
/* State i (B, shape...) after the previous tokens; NULL: there were none. */
weft_array *weft__recurrent_at(const weft_cache *cache, int i);
/* Sets all states after L more tokens; a compiled step counts the tokens later (L = 0). On failure
 * the cache is unchanged. */
weft_status weft__recurrent_put(weft_cache *cache, weft_array *const *states, int64_t L);

#endif
