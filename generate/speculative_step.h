/* generate/speculative_step.h -- passes several tokens through a model at once, repeatedly. */
#ifndef WEFT_GENERATE_SPECULATIVE_STEP_H
#define WEFT_GENERATE_SPECULATIVE_STEP_H

#include "weft/compile.h"
#include "weft/model.h"

/* Runs steps of 1 to `most` tokens after those in the caches. If `caches` is NULL, each step
 * processes the whole sequence. */
typedef struct weft__span {
    weft_model *model;
    weft_cache **caches;
    int64_t most;
    int64_t length;          /* as weft_model_call.length */
    bool compile;            /* compile if possible */
    weft_compiled *compiled; /* NULL: not compiled yet */
} weft__span;

/* Passes n tokens through the model: *logits (last, V) float32 of the last ones, evaluated. The
 * caches then contain the tokens. */
weft_status weft__span_call(weft__span *span, const int32_t *ids, int64_t n, int64_t last,
                            weft_array **logits);
/* The same without logits. */
weft_status weft__span_read(weft__span *span, const int32_t *ids, int64_t n);
/* Removes the last n tokens from the caches. */
weft_status weft__span_forget(weft__span *span, int64_t n);

#endif
