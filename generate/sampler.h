/* generate/sampler.h -- what those who keep a sampler's state need of it. */
#ifndef WEFT_GENERATE_SAMPLER_H
#define WEFT_GENERATE_SAMPLER_H

#include "weft/generate.h"

/* Whether the options look at how often tokens occurred. */
bool weft__sampler_counts(const weft_sampler_options *options);

/* How often each of V tokens is among the n ids: float32 (1, V), on the default device. */
weft_array *weft__sampler_seen(const int32_t *ids, int64_t n, int64_t V);

/* The tokens (B) drawn from logits x (B, V) as int32, -1 where the logit of the token is NaN or
 * +infinity. Maxima and draws pick NaN where there is one, so this checks the row. */
weft_array *weft__sampler_checked(weft_array *x, weft_array *token);

/* The failure for a token that is -1: the one numbered `token` from 0, or -1 for an unknown one. */
weft_status weft__sampler_failed(const char *where, int64_t token);

/* The options with copies of what they point to, in *block (weft_free), also after a failure. */
weft_status weft__sampler_copy(const weft_sampler_options *options, weft_sampler_options *out,
                               void **block);

#endif
