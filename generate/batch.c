/* generate/batch.c -- a running batch: assigns rows to requests, and steps the sequences. */
#include "generate/batch.h"

#include <string.h>

#include "core/clock.h"
#include "core/failure.h"

enum { PLACES = 16 };

void weft__batch_use(const weft_running_batch *b, const weft_nn_lora_member *adapter)
{
    if (b->options.adapters)
        weft_nn_lora_bank_use(b->options.adapters, adapter);
}

/* ---- requests -------------------------------------------------------------------------------- */

weft_status weft_running_batch_add(weft_running_batch *b, const weft_generate_request *request,
                                   weft_generate_fn *callback, void *context,
                                   weft_generated_row *result)
{
    *result = (weft_generated_row){0};
    if (request->adapter && b->options.adapters == NULL)
        return weft_fail(WEFT_INVALID, "generate: a request has an adapter, and the batch no bank");
    weft__request *added = weft_calloc(1, sizeof *added);
    if (added == NULL)
        return weft__out_of_memory("generate", "a request");
    *added = (weft__request){.asked = *request,
                             .callback = callback,
                             .context = context,
                             .index = b->n++,
                             .result = result};
    *b->last = added;
    b->last = &added->next;
    b->waiting++;
    return WEFT_OK;
}

/* Frees the first request that waits. */
static void drop_first(weft_running_batch *b)
{
    weft__request *first = b->first;
    b->first = first->next;
    b->last = b->first ? b->last : &b->first;
    b->waiting--;
    weft_free(first);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static size_t count_live(const weft_running_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->places; i++)
        n += b->rows[i].live;
    return n;
}

/* Moves the live sequences to the first of n rows. */
static weft_status resize(weft_running_batch *b, size_t n)
{
    int32_t *which = weft_calloc(n + 1, sizeof *which);
    if (which == NULL)
        return weft__out_of_memory("generate", NULL);
    size_t live = 0;
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            which[live++] = (int32_t)i;
    }
    const weft_status status = weft__batch_keep(b, which, n);
    for (size_t i = 0; status == WEFT_OK && i < live; i++) {
        b->rows[i] = b->rows[which[i]];
        b->rows[i].run.context = &b->rows[i];
    }
    for (size_t i = live; status == WEFT_OK && i < b->most; i++)
        b->rows[i].live = false;
    if (status == WEFT_OK)
        b->places = n;
    weft_free(which);
    return status;
}

/* Numbers of rows are powers of two, or the limit, because a step is compiled for each number. */
static size_t rows_for(const weft_running_batch *b, size_t n)
{
    size_t rows = n > 0;
    while (rows < n)
        rows *= 2;
    return rows < b->most ? rows : b->most;
}

/* Rows for all requests, as far as possible. */
static weft_status grow(weft_running_batch *b)
{
    const size_t wanted = count_live(b) + b->waiting;
    return wanted <= b->places || b->places == b->most ? WEFT_OK : resize(b, rows_for(b, wanted));
}

/* If no request waits: without sequences in the caches these are freed; if three quarters of the
 * rows are free, the others move together, since steps of fewer sequences are faster. At least half
 * of the rows are free then, so that the caches are not copied for every sequence that comes or
 * goes. */
static weft_status shrink(weft_running_batch *b)
{
    const size_t live = count_live(b);
    if (b->waiting > 0)
        return WEFT_OK;
    if (!weft__batch_in_use(b))
        weft__batch_empty(b);
    return 4 * live > b->places ? WEFT_OK : resize(b, rows_for(b, 2 * live));
}

/* Whether the first request that waits can be computed beside the sequences that have begun. */
static bool can_begin(const weft_running_batch *b)
{
    bool can = b->first != NULL;
    for (size_t i = 0; can && i < b->places; i++)
        can = !b->rows[i].live || weft__lora_can_mix(b->first->asked.adapter, b->rows[i].adapter);
    return can;
}

/* Assigns free rows to the next requests. */
static weft_status fill(weft_running_batch *b)
{
    const weft_status status = grow(b);
    for (size_t i = 0; status == WEFT_OK && i < b->places; i++) {
        for (; !b->rows[i].live && can_begin(b); drop_first(b))
            weft__row_open(&b->rows[i], b, b->first);
    }
    return status;
}

static void cancel_all(weft_running_batch *b)
{
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            weft__row_cancel(&b->rows[i]);
    }
    for (; b->first; drop_first(b))
        b->first->result->stats.reason = WEFT_FINISH_CANCELLED;
}

/* Makes a failure the result of a request that has not begun. */
static void fail_result(weft_generated_row *result, weft_status status)
{
    result->status = status;
    result->message = weft_strdup(weft_error_message());
    result->stats.reason = WEFT_FINISH_ERROR;
}

/* After a failure of the batch itself. */
static void fail_all(weft_running_batch *b, weft_status status)
{
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            weft__row_fail(&b->rows[i], status);
    }
    for (; b->first; drop_first(b))
        fail_result(b->first->result, status);
    weft__batch_empty(b);
}

/* ---- steps ----------------------------------------------------------------------------------- */

weft_status weft_running_batch_advance(weft_running_batch *b, bool *more)
{
    if (b->options.cancel && weft_cancel_is_set(b->options.cancel))
        cancel_all(b);
    weft_status status = fill(b);
    const double began = weft__seconds();
    for (size_t i = 0; status == WEFT_OK && i < b->places; i++) {
        if (b->rows[i].live && !b->rows[i].run.generator->batched)
            weft__row_next(&b->rows[i]);
    }
    const double alone = weft__seconds() - began;
    if (status == WEFT_OK)
        weft__batch_read(b);
    if (status == WEFT_OK)
        status = weft__batch_step(b);
    b->step_seconds += alone;
    if (status == WEFT_OK)
        status = shrink(b);
    if (status != WEFT_OK)
        fail_all(b, status);
    *more = status == WEFT_OK && count_live(b) + b->waiting > 0;
    return status;
}

weft_status weft_running_batch_new(weft_model *model, const weft_tokenizer *tokenizer,
                                   const weft_generate_batch_options *options,
                                   weft_running_batch **out)
{
    static const weft_generate_batch_options none = {.rows = 0};
    const weft_generate_batch_options *o = options ? options : &none;
    *out = NULL;
    if (o->rows < 0 || o->batch.tokens < 0 || o->cache_tokens < 0 || !(o->latency >= 0))
        return weft_fail(WEFT_INVALID,
                         "generate: rows, batch.tokens, cache_tokens and latency: expected numbers "
                         "of at least 0");
    const size_t most = o->rows > 0 ? (size_t)o->rows : PLACES;
    weft_running_batch *b = weft_calloc(1, sizeof *b);
    weft__row *rows = weft_calloc(most, sizeof *rows);
    if (b == NULL || rows == NULL) {
        weft_free(b);
        weft_free(rows);
        return weft_fail(WEFT_MEMORY, "generate: out of memory for %zu sequences", most);
    }
    *b = (weft_running_batch){.model = model,
                              .tokenizer = tokenizer,
                              .options = *o,
                              .last = &b->first,
                              .rows = rows,
                              .most = most};
    *out = b;
    return WEFT_OK;
}

void weft_running_batch_free(weft_running_batch *b)
{
    if (b == NULL)
        return;
    while (b->first)
        drop_first(b);
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live) {
            weft__generation_close(&b->rows[i].run);
            weft__row_give_pages(&b->rows[i]);
        }
    }
    weft__batch_empty(b);
    weft_free(b->rows);
    weft_free(b);
}

/* ---- requests that are known at the start --------------------------------------------------- */

/* The callback's context for one request. */
typedef struct member {
    weft_generate_batch_fn *callback;
    void *context;
    size_t index;
} member;

static bool give(void *context, const weft_generated *token)
{
    const member *m = context;
    return m->callback(m->context, m->index, token);
}

weft_status weft_generate_batch(weft_model *model, const weft_tokenizer *tokenizer,
                                const weft_generate_request *requests, size_t n,
                                const weft_generate_batch_options *options,
                                weft_generate_batch_fn *callback, void *context,
                                weft_generated_row *results)
{
    weft_generate_batch_options o = options ? *options : (weft_generate_batch_options){.rows = 0};
    weft_running_batch *b;
    member *members = weft_malloc((n + 1) * sizeof *members);
    o.batch.invariant = o.batch.invariant || n == 1;
    const int64_t most = o.rows == 0 ? PLACES : o.rows;
    o.rows = n > 0 && most > (int64_t)n ? (int64_t)n : most;
    weft_status status = weft_running_batch_new(model, tokenizer, &o, &b);
    if (status == WEFT_OK && members == NULL)
        status = weft__out_of_memory("generate", "the requests");
    for (size_t i = 0; i < n; i++)
        results[i] = (weft_generated_row){0};
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        members[i] = (member){callback, context, i};
        status = weft_running_batch_add(b, &requests[i], callback ? give : NULL, &members[i],
                                        &results[i]);
    }
    bool more = n > 0;
    for (size_t i = 0; b && status != WEFT_OK && i < n; i++)
        fail_result(&results[i], status); /* there is no memory for the requests */
    while (status == WEFT_OK && more)
        status = weft_running_batch_advance(b, &more);
    weft_running_batch_free(b);
    weft_free(members);
    return status;
}

void weft_generated_rows_free(weft_generated_row *results, size_t n)
{
    for (size_t i = 0; results && i < n; i++) {
        weft_free(results[i].message);
        weft_free(results[i].ids);
        weft_free(results[i].logprobs);
        weft_free(results[i].text);
        results[i] = (weft_generated_row){0};
    }
}
