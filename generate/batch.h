/* generate/batch.h -- the inside of weft_generate_batch.
 *
 * batch.c gives places to requests and turns to texts; batch_step.c computes; batch_rows.c keeps
 * what each text has become.
 */
#ifndef WEFT_GENERATE_BATCH_H
#define WEFT_GENERATE_BATCH_H

#include "generate/generation.h"
#include "generate/generator.h"
#include "generate/rows.h"

typedef struct weft__batch weft__batch;

/* A text that is being generated. */
typedef struct weft__row {
    weft__batch *batch;
    weft__generation run;
    size_t index; /* of the request */
    bool alone;   /* computed by its own generator, turn by turn */
    bool live;
    size_t room, text_room; /* of the result's lists */
} weft__row;

struct weft__batch {
    weft_model *model;
    const weft_tokenizer *tokenizer;
    const weft_generate_request *requests;
    size_t n, next; /* the next request that gets a place */
    weft_generate_batch_options options;
    weft_generate_batch_fn *callback;
    void *context;
    weft_generated_row *results;
    weft__row
        *rows; /* `places`; what is not alone has its keys and values in the slot of its place */
    size_t places;
    weft_cache **caches; /* slots.h, one a layer; NULL: no text needs them */
    weft_compiled *decode;
};

/* ---- batch_rows.c --------------------------------------------------------------------------- */

/* Opens a place for request b->next, which then is the next one. On a failure, which is the
 * request's result, the place stays empty. */
void weft__row_open(weft__batch *b, size_t place);
/* The next token of its generator to its callback and its result; a text that has ended leaves. */
void weft__row_next(weft__row *row);
/* Leaves with a failure: the calling thread's message. */
void weft__row_fail(weft__row *row, weft_status status);
/* Leaves as one that was cancelled. */
void weft__row_cancel(weft__row *row);

/* ---- batch_step.c --------------------------------------------------------------------------- */

/* The prompts of the n new texts at the places, and their first tokens. */
void weft__batch_begin(weft__batch *b, const size_t *places, size_t n);
/* A token for each text that is not alone. */
weft_status weft__batch_step(weft__batch *b);
/* Places [0, n) are kept, to which all live texts have been moved from `which`. */
weft_status weft__batch_keep(weft__batch *b, const int32_t *which, size_t n);
void weft__batch_close(weft__batch *b);

#endif
