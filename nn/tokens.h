/* nn/tokens.h -- between the rows of trained tokens and what is done to adapters. */
#ifndef WEFT_NN_TOKENS_H
#define WEFT_NN_TOKENS_H

#include "nn/module.h"

/* Around an embedding (V, E), or a linear that is the output head: what is computed from the rows
 * of some tokens is computed from rows of its own. */
typedef struct weft_nn_tokens {
    weft_module module;
    weft_module *base;
    weft_array *trainable_tokens_delta;   /* (k, E): the rows; tied in a head that is tied */
    weft_array *token_ids, *row_of_token; /* (k), and for each of V tokens its row or -1; buffers */
    weft_array *original;                 /* (k, E): the base's rows before they were merged */
    int64_t further;                      /* tokens that the base has no rows for: its next ids */
    bool merged;
} weft_nn_tokens;

/* weft_nn_tokens_add where all rows will be loaded: new ones have no values yet. */
weft_status weft__tokens_put(weft_module *tree, const char *module, const int32_t *tokens, int n);
bool weft__is_tokens(const weft_module *m);
/* The rows, also where they are tied. */
weft_array *weft__tokens_rows(const weft_nn_tokens *m);
/* Tokens of an embedding, with those that `m`, which may be one without trained rows, adds. */
int64_t weft__tokens_count(weft_module *m);
/* Sets the rows in the base's weight, which then has more rows where tokens are new, or takes them
 * off again. */
weft_status weft__tokens_merge(weft_nn_tokens *m, bool merging);

#endif
