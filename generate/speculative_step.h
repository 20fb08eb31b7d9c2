/* generate/speculative_step.h -- several tokens through a model at once, again and again. */
#ifndef WEFT_GENERATE_SPECULATIVE_STEP_H
#define WEFT_GENERATE_SPECULATIVE_STEP_H

#include "weft/compile.h"
#include "weft/model.h"

/* Steps of 1 to `most` tokens behind what the caches hold. `caches` is NULL where none are kept:
 * then each step has the whole text. */
typedef struct weft__span {
    weft_model *model;
    weft_cache **caches;
    int64_t most;
    bool compile;            /* where that may be */
    weft_compiled *compiled; /* NULL: not yet */
} weft__span;

/* n tokens behind the caches' -> *logits (last, V) float32 of the last ones, evaluated; the caches
 * hold them then. */
weft_status weft__span_call(weft__span *span, const int32_t *ids, int64_t n, int64_t last,
                            weft_array **logits);
/* The same without logits. */
weft_status weft__span_read(weft__span *span, const int32_t *ids, int64_t n);
/* The caches forget the last n tokens. */
weft_status weft__span_forget(weft__span *span, int64_t n);

#endif
