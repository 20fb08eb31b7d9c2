/* generate/batch.h -- a running batch: sequences that are generated together, and enter and leave
 * between steps.
 *
 * batch.c assigns rows to requests and steps the sequences; batch_step.c computes, by the compiled
 * steps of batch_decode.c, in the pages of batch_pages.c; batch_draw.c draws their tokens;
 * batch_rows.c keeps the results of each sequence.
 */
#ifndef WEFT_GENERATE_BATCH_H
#define WEFT_GENERATE_BATCH_H

#include "generate/caches/ring.h"
#include "generate/generation.h"
#include "generate/generator.h"
#include "generate/rows.h"
#include "nn/lora_bank.h"

/* A request that waits for a row. */
typedef struct weft__request {
    weft_generate_request
        asked;                  /* borrowed: the prompt until it has a row, options until its end */
    weft_generate_fn *callback; /* may be NULL */
    void *context;
    size_t index; /* in the order of weft_running_batch_add */
    weft_generated_row *result;
    struct weft__request *next;
} weft__request;

/* A sequence that is being generated. */
typedef struct weft__row {
    weft_running_batch *batch;
    weft__generation run;
    const weft_nn_lora_member *adapter; /* these are of the request */
    weft_generate_fn *callback;
    void *context;
    size_t index;
    weft_generated_row *result;
    weft__page_list pages;  /* none while its text waits to be processed */
    bool live;              /* a generator that is not `batched` computes one step per turn */
    size_t room, text_room; /* of the result's lists */
} weft__row;

enum { WEFT__STEPS = 8 }; /* that are kept */

/* A compiled step of all sequences. */
typedef struct weft__decoder {
    weft_compiled *compiled; /* NULL: none */
    /* The id of the adapter that all sequences have, 0: none; WEFT__MIXED: they have different
     * ones. */
    uint64_t adapter;
} weft__decoder;

#define WEFT__MIXED UINT64_MAX

struct weft_running_batch {
    weft_model *model;
    const weft_tokenizer *tokenizer;
    weft_generate_batch_options options;
    weft__request *first, **last; /* those that wait; where the next one is linked */
    size_t n, waiting;            /* numbers of requests so far, and of those that wait */
    /* `most`, of which `places` are in use. Those that are batched are in the row of the same index
     * of caches without pages. */
    weft__row *rows;
    size_t places, most;
    weft_cache_options cache; /* of the sequences in `caches`, as requested */
    weft_cache_plan plan;     /* of `caches`: their size is that of the memory at the start */
    weft_cache **caches;      /* caches/rows.h, one per layer; NULL: no sequence needs them */
    const weft__ring *paged;  /* one of those that have pages; NULL: none have */
    weft__pages pages;
    weft__paging paging;              /* of the step that is being built */
    int64_t set_back;                 /* sequences so far */
    int64_t budget;                   /* tokens of prompts left to the current step */
    double read_rate, step_seconds;   /* tokens of prompts a second, 0: none yet; the last step */
    weft__decoder steps[WEFT__STEPS]; /* the most recently used first */
    uint64_t version;                 /* of the bank when they were compiled */
    bool compiled;                    /* whether the latest step was */
    /* A step that was enqueued before the tokens of the step before it were read: its tokens, by
     * the rows at that time, and the request of each row, or SIZE_MAX. NULL: none. */
    weft_array *ahead;
    size_t *ahead_requests, ahead_places;
};

/* ---- batch.c -------------------------------------------------------------------------------- */

/* Makes the model compute with an adapter of the bank (NULL: with none), if there is a bank. */
void weft__batch_use(const weft_running_batch *b, const weft_nn_lora_member *adapter);

/* ---- batch_rows.c ---------------------------------------------------------------------------- */

/* Opens a row for a request. On failure, which becomes the request's result, it stays free. */
void weft__row_open(weft__row *row, weft_running_batch *b, const weft__request *request);
/* Passes the next token of its generator to its callback and result; removes a finished sequence.
 */
void weft__row_next(weft__row *row);
/* Removes it with a failure: the calling thread's message. */
void weft__row_fail(weft__row *row, weft_status status);
/* Removes it as cancelled. */
void weft__row_cancel(weft__row *row);
/* Whether the caches of a sequence are like the batch's: those from the prompt cache may be of
 * another size. */
bool weft__batch_is_like(const weft_running_batch *b, weft_cache **caches);
/* Whether there is a batched sequence. */
bool weft__batch_in_use(const weft_running_batch *b);

/* ---- batch_decode.c -------------------------------------------------------------------------- */

enum { WEFT__LOGITS, WEFT__ARGMAX, WEFT__RESULTS };

/* The most probable token of each row of logits (N, V): (N). */
weft_array *weft__batch_argmax(weft_array *logits);
/* Computes a step of all rows: in[0] tokens (B), in[1] offsets (B), in[2] their pages (B, N) and
 * in[3] places (B), with the adapter, which the model uses already; or with in[4], the numbers (B)
 * of the rows' adapters; NULL: they have the same. The step is compiled if `left` more are worth
 * it. out: WEFT__RESULTS of logits (B, V) and most probable tokens (B), evaluated. */
weft_status weft__batch_decode(weft_running_batch *b, weft_array *const *in,
                               const weft_nn_lora_member *adapter, int64_t left, weft_array **out);
/* Frees all compiled steps. */
void weft__batch_drop_steps(weft_running_batch *b);

/* ---- batch_draw.c ---------------------------------------------------------------------------- */

/* Whether the token is the most probable one, without any other option for the draw. */
bool weft__draw_is_greedy(const weft_generator *g);
/* Draws tokens for `rows` (n) from rows `which` of logits (N, V), with the most probable tokens of
 * all rows, `most` (N), and passes them on. A sequence without a token fails alone. */
weft_status weft__batch_draw(weft__row *const *rows, const size_t *which, size_t n,
                             weft_array *logits, weft_array *most);

/* ---- batch_step.c ---------------------------------------------------------------------------- */

/* Processes prompts of new sequences, about as many tokens as the options say, the oldest sequence
 * first, and draws the first tokens of those that are complete. */
void weft__batch_read(weft_running_batch *b);
/* Computes a token for each batched sequence whose prompt is complete. */
weft_status weft__batch_step(weft_running_batch *b);
/* Frees what was computed for batched sequences; none of them is left. */
void weft__batch_empty(weft_running_batch *b);

/* ---- batch_pages.c --------------------------------------------------------------------------- */

/* Whether a sequence is in the batch's caches. */
static inline bool weft__row_decodes(const weft__row *row)
{
    return row->live && row->run.generator->batched && !row->run.generator->reading;
}

/* Prepares new caches for pages. */
void weft__batch_page_caches(weft_running_batch *b);
/* Reserves pages for the text of a sequence; *admitted: whether there are any. */
weft_status weft__batch_admit(weft_running_batch *b, weft__row *row, bool *admitted);
void weft__row_give_pages(weft__row *row);
/* Reserves a page for the next token of each sequence that needs one; sets the youngest ones back
 * until there are enough. */
weft_status weft__batch_reserve(weft_running_batch *b);
/* The same for the token after it; sets none back, and returns whether there are enough. */
bool weft__batch_reserve_ahead(weft_running_batch *b);
/* Copies `length` tokens of row `from` of caches to the pages of a sequence, or its row. */
weft_status weft__batch_put(weft_running_batch *b, size_t place, weft_cache **caches, int64_t from,
                            int64_t length);
/* The arrays of weft__paging for the tokens at these positions. */
weft__paging weft__batch_paging(const weft_running_batch *b, const int32_t *offsets);
/* Of caches without pages: makes room for `longest` tokens in each row. */
weft_status weft__batch_reserve_rows(weft_running_batch *b, int64_t longest);
/* Makes row i of the caches the former row which[i], for n rows. */
weft_status weft__batch_keep(weft_running_batch *b, const int32_t *which, size_t n);

#endif
