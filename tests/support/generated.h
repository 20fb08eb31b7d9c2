/* tests/support/generated.h -- the tokens, text and statistics of one generation. */
#ifndef TESTS_SUPPORT_GENERATED_H
#define TESTS_SUPPORT_GENERATED_H

#include "weft/generate.h"

enum { GENERATED_MOST = 1000 };

typedef struct generated {
    int32_t ids[GENERATED_MOST];
    double logprobs[GENERATED_MOST];
    int n;
    char text[8192];
    weft_generate_stats stats;
    int most;      /* stop after this many tokens; 0: never */
    int cancel_at; /* set `cancel` after this many tokens; 0: never */
    weft_cancel *cancel;
} generated;

/* A callback of weft_generate: appends a token and its text to the `generated` of the context. */
bool generated_collect(void *context, const weft_generated *token);

/* Generates exactly `most` tokens after n ids, with one call for each, and returns the statistics.
 * Fewer tokens are a failed check. */
weft_generate_stats generated_ids(weft_model *model, const int32_t *ids, int n,
                                  const weft_generate_options *options, int32_t *out, int most);

#endif
