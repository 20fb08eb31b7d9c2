/* models/recurrent.h -- the cache of a layer with states of fixed size instead of keys and values.
 */
#ifndef WEFT_MODELS_RECURRENT_H
#define WEFT_MODELS_RECURRENT_H

#include "models/decoder.h"

/* `shapes` are those of one sequence's states, float32. It can be reset, but not trimmed. NULL,
 * with the message, when out of memory. */
weft_cache *weft__recurrent_new(const weft_dims *shapes, int n);

/* Whether it is such a cache. */
bool weft__recurrent_is(const weft_cache *cache);

/* The states (B, shape...) of B sequences before a step: those in the cache; zeros without a cache
 * and at the start. Returns NULL, or the error of a step with a mask or of another kind of cache.
 */
weft_array *weft__recurrent_before(const weft_dims *shapes, int n, int64_t B,
                                   const weft__step *step, const weft_cache *cache,
                                   weft_array **states);
/* Stores the states after the tokens of y (B, L, ...), if there is a cache. Returns y or the error;
 * then the cache is unchanged. */
weft_array *weft__recurrent_after(weft_array *y, const weft__step *step, weft_cache *cache,
                                  weft_array *const *states);

/* The position of each of L tokens in its row, (L) int32, on the device of `like`. */
weft_array *weft__positions_in_row(weft_array *like, int64_t L);
/* g (B, L, H), the logarithms of decays, so low at the first token of each sequence of a packed row
 * that all earlier ones are forgotten. `first` (B, L) or NULL is the start of each token's
 * sequence. */
weft_array *weft__recurrent_resets(weft_array *g, weft_array *first);

#endif
