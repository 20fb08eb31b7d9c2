/* generate/batch.c -- weft_generate_batch: assigns requests to slots, and steps the sequences. */
#include "generate/batch.h"

#include <string.h>

#include "core/failure.h"

enum { PLACES = 16 };

/* Assigns free slots to the next requests, and starts those that are computed in the batch. */
static weft_status fill(weft__batch *b)
{
    size_t *fresh = weft_malloc((b->places + 1) * sizeof *fresh), n = 0;
    if (fresh == NULL)
        return weft__out_of_memory("generate", NULL);
    for (size_t i = 0; i < b->places; i++) {
        while (!b->rows[i].live && b->next < b->n) {
            weft__row_open(b, i);
            if (b->rows[i].live && !b->rows[i].alone)
                fresh[n++] = i;
        }
    }
    if (n > 0)
        weft__batch_begin(b, fresh, n);
    weft_free(fresh);
    return WEFT_OK;
}

static size_t count_live(const weft__batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->places; i++)
        n += b->rows[i].live;
    return n;
}

/* If half of the slots are free and no request waits, the others move together, since steps of
 * fewer sequences are faster. */
static weft_status shrink(weft__batch *b)
{
    const size_t live = count_live(b);
    if (b->next < b->n || live == 0 || 2 * live > b->places)
        return WEFT_OK;
    int32_t *which = weft_malloc(live * sizeof *which);
    if (which == NULL)
        return weft__out_of_memory("generate", NULL);
    size_t n = 0;
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            which[n++] = (int32_t)i;
    }
    const weft_status status = weft__batch_keep(b, which, n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        b->rows[i] = b->rows[which[i]];
        b->rows[i].run.context = &b->rows[i];
    }
    if (status == WEFT_OK)
        b->places = n;
    weft_free(which);
    return status;
}

static void cancel_all(weft__batch *b)
{
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            weft__row_cancel(&b->rows[i]);
    }
    for (; b->next < b->n; b->next++)
        b->results[b->next].stats.reason = WEFT_FINISH_CANCELLED;
}

static weft_status run(weft__batch *b)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        if (b->options.cancel && weft_cancel_is_set(b->options.cancel))
            cancel_all(b);
        status = fill(b);
        if (status != WEFT_OK || (count_live(b) == 0 && b->next == b->n))
            break;
        for (size_t i = 0; i < b->places; i++) {
            if (b->rows[i].live && b->rows[i].alone)
                weft__row_next(&b->rows[i]);
        }
        status = weft__batch_step(b);
        if (status == WEFT_OK)
            status = shrink(b);
    }
    return status;
}

weft_status weft_generate_batch(weft_model *model, const weft_tokenizer *tokenizer,
                                const weft_generate_request *requests, size_t n,
                                const weft_generate_batch_options *options,
                                weft_generate_batch_fn *callback, void *context,
                                weft_generated_row *results)
{
    static const weft_generate_batch_options none = {.rows = 0};
    weft__batch b = {.model = model,
                     .tokenizer = tokenizer,
                     .requests = requests,
                     .n = n,
                     .options = options ? *options : none,
                     .callback = callback,
                     .context = context,
                     .results = results};
    for (size_t i = 0; i < n; i++)
        results[i] = (weft_generated_row){0};
    if (b.options.rows < 0 || b.options.batch.tokens < 0)
        return weft_fail(WEFT_INVALID,
                         "generate: rows and batch.tokens: expected numbers of at least 0");
    const size_t most = b.options.rows > 0 ? (size_t)b.options.rows : PLACES;
    b.places = n < most ? n : most;
    b.rows = weft_calloc(b.places + 1, sizeof *b.rows);
    weft_status status =
        b.rows ? run(&b)
               : weft_fail(WEFT_MEMORY, "generate: out of memory for %zu texts", b.places);
    for (size_t i = 0; b.rows && i < b.places; i++) {
        if (b.rows[i].live)
            weft__row_fail(&b.rows[i], status);
    }
    weft__batch_empty(&b);
    weft_free(b.rows);
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
