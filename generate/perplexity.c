/* generate/perplexity.c -- perplexity over chunks of a text; the second half of each chunk is
 * scored. */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "generate/rows.h"
#include "generate/sampler.h"

enum { CONTEXT = 512, LEAST_CONTEXT = 4 };

/* The chunks of a text, and the sums over the tokens scored so far. */
typedef struct chunking {
    weft_model *model;
    const weft_perplexity_options *options;
    int64_t C;     /* tokens per chunk */
    size_t chunks; /* of the text */
    int32_t *ids;  /* (chunks, C) */
    weft_prompt *prompts;
    size_t *order; /* 0, 1, ... */
    size_t at, G;  /* the chunks computed together: [at, at + G) */
    double sum, squares;
    int64_t targets;
} chunking;

/* The first scored position of a chunk. */
static int64_t first_counted(const chunking *c)
{
    return c->C / 2 + 1;
}

/* Finds the scored tokens after columns [from, from + W) of hidden states (G, W, E): the rows that
 * predict them, and the tokens. */
static size_t find_targets(const chunking *c, int64_t from, int64_t W, int32_t *rows, int32_t *ids)
{
    size_t n = 0;
    for (size_t g = 0; g < c->G; g++) {
        for (int64_t w = 0; w < W; w++) {
            const int64_t next = from + w + 1;
            if (next < first_counted(c) || next >= c->C)
                continue;
            rows[n] = (int32_t)((int64_t)g * W + w);
            ids[n++] = c->prompts[c->at + g].ids[next];
        }
    }
    return n;
}

/* Adds the losses of n tokens. */
static weft_status add_losses(chunking *c, weft_array *hidden, const int32_t *rows,
                              const int32_t *ids, size_t n, float *losses)
{
    weft_array *picked = weft__rows_pick(hidden, rows, n);
    weft_array *logits = weft_astype(weft_model_head(c->model, picked), WEFT_FLOAT32); /* (n, V) */
    weft_array *targets = weft_from_data(ids, WEFT_INT32, WEFT_DIMS((int64_t)n));
    weft_array *loss = weft_cross_entropy_rows(logits, weft_to(targets, weft_device_of(logits)));
    const weft_status status = weft_read(loss, WEFT_FLOAT32, losses, (int64_t)n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        if (!isfinite(losses[i]))
            return weft__sampler_failed("perplexity", -1);
        c->sum += (double)losses[i];
        c->squares += (double)losses[i] * (double)losses[i];
        c->targets++;
    }
    return status;
}

/* weft__rows_fn */
static weft_status count_hidden(void *context, weft_array *hidden, int64_t from)
{
    chunking *c = context;
    const int64_t W = weft_dim(hidden, 1);
    const size_t most = weft__rows_of_logits(c->model), room = c->G * (size_t)W + 1;
    int32_t *rows = weft_malloc(room * sizeof *rows), *ids = weft_malloc(room * sizeof *ids);
    float *losses = weft_malloc(most * sizeof *losses);
    weft_status status = WEFT_OK;
    size_t n = 0;
    if (rows == NULL || ids == NULL || losses == NULL)
        status = weft__out_of_memory("perplexity", NULL);
    else
        n = find_targets(c, from, W, rows, ids);
    for (size_t at = 0; status == WEFT_OK && at < n; at += most) {
        weft_scope_open_lean();
        status = add_losses(c, hidden, rows + at, ids + at, n - at < most ? n - at : most, losses);
        weft_scope_close(NULL);
    }
    weft_free(rows);
    weft_free(ids);
    weft_free(losses);
    return status;
}

static weft_status check_options(weft_model *model, const weft_perplexity_options *o, int64_t C,
                                 size_t n)
{
    const int64_t positions = weft_model_info_of(model)->max_positions;
    if (C < LEAST_CONTEXT)
        return weft_fail(WEFT_INVALID, "perplexity: context: expected at least %d, got %lld",
                         LEAST_CONTEXT, (long long)C);
    if (positions > 0 && C > positions)
        return weft_fail(WEFT_INVALID,
                         "perplexity: context: expected at most the model's %lld positions, got "
                         "%lld",
                         (long long)positions, (long long)C);
    if (o->chunks < 0 || o->batch.tokens < 0)
        return weft_fail(WEFT_INVALID, "perplexity: %s: expected a number of at least 0",
                         o->chunks < 0 ? "chunks" : "batch.tokens");
    if (n < (size_t)C)
        return weft_fail(WEFT_INVALID,
                         "perplexity: expected at least one chunk of %lld tokens, got a text of "
                         "%zu",
                         (long long)C, n);
    return WEFT_OK;
}

/* Copies the chunks, with their first tokens replaced. */
static weft_status make_chunks(chunking *c, const int32_t *ids, size_t n)
{
    c->chunks = n / (size_t)c->C;
    if (c->options->chunks > 0 && (size_t)c->options->chunks < c->chunks)
        c->chunks = (size_t)c->options->chunks;
    n = c->chunks * (size_t)c->C;
    c->ids = weft_malloc(n * sizeof *c->ids);
    c->prompts = weft_malloc(c->chunks * sizeof *c->prompts);
    c->order = weft_malloc(c->chunks * sizeof *c->order);
    if (c->ids == NULL || c->prompts == NULL || c->order == NULL)
        return weft_fail(WEFT_MEMORY, "perplexity: out of memory for %zu tokens", n);
    memcpy(c->ids, ids, n * sizeof *ids);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < c->chunks; i++) {
        int32_t *chunk = c->ids + i * (size_t)c->C;
        if (c->options->bos != NULL)
            chunk[0] = *c->options->bos;
        c->order[i] = i;
        c->prompts[i] = (weft_prompt){chunk, (size_t)c->C};
        status = weft__rows_check(c->model, "perplexity", &c->prompts[i]);
    }
    return status;
}

static weft_perplexity result_of(const chunking *c)
{
    const double N = (double)c->targets, mean = c->sum / N;
    const double variance = c->squares / N - mean * mean;
    const double error = c->targets > 1 && variance > 0 ? sqrt(variance / (N - 1)) : 0;
    return (weft_perplexity){.loss = mean,
                             .perplexity = exp(mean),
                             .uncertainty = exp(mean) * error,
                             .chunks = (int64_t)(c->at + c->G),
                             .targets = c->targets};
}

weft_status weft_perplexity_chunks(weft_model *model, const int32_t *ids, size_t n,
                                   const weft_perplexity_options *options, weft_perplexity *out)
{
    static const weft_perplexity_options defaults = {0};
    const weft_perplexity_options *o = options ? options : &defaults;
    chunking c = {.model = model, .options = o, .C = o->context != 0 ? o->context : CONTEXT};
    *out = (weft_perplexity){0};
    weft_status status = weft__rows_expect_logits(model, "perplexity", false);
    if (status == WEFT_OK)
        status = check_options(model, o, c.C, n);
    if (status == WEFT_OK)
        status = make_chunks(&c, ids, n);
    bool wanted = true;
    for (; status == WEFT_OK && wanted && c.at < c.chunks; c.at += c.G) {
        c.G = weft__rows_together(model, c.prompts, c.order + c.at, c.chunks - c.at, &o->batch);
        status = weft__rows_pass(model, c.prompts, c.order + c.at, c.G, &o->batch, NULL,
                                 count_hidden, &c);
        if (status == WEFT_OK)
            *out = result_of(&c);
        if (status == WEFT_OK && o->callback != NULL)
            wanted = o->callback(o->callback_context, out, (int64_t)c.chunks);
    }
    weft_free(c.ids);
    weft_free(c.prompts);
    weft_free(c.order);
    return status;
}
