/* generate/sampler.h -- functions of the sampler for its callers. */
#ifndef WEFT_GENERATE_SAMPLER_H
#define WEFT_GENERATE_SAMPLER_H

#include "weft/generate.h"

/* Whether the options use the number of occurrences of tokens. */
bool weft__sampler_counts(const weft_sampler_options *options);

/* How often each of V tokens occurs among the n ids: float32 (1, V), on the default device. */
weft_array *weft__sampler_seen(const int32_t *ids, int64_t n, int64_t V);

/* The tokens (B) drawn from logits x (B, V) as int32, -1 where the token's logit is NaN or
 * +infinity. Maxima and draws select NaN if there is one, so this checks the whole row. */
weft_array *weft__sampler_checked(weft_array *x, weft_array *token);

/* Fails for a token that is -1; `token` is its index, or -1 if unknown. */
weft_status weft__sampler_failed(const char *where, int64_t token);

/* Copies the options with their lists, which are in *block (weft_free), also after a failure. */
weft_status weft__sampler_copy(const weft_sampler_options *options, weft_sampler_options *out,
                               void **block);

#endif
