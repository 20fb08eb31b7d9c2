/* generate/generation.h -- a generator with a callback and decoded text, one token at a time. */
#ifndef WEFT_GENERATE_GENERATION_H
#define WEFT_GENERATE_GENERATION_H

#include "generate/stops.h"

enum { WEFT__MAX_TOKENS = 256 }; /* by default */

/* The state of a run of weft_generate. */
typedef struct weft__generation {
    weft_generator *generator;
    weft_detokenizer *detokenizer; /* NULL: no text */
    weft_generate_fn *callback;
    void *context;
    weft__stops *stops;
    int64_t given; /* tokens passed to the callback */
    bool stopped;  /* by the callback */
} weft__generation;

/* Opens what the options require; the caller sets callback and context. Close it also after a
 * failure. */
weft_status weft__generation_open(weft__generation *r, weft_model *model,
                                  const weft_tokenizer *tokenizer, const int32_t *prompt, size_t n,
                                  const weft_generate_options *options);

/* Passes one token to the callback, or shifts the context; *more is false when there will be no
 * other token. */
weft_status weft__generation_next(weft__generation *r, bool *more);

/* The final statistics of the run, whose last status is `status`. */
weft_generate_stats weft__generation_stats(const weft__generation *r, weft_status status);

void weft__generation_close(weft__generation *r);

#endif
