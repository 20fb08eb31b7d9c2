/* generate/score.c -- computes the probabilities of given continuations. */
#include <math.h>

#include "core/failure.h"
#include "generate/rows.h"
#include "generate/sampler.h"

typedef struct scoring {
    weft_model *model;
    const weft_prompt *prompts;
    const weft_score_request *requests;
    weft_scored *results;
    const size_t *order; /* of the texts processed together */
    size_t G;
} scoring;

/* The scored tokens: the row of the hidden state that predicts each, the token, its text, and its
 * index in the text. */
typedef struct targets {
    int32_t *places, *ids;
    size_t *owners, *indices, n;
} targets;

static void targets_free(targets *t)
{
    weft_free(t->places);
    weft_free(t->ids);
    weft_free(t->owners);
    weft_free(t->indices);
}

/* Finds the scored tokens that columns [from, from + W) predict; padding predicts none. */
static weft_status find_targets(const scoring *s, int64_t from, int64_t W, targets *t)
{
    const size_t most = s->G * (size_t)W + 1;
    *t = (targets){.places = weft_malloc(most * sizeof *t->places),
                   .ids = weft_malloc(most * sizeof *t->ids),
                   .owners = weft_malloc(most * sizeof *t->owners),
                   .indices = weft_malloc(most * sizeof *t->indices)};
    if (!t->places || !t->ids || !t->owners || !t->indices)
        return weft__out_of_memory("score", NULL);
    for (size_t g = 0; g < s->G; g++) {
        const weft_score_request *r = &s->requests[s->order[g]];
        for (int64_t w = 0; w < W; w++) {
            const size_t next = (size_t)(from + w) + 1;
            if (next < r->from || next >= r->text.n)
                continue;
            t->places[t->n] = (int32_t)((int64_t)g * W + w);
            t->ids[t->n] = r->text.ids[next];
            t->indices[t->n] = next;
            t->owners[t->n++] = s->order[g];
        }
    }
    return WEFT_OK;
}

static void scored_fail(weft_scored *r, weft_status status)
{
    weft_free(r->message);
    *r = (weft_scored){.status = status, .message = weft_strdup(weft_error_message())};
}

/* Scores targets [at, at + n). A text with a NaN probability fails. */
static weft_status add_scores(const scoring *s, weft_array *hidden, const targets *t, size_t at,
                              size_t n, float *logprobs, int32_t *best)
{
    weft_array *rows = weft__rows_pick(hidden, t->places + at, n);
    weft_array *logits = weft_astype(weft_model_head(s->model, rows), WEFT_FLOAT32); /* (n, V) */
    weft_array *ids = weft_from_data(t->ids + at, WEFT_INT32, WEFT_DIMS((int64_t)n));
    weft_array *loss =
        weft_cross_entropy_rows(logits, weft_to(ids, weft_device_of(logits))); /* (n) */
    weft_array *favourite = weft_argmax(logits, -1, false);
    weft_status status = weft_eval_n((weft_array *[]){loss, favourite}, 2);
    if (status == WEFT_OK)
        status = weft_read(loss, WEFT_FLOAT32, logprobs, (int64_t)n);
    if (status == WEFT_OK)
        status = weft_read(favourite, WEFT_INT32, best, (int64_t)n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft_scored *r = &s->results[t->owners[at + i]];
        if (isnan(logprobs[i]) && r->status == WEFT_OK)
            scored_fail(r, weft__sampler_failed("score", -1));
        if (r->status != WEFT_OK)
            continue;
        const weft_score_request *request = &s->requests[t->owners[at + i]];
        if (request->logprobs)
            request->logprobs[t->indices[at + i] - request->from] = -(double)logprobs[i];
        r->logprob -= (double)logprobs[i];
        r->greedy = r->greedy && best[i] == t->ids[at + i];
    }
    return status;
}

/* weft__rows_fn */
static weft_status score_hidden(void *context, weft_array *hidden, int64_t from)
{
    const scoring *s = context;
    const size_t most = weft__rows_of_logits(s->model);
    targets t;
    weft_status status = find_targets(s, from, weft_dim(hidden, 1), &t);
    float *logprobs = weft_malloc(most * sizeof *logprobs);
    int32_t *best = weft_malloc(most * sizeof *best);
    if (status == WEFT_OK && (!logprobs || !best))
        status = weft__out_of_memory("score", NULL);
    for (size_t at = 0; status == WEFT_OK && at < t.n; at += most) {
        weft_scope_open_lean();
        const size_t n = t.n - at < most ? t.n - at : most;
        status = add_scores(s, hidden, &t, at, n, logprobs, best);
        weft_scope_close(NULL);
    }
    weft_free(logprobs);
    weft_free(best);
    targets_free(&t);
    return status;
}

static weft_status check_request(weft_model *model, const weft_score_request *r)
{
    if (r->from < 1 || r->from > r->text.n)
        return weft_fail(WEFT_INVALID, "score: from: expected 1 to the text's %zu tokens, got %zu",
                         r->text.n, r->from);
    return weft__rows_check(model, "score", &r->text);
}

/* Scores all texts that can be scored, group by group. */
static weft_status score_groups(scoring *s, const bool *failed, size_t n,
                                const weft_batch_options *options)
{
    size_t *order = NULL, left = 0;
    weft_status status = weft__rows_order(s->prompts, failed, n, &order, &left);
    for (size_t at = 0; status == WEFT_OK && at < left; at += s->G) {
        s->order = order + at;
        s->G = weft__rows_together(s->model, s->prompts, s->order, left - at, options);
        const weft_status own =
            weft__rows_pass(s->model, s->prompts, s->order, s->G, options, NULL, score_hidden, s);
        for (size_t g = 0; own != WEFT_OK && g < s->G; g++)
            scored_fail(&s->results[s->order[g]], own);
    }
    weft_free(order);
    return status;
}

weft_status weft_score(weft_model *model, const weft_score_request *requests, size_t n,
                       const weft_batch_options *options, weft_scored *results)
{
    static const weft_batch_options defaults = {0};
    const weft_batch_options *o = options ? options : &defaults;
    weft_prompt *prompts = weft_malloc((n + 1) * sizeof *prompts);
    bool *failed = weft_calloc(n + 1, sizeof *failed);
    weft_status status = weft__rows_expect_logits(model, "score", false);
    if (status == WEFT_OK && (prompts == NULL || failed == NULL))
        status = weft_fail(WEFT_MEMORY, "score: out of memory for %zu texts", n);
    if (status == WEFT_OK && o->tokens < 0)
        status = weft_fail(WEFT_INVALID, "score: tokens: expected a number of at least 0");
    for (size_t i = 0; i < n; i++)
        results[i] = (weft_scored){.greedy = true};
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const weft_status own = check_request(model, &requests[i]);
        prompts[i] = requests[i].text;
        failed[i] = own != WEFT_OK;
        if (failed[i])
            scored_fail(&results[i], own);
    }
    scoring s = {model, prompts, requests, results, NULL, 0};
    if (status == WEFT_OK)
        status = score_groups(&s, failed, n, o);
    weft_free(prompts);
    weft_free(failed);
    return status;
}

void weft_scored_free(weft_scored *results, size_t n)
{
    for (size_t i = 0; results && i < n; i++) {
        weft_free(results[i].message);
        results[i] = (weft_scored){0};
    }
}
