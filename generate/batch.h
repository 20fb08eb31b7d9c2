/* generate/batch.h -- internal interface of weft_generate_batch.
 *
 * batch.c assigns slots to requests and steps the sequences; batch_step.c computes; batch_rows.c
 * keeps the results of each sequence.
 */
#ifndef WEFT_GENERATE_BATCH_H
#define WEFT_GENERATE_BATCH_H

#include "generate/generation.h"
#include "generate/generator.h"
#include "generate/rows.h"

typedef struct weft__batch weft__batch;

/* A sequence that is being generated. */
typedef struct weft__row {
    weft__batch *batch;
    weft__generation run;
    size_t index; /* of the request */
    bool alone;   /* computed by its own generator, one step per turn */
    bool live;
    size_t room, text_room; /* of the result's lists */
} weft__row;

struct weft__batch {
    weft_model *model;
    const weft_tokenizer *tokenizer;
    const weft_generate_request *requests;
    size_t n, next; /* index of the next request without a slot */
    weft_generate_batch_options options;
    weft_generate_batch_fn *callback;
    void *context;
    weft_generated_row *results;
    weft__row *rows; /* `places` of them; those that are not alone are in the caches' row of the
                      * same index */
    size_t places;
    weft_cache_options cache; /* of the sequences in `caches` */
    weft_cache **caches;      /* caches/rows.h, one per layer; NULL: no sequence needs them */
    weft_compiled *decode;
    /* A step that was enqueued before the tokens of the step before it were read: its tokens, by
     * the slots at that time, and the request of each slot. NULL: none. */
    weft_array *ahead;
    size_t *ahead_requests, ahead_places;
};

/* ---- batch_rows.c --------------------------------------------------------------------------- */

/* Opens slot `place` for request b->next, and advances to the next request. On failure, which
 * becomes the request's result, the slot stays free. */
void weft__row_open(weft__batch *b, size_t place);
/* Passes the next token of its generator to its callback and result; removes a finished sequence.
 */
void weft__row_next(weft__row *row);
/* Removes it with a failure: the calling thread's message. */
void weft__row_fail(weft__row *row, weft_status status);
/* Removes it as cancelled. */
void weft__row_cancel(weft__row *row);

/* ---- batch_step.c --------------------------------------------------------------------------- */

/* Processes the prompts of the n new sequences in these slots, and draws their first tokens. */
void weft__batch_begin(weft__batch *b, const size_t *places, size_t n);
/* Computes a token for each sequence that is not alone. */
weft_status weft__batch_step(weft__batch *b);
/* Keeps slots [0, n), to which all live sequences have been moved from `which`. */
weft_status weft__batch_keep(weft__batch *b, const int32_t *which, size_t n);
/* Frees what was computed for sequences that are not alone; none of them is left. */
void weft__batch_empty(weft__batch *b);

#endif
