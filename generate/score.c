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
    int64_t top; /* the largest n_top of all */
} scoring;

/* What is read for some targets: the loss and the most probable token of each, and the scoring.top
 * most probable ones with their log-probabilities. */
typedef struct values {
    float *losses, *top_logprobs;
    int32_t *best, *top;
} values;

static weft_status values_new(const scoring *s, size_t n, values *v)
{
    *v = (values){.losses = weft_malloc(n * sizeof *v->losses),
                  .best = weft_malloc(n * sizeof *v->best),
                  .top_logprobs = weft_malloc((n * (size_t)s->top + 1) * sizeof(float)),
                  .top = weft_malloc((n * (size_t)s->top + 1) * sizeof(int32_t))};
    return v->losses && v->best && v->top_logprobs && v->top ? WEFT_OK
                                                             : weft__out_of_memory("score", NULL);
}

static void values_free(values *v)
{
    weft_free(v->losses);
    weft_free(v->best);
    weft_free(v->top_logprobs);
    weft_free(v->top);
}

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

/* Reads the values of targets [at, at + n). */
static weft_status read_values(const scoring *s, weft_array *hidden, const targets *t, size_t at,
                               size_t n, values *v)
{
    weft_array *rows = weft__rows_pick(hidden, t->places + at, n);
    weft_array *logits = weft_astype(weft_model_head(s->model, rows), WEFT_FLOAT32); /* (n, V) */
    weft_array *ids = weft_from_data(t->ids + at, WEFT_INT32, WEFT_DIMS((int64_t)n));
    weft_array *all[4] = {weft_cross_entropy_rows(logits, weft_to(ids, weft_device_of(logits))),
                          weft_argmax(logits, -1, false)}; /* (n) */
    const int count = s->top > 0 ? 4 : 2;
    if (s->top > 0) {
        all[2] = weft_argtopk(logits, s->top, -1); /* (n, top) */
        all[3] = weft_subtract(weft_take_along_axis(logits, all[2], -1),
                               weft_logsumexp(logits, WEFT_DIMS(-1), true));
    }
    weft_status status = weft_eval_n(all, count);
    if (status == WEFT_OK)
        status = weft_read(all[0], WEFT_FLOAT32, v->losses, (int64_t)n);
    if (status == WEFT_OK)
        status = weft_read(all[1], WEFT_INT32, v->best, (int64_t)n);
    if (status == WEFT_OK && s->top > 0)
        status = weft_read(all[2], WEFT_INT32, v->top, (int64_t)n * s->top);
    if (status == WEFT_OK && s->top > 0)
        status = weft_read(all[3], WEFT_FLOAT32, v->top_logprobs, (int64_t)n * s->top);
    return status;
}

/* Copies the most probable tokens at the position of a target; the target's own log-probability is
 * the same number there. */
static void copy_top(const scoring *s, const values *v, size_t i, const weft_score_request *r,
                     size_t index, int32_t id)
{
    weft_top_logprob *to = r->top + (index - r->from) * (size_t)r->n_top;
    for (int64_t k = 0; k < r->n_top; k++) {
        const size_t from = i * (size_t)s->top + (size_t)k;
        to[k] = (weft_top_logprob){v->top[from],
                                   v->top[from] == id ? -v->losses[i] : v->top_logprobs[from]};
    }
}

/* Scores targets [at, at + n). A text with a NaN probability fails. */
static weft_status add_scores(const scoring *s, weft_array *hidden, const targets *t, size_t at,
                              size_t n, values *v)
{
    const weft_status status = read_values(s, hidden, t, at, n, v);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft_scored *r = &s->results[t->owners[at + i]];
        if (isnan(v->losses[i]) && r->status == WEFT_OK)
            scored_fail(r, weft__sampler_failed("score", -1));
        if (r->status != WEFT_OK)
            continue;
        const weft_score_request *request = &s->requests[t->owners[at + i]];
        const size_t index = t->indices[at + i];
        if (request->logprobs)
            request->logprobs[index - request->from] = -(double)v->losses[i];
        if (request->top)
            copy_top(s, v, i, request, index, t->ids[at + i]);
        r->logprob -= (double)v->losses[i];
        r->greedy = r->greedy && v->best[i] == t->ids[at + i];
    }
    return status;
}

/* weft__rows_fn */
static weft_status score_hidden(void *context, weft_array *hidden, int64_t from)
{
    const scoring *s = context;
    const size_t most = weft__rows_of_logits(s->model);
    targets t;
    values v = {0};
    weft_status status = find_targets(s, from, weft_dim(hidden, 1), &t);
    if (status == WEFT_OK)
        status = values_new(s, most, &v);
    for (size_t at = 0; status == WEFT_OK && at < t.n; at += most) {
        weft_scope_open_lean();
        const size_t n = t.n - at < most ? t.n - at : most;
        status = add_scores(s, hidden, &t, at, n, &v);
        weft_scope_close(NULL);
    }
    values_free(&v);
    targets_free(&t);
    return status;
}

static weft_status check_request(weft_model *model, const weft_score_request *r)
{
    if (r->from < 1 || r->from > r->text.n)
        return weft_fail(WEFT_INVALID, "score: from: expected 1 to the text's %zu tokens, got %zu",
                         r->text.n, r->from);
    if (r->top && (r->n_top < 0 || r->n_top > WEFT_TOP_LOGPROBS ||
                   r->n_top > weft_model_info_of(model)->vocab_size))
        return weft_fail(WEFT_INVALID,
                         "score: n_top: expected at most %d and the vocabulary, got "
                         "%lld",
                         (int)WEFT_TOP_LOGPROBS, (long long)r->n_top);
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
    scoring s = {model, prompts, requests, results, NULL, 0, 0};
    for (size_t i = 0; i < n; i++) {
        if (requests[i].top && status == WEFT_OK && !failed[i] && requests[i].n_top > s.top)
            s.top = requests[i].n_top;
    }
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
