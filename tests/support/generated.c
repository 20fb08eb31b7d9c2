/* tests/support/generated.c -- the tokens, text and statistics of one generation. */
#include "tests/support/generated.h"

#include <string.h>

#include "tests/check.h"

bool generated_collect(void *context, const weft_generated *token)
{
    generated *g = context;
    strncat(g->text, token->text, sizeof g->text - strlen(g->text) - 1);
    if (token->id >= 0 && g->n < GENERATED_MOST) {
        g->logprobs[g->n] = token->logprob;
        g->ids[g->n++] = token->id;
    }
    if (g->cancel_at > 0 && g->n == g->cancel_at)
        weft_cancel_set(g->cancel);
    return g->most == 0 || g->n < g->most;
}

weft_generate_stats generated_ids(weft_model *model, const int32_t *ids, int n,
                                  const weft_generate_options *options, int32_t *out, int most)
{
    weft_generate_stats stats = {0};
    weft_generator *g = NULL;
    int i = 0;
    if (CHECK_OK(weft_generator_new(model, ids, (size_t)n, options, &g))) {
        while (i < most && CHECK_OK(weft_generator_next(g, &out[i], NULL)) && out[i] >= 0)
            i++;
        stats = weft_generator_stats(g);
    }
    CHECK_EQ_INT(i, most);
    weft_generator_free(g);
    return stats;
}
