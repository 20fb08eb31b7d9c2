/* generate/generator.c -- generates one sequence: the prompt, then one token at a time, with the
 * next steps enqueued before the last token is read. */
#include "core/buffer.h"
#include "generate/probes.h"
#include "generate/sampler.h"

static const char *const finishes[] = {"none", "stop", "length", "cancelled", "deadline", "error"};
static const char *const details[] = {"",         "eos",        "token",     "text",
                                      "document", "max_tokens", "positions", "callback"};

const char *weft_finish_name(weft_finish reason)
{
    return (size_t)reason < sizeof finishes / sizeof *finishes ? finishes[reason] : "none";
}

const char *weft_finish_detail_name(weft_finish_detail detail)
{
    return (size_t)detail < sizeof details / sizeof *details ? details[detail] : "";
}

static void finish(weft_generator *g, weft_finish reason, weft_finish_detail detail)
{
    g->stats.reason = reason;
    g->stats.detail = detail;
}

/* Whether a token is a stop token. */
static bool ends(weft_generator *g, int32_t id)
{
    for (int i = 0; i < g->n_stop; i++) {
        if (g->stop[i] == id) {
            finish(g, WEFT_FINISH_STOP, i < g->n_eos ? WEFT_FINISH_EOS : WEFT_FINISH_TOKEN);
            return true;
        }
    }
    return false;
}

/* ---- groups of tokens ----------------------------------------------------------------------- */

/* Joins two arrays, either of which may be NULL. */
static weft_array *joined(weft_array *all, weft_array *more)
{
    if (all == NULL || more == NULL)
        return more;
    return weft_concatenate((weft_array *[]){all, more}, 2, 0);
}

weft_status weft__generator_join(weft_generator *g)
{
    weft_array *logprob =
        g->logprob ? weft_reshape(g->logprob, WEFT_DIMS(weft__logprob_width(g))) : NULL;
    weft_status status = weft_set(&g->ahead.tokens, joined(g->ahead.tokens, g->token));
    if (status == WEFT_OK && logprob)
        status = weft_set(&g->ahead.logprobs, joined(g->ahead.logprobs, logprob));
    if (status == WEFT_OK && g->probed != NULL)
        status = weft__probed_copy(g, g->probed, &g->ahead.probed);
    g->ahead.n++;
    return status;
}

weft_status weft__go_ahead(weft_generator *g)
{
    const int64_t renews_at = weft_model_info_of(g->model)->renews_at;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < g->options.tokens_per_eval && status == WEFT_OK; i++) {
        if (g->enqueued == g->limit || weft_cache_offset(g->caches[0]) == renews_at)
            break;
        status = weft__step_next(g);
        if (status == WEFT_OK && g->options.constraint == NULL)
            status = weft__generator_join(g);
    }
    if (status == WEFT_OK && g->ahead.n > 1)
        status = weft_eval_async((weft_array *[]){g->ahead.tokens, g->ahead.logprobs},
                                 g->ahead.logprobs ? 2 : 1);
    return status;
}

static weft_status copy_out(weft_generator *g, const weft__group *group)
{
    weft_status status = weft_read(group->tokens, WEFT_INT32, g->ids, group->n);
    if (status == WEFT_OK && group->logprobs != NULL)
        status = weft_read(group->logprobs, WEFT_FLOAT32, g->logprobs,
                           group->n * weft__logprob_width(g));
    for (int64_t i = 0; i < group->n && status == WEFT_OK; i++) {
        if (g->ids[i] < 0)
            status = weft__sampler_failed("generate", g->stats.tokens + i);
    }
    g->n_read = status == WEFT_OK ? group->n : 0;
    g->given = 0;
    return status;
}

/* Reads the pending group; with a cache of its own the steps after it are enqueued first. The first
 * token is read alone, to measure its time. */
static weft_status read_group(weft_generator *g)
{
    const weft__group group = g->ahead;
    g->ahead = (weft__group){0};
    weft_status status = WEFT_OK;
    if (g->stats.tokens == 0) {
        status = weft_eval(group.tokens);
        g->first = weft__seconds();
    }
    if (status == WEFT_OK && g->caches != NULL && !g->batched)
        status = weft__go_ahead(g);
    if (status == WEFT_OK)
        status = copy_out(g, &group);
    weft_drop(group.tokens);
    weft_drop(group.logprobs);
    weft__probed_free(g, g->shown);
    g->shown = group.probed;
    g->last = weft__seconds();
    return status;
}

/* With a constraint: draws for the step that waits for it, unless the sequence has ended. */
static weft_status draw(weft_generator *g)
{
    if (!g->undrawn)
        return WEFT_OK;
    weft_status status = weft__draw_constrained(g);
    return status == WEFT_OK && !g->must_end ? weft__generator_join(g) : status;
}

/* The first step: processes the prompt. */
static weft_status begin(weft_generator *g)
{
    weft_status status = weft__check_room(g);
    if (status == WEFT_OK)
        status = weft__step_prompt(g);
    if (status != WEFT_OK || g->stats.reason != WEFT_FINISH_NONE)
        return status;
    return g->options.constraint ? draw(g) : weft__generator_join(g);
}

/* Computes what depended on the token just read: without a cache the whole step, with a constraint
 * its draw. */
static weft_status follow(weft_generator *g, int32_t id)
{
    weft_status status = WEFT_OK;
    if (g->options.constraint)
        status = weft_constraint_accept(g->options.constraint, id);
    if (status == WEFT_OK && g->caches == NULL && g->enqueued < g->limit) {
        status = weft__step(g, weft_from_data(g->text, WEFT_INT32, WEFT_DIMS(1, g->n_text)));
        if (status == WEFT_OK && g->options.constraint == NULL)
            status = weft__generator_join(g);
    }
    return status == WEFT_OK ? draw(g) : status;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* At the limit of tokens: a complete document ends normally, an incomplete one is a failure. */
static weft_status finish_at_limit(weft_generator *g)
{
    const weft_generate_options *o = &g->options;
    if (!o->constraint) {
        finish(g, WEFT_FINISH_LENGTH,
               g->limit == o->max_tokens ? WEFT_FINISH_MAX : WEFT_FINISH_POSITIONS);
        return WEFT_OK;
    }
    if (!weft_constraint_complete(o->constraint)) {
        int64_t bytes, tokens;
        weft_constraint_missing(o->constraint, &bytes, &tokens);
        return weft_fail(WEFT_INVALID,
                         "generate: the document is incomplete after %lld tokens, the limit of %s: "
                         "at least %lld more bytes are missing",
                         (long long)g->limit, weft__limit_name(g), (long long)bytes);
    }
    finish(g, WEFT_FINISH_STOP, WEFT_FINISH_DOCUMENT);
    return WEFT_OK;
}

/* Finds whether there is another token; if not and there was no failure, sets g->stats.reason. */
static weft_status find_next(weft_generator *g, bool *found)
{
    weft_status status = WEFT_OK;
    *found = false;
    if (g->start == 0)
        g->start = weft__seconds();
    if (weft__interrupted(g))
        return WEFT_OK;
    if (!g->must_end && g->stats.tokens == g->limit)
        status = finish_at_limit(g);
    else if (!g->must_end && g->speculation == NULL && (g->reading || weft__generator_renew(g)))
        status = begin(g);
    if (g->must_end)
        finish(g, WEFT_FINISH_STOP, WEFT_FINISH_DOCUMENT);
    if (status != WEFT_OK || g->stats.reason != WEFT_FINISH_NONE)
        return status;
    if (g->given == g->n_read)
        status = g->speculation ? weft__speculate(g) : read_group(g);
    if (status == WEFT_OK && g->stats.reason == WEFT_FINISH_NONE)
        *found = !ends(g, g->ids[g->given]);
    return status;
}

void weft__generator_top(weft_generator *g, weft_generated *token)
{
    const int64_t k = g->options.top_logprobs;
    if (k == 0 || token->id < 0)
        return;
    const float *at = g->logprobs + (g->given - 1) * weft__logprob_width(g) + 1;
    for (int64_t i = 0; i < k; i++)
        g->top[i] = (weft_top_logprob){.id = (int32_t)at[k + i], .logprob = at[i]};
    token->top = g->top;
    token->n_top = (int)k;
}

weft_status weft_generator_next(weft_generator *g, int32_t *id, double *logprob)
{
    *id = -1;
    if (g->stats.reason != WEFT_FINISH_NONE)
        return WEFT_OK;
    bool found;
    weft_scope_open_lean();
    weft_status status = find_next(g, &found);
    if (found) {
        const int32_t token = g->ids[g->given];
        const double own = (double)g->logprobs[g->given * weft__logprob_width(g)];
        if (logprob != NULL)
            *logprob = own;
        status = weft__probe_token(g, g->shown, token, own);
        g->given++;
        g->stats.tokens++;
        if (status == WEFT_OK)
            status = weft__generator_append(g, token);
        if (status == WEFT_OK)
            status = follow(g, token);
        if (status == WEFT_OK)
            *id = token;
    }
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        finish(g, WEFT_FINISH_ERROR, WEFT_FINISH_DETAIL_NONE);
    return status;
}

weft_generate_stats weft_generator_stats(const weft_generator *g)
{
    weft_generate_stats stats = g->stats;
    stats.first_token_seconds = g->first > 0 ? g->first - g->start : 0;
    stats.decode_seconds = g->first > 0 ? g->last - g->first : 0;
    if (stats.first_token_seconds > 0)
        stats.prompt_per_second =
            (double)(stats.prompt_tokens - stats.cached_tokens) / stats.first_token_seconds;
    if (stats.tokens > 1 && stats.decode_seconds > 0)
        stats.decode_per_second = (double)(stats.tokens - 1) / stats.decode_seconds;
    stats.peak_memory = weft__memory_peak_process();
    stats.compiles += g->decode ? weft_compiled_counts(g->decode).compiles : 0;
    return stats;
}
