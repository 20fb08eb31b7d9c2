/* generate/generation.h -- a generator with a callback and texts, token by token. */
#ifndef WEFT_GENERATE_GENERATION_H
#define WEFT_GENERATE_GENERATION_H

#include "generate/stops.h"

/* What a run of weft_generate has open. */
typedef struct weft__generation {
    weft_generator *generator;     /* NULL: there is none, or the one after a shift failed */
    weft_detokenizer *detokenizer; /* NULL: no texts */
    weft_generate_fn *callback;
    void *context;
    weft__stops *stops;
    int64_t given; /* tokens that the callback got */
    bool stopped;  /* by the callback */
    /* Of texts that go on beyond the positions, for the generators to come; what those before took.
     */
    weft_model *model;
    weft_generate_options options;
    weft_generate_stats past;
} weft__generation;

/* Opens what the options ask for; callback and context are the caller's to set. Close it after a
 * failure too. */
weft_status weft__generation_open(weft__generation *r, weft_model *model,
                                  const weft_tokenizer *tokenizer, const int32_t *prompt, size_t n,
                                  const weft_generate_options *options);

/* One token to the callback; *more is false when there will be no other. */
weft_status weft__generation_next(weft__generation *r, bool *more);

/* What weft_generate says of the run in the end, `status` being its last. */
weft_generate_stats weft__generation_stats(const weft__generation *r, weft_status status);

void weft__generation_close(weft__generation *r);

#endif
