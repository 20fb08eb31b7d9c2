/* generate/speculative.h -- several tokens for one step of the model: proposed by a smaller
 * one or found in the text, and checked. */
#ifndef WEFT_GENERATE_SPECULATIVE_H
#define WEFT_GENERATE_SPECULATIVE_H

#include "weft/generate.h"

typedef struct weft__speculation weft__speculation;

/* Why the options cannot be, and whether they ask for it at all. */
weft_status weft__speculation_check(weft_model *model, const weft_generate_options *options);
bool weft__speculation_wanted(const weft_generate_options *options);
/* How many tokens are proposed at a time, at most. */
int64_t weft__speculation_tokens(const weft_generate_options *options);

weft_status weft__speculation_new(weft_model *model, const weft_generate_options *options,
                                  weft__speculation **out);
void weft__speculation_free(weft_model *draft, weft__speculation *s); /* NULL is accepted */

/* The next tokens, at least one, into g->ids, g->logprobs and g->n_read; none when the caller
 * interrupted, which g->stats.reason then says. */
weft_status weft__speculate(weft_generator *g);

#endif
