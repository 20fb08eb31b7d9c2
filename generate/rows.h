/* generate/rows.h -- passes prompts of different lengths through the model together. */
#ifndef WEFT_GENERATE_ROWS_H
#define WEFT_GENERATE_ROWS_H

#include "weft/batch.h"

/* Checks whether a prompt can be computed; `where` begins the message. */
weft_status weft__rows_check(weft_model *model, const char *where, const weft_prompt *prompt);

/* Fails with WEFT_UNSUPPORTED for a model without logits of tokens: an encoder or, unless `labels`
 * are expected as well, a classifier. */
weft_status weft__rows_expect_logits(const weft_model *model, const char *where, bool labels);

/* The indices of the prompts for which `taken` is not set (NULL: all), longest first, stable. *out
 * is freed with weft_free. */
weft_status weft__rows_order(const weft_prompt *prompts, const bool *taken, size_t n, size_t **out,
                             size_t *n_out);

/* The tokens of one forward pass. */
int64_t weft__rows_budget(const weft_batch_options *options);

/* How many of the n remaining prompts, from order[0] on, to process together. Limited by the
 * options, by the amount of padding, and by the memory of the logits at one position each. At least
 * 1. */
size_t weft__rows_together(weft_model *model, const weft_prompt *prompts, const size_t *order,
                           size_t n, const weft_batch_options *options);

/* Columns [from, to) of the prompts as tokens (G, to - from) int32, padded on the right. */
weft_array *weft__rows_tokens(const weft_prompt *prompts, const size_t *order, size_t G,
                              int64_t from, int64_t to);

/* Receives hidden states (G, W, E) of columns `from` on. A status other than WEFT_OK ends the pass.
 */
typedef weft_status weft__rows_fn(void *context, weft_array *hidden, int64_t from);

/* Passes G prompts through the layers, which store keys and values in the caches: in one chunk, or,
 * if a prompt is longer than the options' tokens, in several. NULL caches: nothing is stored. */
weft_status weft__rows_pass(weft_model *model, const weft_prompt *prompts, const size_t *order,
                            size_t G, const weft_batch_options *options, weft_cache **caches,
                            weft__rows_fn *take, void *context);

/* Logits (G, V) of the last token of each prompt, from hidden states (G, W, E) of columns `from`
 * on, which include the last column of the longest prompt. */
weft_array *weft__rows_last_logits(weft_model *model, const weft_prompt *prompts,
                                   const size_t *order, size_t G, weft_array *hidden, int64_t from);

/* Selects rows of hidden states (G, W, E) by their indices g * W + w: (n, E). */
weft_array *weft__rows_pick(weft_array *hidden, const int32_t *places, size_t n);

/* How many rows of logits to compute at a time. */
size_t weft__rows_of_logits(weft_model *model);

#endif
