/* nn/tokens.h -- interface between trained token rows and operations on adapters. */
#ifndef WEFT_NN_TOKENS_H
#define WEFT_NN_TOKENS_H

#include "nn/module.h"

/* Wraps an embedding (V, E), or the linear of the output head: replaces the rows of some tokens by
 * its own. */
typedef struct weft_nn_tokens {
    weft_module module;
    weft_module *base;
    weft_array *trainable_tokens_delta;   /* (k, E): the rows; tied if the head is tied */
    weft_array *token_ids, *row_of_token; /* (k), and for each of V tokens its row or -1; buffers */
    weft_array *original;                 /* (k, E): the base's rows before merging */
    int64_t further;                      /* number of new tokens, whose ids follow the base's */
    bool merged;
} weft_nn_tokens;

/* weft_nn_tokens_add for a caller that will load all rows: new rows get no initial values. */
weft_status weft__tokens_put(weft_module *tree, const char *module, const int32_t *tokens, int n);
bool weft__is_tokens(const weft_module *m);
/* The rows, which may be tied. */
weft_array *weft__tokens_rows(const weft_nn_tokens *m);
/* The number of tokens of an embedding, including tokens that `m` adds. `m` may be an embedding
 * without trained rows. */
int64_t weft__tokens_count(weft_module *m);
/* Writes the rows into the base weight, which is extended for new tokens; or undoes that. */
weft_status weft__tokens_merge(weft_nn_tokens *m, bool merging);

#endif
