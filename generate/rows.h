/* generate/rows.h -- prompts of different lengths through the model together. */
#ifndef WEFT_GENERATE_ROWS_H
#define WEFT_GENERATE_ROWS_H

#include "weft/batch.h"

/* Why a prompt cannot be computed; `where` stands in front of the message. */
weft_status weft__rows_check(weft_model *model, const char *where, const weft_prompt *prompt);

/* The numbers of the prompts for which `taken` is not set, the longest first, equals in their
 * order. *out is freed with weft_free. */
weft_status weft__rows_order(const weft_prompt *prompts, const bool *taken, size_t n, size_t **out,
                             size_t *n_out);

/* How many prompts from order[0] on go through the model together, of the n that are left: as many
 * as the options allow, not so many that much is padding, and not so many that their logits at one
 * place each fill memory. At least 1. */
size_t weft__rows_together(weft_model *model, const weft_prompt *prompts, const size_t *order,
                           size_t n, const weft_batch_options *options);

/* Columns [from, to) of the prompts as tokens (G, to - from) int32, padded on the right. */
weft_array *weft__rows_tokens(const weft_prompt *prompts, const size_t *order, size_t G,
                              int64_t from, int64_t to);

/* Takes hidden states (G, W, E) of columns `from` on. What it returns ends the pass. */
typedef weft_status weft__rows_fn(void *context, weft_array *hidden, int64_t from);

/* G prompts through the layers, which leave keys and values in the caches: in one piece, or, a
 * prompt that is longer than the options' tokens, in several. NULL caches: nothing is left. */
weft_status weft__rows_pass(weft_model *model, const weft_prompt *prompts, const size_t *order,
                            size_t G, const weft_batch_options *options, weft_cache **caches,
                            weft__rows_fn *take, void *context);

/* The last token's row of each prompt in hidden states (G, W, E) of columns `from` on, of which the
 * last is in the last column of the longest: logits (G, V). */
weft_array *weft__rows_last_logits(weft_model *model, const weft_prompt *prompts,
                                   const size_t *order, size_t G, weft_array *hidden, int64_t from);

/* Rows of hidden states (G, W, E), by their numbers g * W + w: (n, E). */
weft_array *weft__rows_pick(weft_array *hidden, const int32_t *places, size_t n);

/* How many rows of logits are computed at a time. */
size_t weft__rows_of_logits(weft_model *model);

#endif
