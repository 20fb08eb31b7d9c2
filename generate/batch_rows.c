/* generate/batch_rows.c -- the sequences of a batch: opening, results and removal. */
#include <string.h>

#include "core/failure.h"
#include "generate/batch.h"
#include "generate/caches/plan.h"
#include "generate/caches/ring.h"

/* ---- results -------------------------------------------------------------------------------- */

/* Makes room for n elements of `size` bytes; the capacity grows geometrically. */
static bool grow(void **list, size_t *room, size_t n, size_t size)
{
    if (n <= *room)
        return true;
    const size_t more = n + *room + 64;
    void *moved = weft_realloc(*list, more * size);
    if (moved == NULL)
        return false;
    *list = moved;
    *room = more;
    return true;
}

static bool add_token(weft__row *row, weft_generated_row *r, const weft_generated *token)
{
    size_t room = row->room;
    if (!grow((void **)&r->ids, &room, r->n + 1, sizeof *r->ids) ||
        !grow((void **)&r->logprobs, &row->room, r->n + 1, sizeof *r->logprobs))
        return false;
    r->ids[r->n] = token->id;
    r->logprobs[r->n++] = token->logprob;
    return true;
}

/* weft_generate_fn: adds a token to the result and calls the caller's callback. */
static bool collect(void *context, const weft_generated *token)
{
    weft__row *row = context;
    weft_generated_row *r = row->result;
    const bool kept =
        (token->id < 0 || add_token(row, r, token)) &&
        grow((void **)&r->text, &row->text_room, r->length + token->length + 1, sizeof(char));
    if (!kept) {
        r->status = weft__out_of_memory("generate", "a text");
        return false;
    }
    memcpy(r->text + r->length, token->text, token->length);
    r->length += token->length;
    r->text[r->length] = '\0';
    return row->callback == NULL || row->callback(row->context, token);
}

/* ---- removal --------------------------------------------------------------------------------- */

static void leave(weft__row *row, weft_status status)
{
    const weft_running_batch *b = row->batch;
    weft_generated_row *r = row->result;
    weft__batch_use(b, row->adapter); /* its caches may be kept for prompts of the same one */
    if (r->status == WEFT_OK)
        r->status = status;
    if (r->status != WEFT_OK && r->message == NULL)
        r->message = weft_strdup(weft_error_message());
    if (r->text == NULL)
        r->text = weft_strdup("");
    r->stats = weft__generation_stats(&row->run, r->status);
    weft__generation_close(&row->run);
    weft__row_give_pages(row);
    row->run = (weft__generation){0};
    row->live = false;
    if (b->options.ended != NULL)
        b->options.ended(b->options.ended_context, row->index, r);
}

void weft__row_fail(weft__row *row, weft_status status)
{
    if (row->run.generator != NULL) /* which then does not store its caches */
        row->run.generator->stats.reason = WEFT_FINISH_ERROR;
    leave(row, status);
}

void weft__row_cancel(weft__row *row)
{
    row->run.generator->stats.reason = WEFT_FINISH_CANCELLED;
    weft__row_next(row); /* emits text that was held back */
}

/* ---- opening and stepping -------------------------------------------------------------------- */

bool weft__batch_in_use(const weft_running_batch *b)
{
    bool any = false;
    for (size_t i = 0; i < b->places; i++)
        any = any || (b->rows[i].live && b->rows[i].run.generator->batched);
    return any;
}

/* Whether sequences with these options can be in the batch's caches, which are replaced if no other
 * sequence is in them. Their size is planned here, once for all sequences, because it depends on
 * the memory in use. */
static bool fits_caches(weft_running_batch *b, const weft_cache_options *options)
{
    weft_cache_options own = weft__cache_options_of(b->model, options);
    if (b->caches && weft__cache_options_same(&own, &b->cache))
        return true;
    if (weft__batch_in_use(b))
        return false;
    weft__batch_empty(b);
    b->cache = own;
    if (weft_model_plan_caches(b->model, &own, &b->plan) != WEFT_OK)
        return false; /* opening the sequence fails likewise */
    own.max_context = b->plan.max_context;
    b->caches = weft_model_new_caches(b->model, &own);
    if (b->caches)
        weft__batch_page_caches(b);
    return b->caches != NULL;
}

bool weft__batch_is_like(const weft_running_batch *b, weft_cache **caches)
{
    bool alike = true;
    for (int64_t i = 0; alike && i < weft_model_info_of(b->model)->n_caches; i++)
        alike = weft__cache_alike(caches[i], b->caches[i]);
    return alike;
}

/* Whether a sequence cannot be computed in the batch and needs its own caches. */
static bool needs_own_caches(weft_running_batch *b, const weft_generate_options *o)
{
    return b->options.batch.invariant || o->no_cache || o->draft || o->ngram > 0 || o->probe ||
           !weft_model_info_of(b->model)->takes_offset ||
           weft_model_family_of(b->model)->new_cache != NULL || !fits_caches(b, &o->cache);
}

void weft__row_open(weft__row *row, weft_running_batch *b, const weft__request *request)
{
    const weft_generate_request *asked = &request->asked;
    weft_generate_options o = asked->options ? *asked->options : (weft_generate_options){0};
    *row = (weft__row){.batch = b,
                       .callback = request->callback,
                       .context = request->context,
                       .adapter = asked->adapter,
                       .index = request->index,
                       .result = request->result};
    const bool alone = needs_own_caches(b, &o);
    weft__batch_use(b, row->adapter);
    if (!alone) {
        o.tokens_per_eval = 1;
        /* The prompt cache finds entries by these options: unless memory is short, by the requested
         * ones. */
        if (b->plan.reduced || o.prompt_cache == NULL)
            o.cache.max_context = b->plan.max_context;
    }
    row->run = (weft__generation){.callback = collect, .context = row};
    weft_status status = weft__generation_open(&row->run, b->model, b->tokenizer, asked->prompt.ids,
                                               asked->prompt.n, &o);
    if (status == WEFT_OK && !alone && weft__batch_is_like(b, row->run.generator->caches)) {
        weft_generator *g = row->run.generator;
        g->batched = true;
        g->waits = b->options.latency > 0;
        g->start = weft__seconds();
        g->options.prefill = weft__rows_budget(&b->options.batch);
        status = weft__check_room(g);
    }
    row->live = status == WEFT_OK;
    if (!row->live)
        leave(row, status);
}

void weft__row_next(weft__row *row)
{
    bool more = true;
    weft__batch_use(row->batch, row->adapter);
    weft_status status = weft__generation_next(&row->run, &more);
    weft_generator *g = row->run.generator;
    /* A sequence with all its tokens needs no further step to find that out. */
    if (status == WEFT_OK && more && g->stats.tokens == g->limit)
        status = weft__generation_next(&row->run, &more);
    if (status != WEFT_OK || !more)
        leave(row, status);
    else if (g->reading) /* a shift: the caches are new */
        g->batched = g->batched && weft__batch_is_like(row->batch, g->caches);
    else if (g->batched)
        (void)weft__generator_renew(g);
    if (row->live && g->reading)
        weft__row_give_pages(row);
}
