/* generate/step.c -- builds and enqueues the computations for tokens: the prompt in chunks, the
 * layers, the head, the draw; decode.c compiles these graphs. */
#include "generate/probes.h"

#include "core/failure.h"

bool weft__interrupted(weft_generator *g)
{
    const weft_generate_options *o = &g->options;
    if (o->cancel && weft_cancel_is_set(o->cancel))
        g->stats.reason = WEFT_FINISH_CANCELLED;
    else if (o->timeout > 0 && weft__seconds() - g->start >= o->timeout)
        g->stats.reason = WEFT_FINISH_DEADLINE;
    return g->stats.reason != WEFT_FINISH_NONE;
}

/* ---- starting ------------------------------------------------------------------------------- */

/* Evaluating the slots' arrays keeps their graphs from growing. */
weft_status weft__start(weft_generator *g, weft_array *const *arrays, int n, bool wait)
{
    const int64_t caches = g->caches ? weft_model_info_of(g->model)->n_caches : 0;
    const int probed = weft__probed_count(g);
    const size_t room = (size_t)(n + probed) + (size_t)caches * WEFT_CACHE_SLOTS;
    weft_array **all = weft_malloc((room + 1) * sizeof(weft_array *));
    if (all == NULL)
        return weft__out_of_memory("generate", NULL);
    int held = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i] != NULL)
            all[held++] = arrays[i];
    }
    for (int i = 0; i < probed; i++) {
        if (*weft__probed_slot(g, i) != NULL)
            all[held++] = *weft__probed_slot(g, i);
    }
    for (int64_t i = 0; i < caches; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int m = weft_cache_state(g->caches[i], slots);
        for (int k = 0; k < m; k++) {
            if (*slots[k] != NULL)
                all[held++] = *slots[k];
        }
    }
    const weft_status status = wait ? weft_eval_n(all, held) : weft_eval_async(all, held);
    weft_free(all);
    return status;
}

/* ---- the draw ------------------------------------------------------------------------------- */

/* The log-probabilities of tokens (B, 1), each followed by the largest of its row of `all` (B, V),
 * and their tokens, which are exact in float32: a vocabulary has fewer than 2^24. */
static weft_array *with_top(const weft_generator *g, weft_array *all, weft_array *own)
{
    if (g->options.top_logprobs == 0)
        return own;
    weft_array *ids = weft_argtopk(all, g->options.top_logprobs, -1);
    weft_array *const parts[] = {own, weft_take_along_axis(all, ids, -1),
                                 weft_astype(ids, WEFT_FLOAT32)};
    return weft_concatenate(parts, 3, -1);
}

weft_array *weft__draw_logprobs(const weft_generator *g, weft_array *logits, weft_array *tokens)
{
    const double temperature = g->options.sampler.temperature;
    weft_array *x = weft_astype(logits, WEFT_FLOAT32);
    if (g->options.scaled_logprobs && temperature > 0)
        x = weft_scale(x, 1 / temperature);
    weft_array *all = weft_log_softmax(x, -1);
    return with_top(g, all, weft_take_along_axis(all, weft_expand_dims(tokens, -1), -1));
}

/* On the default device, where the key and the counts stay from the first step on. */
static weft_status draw_on_default_device(weft_generator *g, weft_array *logits)
{
    weft_device *there = weft_default_device();
    weft_sampler_inputs in = {.seen = g->seen ? weft_to(g->seen, there) : NULL,
                              .allowed = g->allowed ? weft_to(g->allowed, there) : NULL};
    weft_status status = WEFT_OK;
    if (g->key != NULL) {
        weft_array *keys = weft_random_split(weft_to(g->key, there), 2);
        in.key = weft_squeeze(weft_slice_axis(keys, 0, 1, 2), 0);
        status = weft_set(&g->key, weft_squeeze(weft_slice_axis(keys, 0, 0, 1), 0));
    }
    weft_array *token = weft_sampler_draw(logits, &in, &g->options.sampler); /* (1) */
    if (status == WEFT_OK)
        status = weft_set(&g->token, token);
    if (status == WEFT_OK && g->options.logprobs)
        status = weft_set(&g->logprob, weft__draw_logprobs(g, logits, token));
    if (status == WEFT_OK)
        status = weft__probe_logits(g, logits);
    if (status == WEFT_OK && in.seen != NULL) {
        weft_array *one = weft_ones(WEFT_DIMS(1, 1), WEFT_FLOAT32);
        status = weft_set(
            &g->seen, weft_scatter_add_along_axis(in.seen, weft_expand_dims(token, -1), one, -1));
    }
    return status;
}

weft_status weft__put_draw(weft_generator *g, weft_array *logits)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(logits));
    const weft_status status = draw_on_default_device(g, logits);
    weft_set_default_device(before);
    return status;
}

/* ---- a step --------------------------------------------------------------------------------- */

int64_t weft__whole_length(const weft_generator *g)
{
    return g->reading ? g->n_text : 0;
}

weft_status weft__put_step(weft_generator *g, weft_array *tokens, weft_array *offset)
{
    const weft_model_call call = {.caches = g->caches,
                                  .length = weft__whole_length(g),
                                  .offset = offset,
                                  .summaries = g->probed ? g->probed->layers : NULL};
    weft_array *hidden = weft_model_hidden(g->model, tokens, &call);       /* (1, L, E) */
    weft_array *last = weft_slice_axis(hidden, 1, -1, INT64_MAX);          /* (1, 1, E) */
    weft_array *logits = weft_squeeze(weft_model_head(g->model, last), 1); /* (1, V) */
    return g->options.constraint ? weft_set(&g->logits, logits) : weft__put_draw(g, logits);
}

weft_status weft__step(weft_generator *g, weft_array *tokens)
{
    weft_status status = weft__put_step(g, tokens, NULL);
    weft_array *const held[] = {g->token, g->logprob, g->seen, g->key, g->logits};
    if (status == WEFT_OK)
        status = weft__start(g, held, sizeof held / sizeof *held, false);
    g->undrawn = g->options.constraint != NULL;
    g->reading = false;
    g->enqueued++;
    return status == WEFT_OK ? weft_set(&g->offset, NULL) : status;
}

/* ---- the prompt ----------------------------------------------------------------------------- */

/* Only the caches are computed, not the last layer's output. Chunks are enqueued much faster than
 * they are computed, so if the caller may interrupt or limits their time, each is waited for. */
weft_status weft__step_chunk(weft_generator *g, int64_t from, int64_t L)
{
    const bool wait = g->waits || g->options.cancel || g->options.timeout > 0;
    const weft_model_call call = {.caches = g->caches,
                                  .length = weft__whole_length(g),
                                  .summaries = g->probed ? g->probed->layers : NULL};
    weft_scope_open_lean();
    weft_array *tokens = weft_from_data(g->text + from, WEFT_INT32, WEFT_DIMS(1, L));
    weft_array *hidden = weft_model_hidden(g->model, tokens, &call);
    const weft_status status =
        weft_ok(hidden) ? weft__start(g, NULL, 0, wait) : weft__report(hidden);
    weft_scope_close(NULL);
    return status;
}

weft_status weft__step_prompt(weft_generator *g)
{
    weft_status status = WEFT_OK;
    int64_t done = g->known;
    while (g->caches && g->n_text - done > g->options.prefill && status == WEFT_OK) {
        if (weft__interrupted(g))
            return WEFT_OK;
        status = weft__step_chunk(g, done, g->options.prefill);
        done += g->options.prefill;
        if (status == WEFT_OK)
            weft__probe_chunk(g);
    }
    if (status != WEFT_OK || weft__interrupted(g))
        return status;
    const int64_t L = g->n_text - done;
    return weft__step(g, weft_from_data(g->text + done, WEFT_INT32, WEFT_DIMS(1, L)));
}
