/* models/recurrent.h -- the cache of a layer that keeps states of fixed size in place of
 * keys and values. */
#ifndef WEFT_MODELS_RECURRENT_H
#define WEFT_MODELS_RECURRENT_H

#include "weft/model.h"

/* `shapes` are those of one text's states, float32. What was read cannot be forgotten but as a
 * whole. NULL, with the message, without memory. */
weft_cache *weft__recurrent_new(const weft_dims *shapes, int n);

/* Whether it is such a cache. */
bool weft__recurrent_is(const weft_cache *cache);
/* State i (B, shape...) as the tokens before left it; NULL: there were none. */
weft_array *weft__recurrent_at(const weft_cache *cache, int i);
/* All states after L more tokens, which a compiled step counts later (0). On a failure the cache is
 * as it was. */
weft_status weft__recurrent_put(weft_cache *cache, weft_array *const *states, int64_t L);

#endif
