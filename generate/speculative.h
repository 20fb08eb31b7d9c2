/* generate/speculative.h -- speculative decoding: several tokens per step of the model, proposed by
 * a smaller model or found in the text, and verified. */
#ifndef WEFT_GENERATE_SPECULATIVE_H
#define WEFT_GENERATE_SPECULATIVE_H

#include "weft/generate.h"

typedef struct weft__speculation weft__speculation;

/* Check the options, and return whether they request speculative decoding. */
weft_status weft__speculation_check(weft_model *model, const weft_generate_options *options);
bool weft__speculation_wanted(const weft_generate_options *options);
/* The most tokens proposed at a time. */
int64_t weft__speculation_tokens(const weft_generate_options *options);

weft_status weft__speculation_new(weft_model *model, const weft_generate_options *options,
                                  weft__speculation **out);
void weft__speculation_free(weft_model *draft, weft__speculation *s); /* NULL is accepted */

/* Appends the next tokens, at least one, to g->ids, g->logprobs and g->n_read; none when the caller
 * interrupted, which sets g->stats.reason. */
weft_status weft__speculate(weft_generator *g);

#endif
