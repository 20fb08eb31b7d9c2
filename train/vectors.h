/* train/vectors.h -- the vectors of many texts, in one array. */
#ifndef WEFT_TRAIN_VECTORS_H
#define WEFT_TRAIN_VECTORS_H

#include "weft/batch.h"

/* Called after each part of the texts, with the number of those done; false stops. */
typedef bool weft__vectors_callback(void *context, int64_t done);

/* Computes the vectors of n texts, (n, D) with norm 1, a part of the texts at a time. `callback`
 * may be NULL. The caller frees *out with weft_free. Fails at the first text that fails;
 * WEFT_CANCELLED when stopped. */
weft_status weft__vectors_of(weft_model *model, const weft_prompt *prompts, int64_t n,
                             const weft_embed_options *options, weft__vectors_callback *callback,
                             void *context, float **out, int64_t *D);

#endif
