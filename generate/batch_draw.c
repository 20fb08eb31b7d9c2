/* generate/batch_draw.c -- draws the tokens of a step of a batch: for sequences with equal options
 * together. */
#include <string.h>

#include "core/failure.h"
#include "generate/batch.h"
#include "generate/sampler.h"
#include "ops/random/random.h"

/* The draws of a step. */
typedef struct draws {
    weft__row *const *rows;
    const size_t *which; /* (n): the rows' rows of `logits` (N, V) */
    size_t n;
    weft_array *logits;
    size_t *leader; /* (n): the first row that shares the draw; n: it has a draw of its own */
    /* (n): by leader, tokens (m) and NULL or log-probabilities (m, weft__logprob_width) */
    weft_array **tokens, **logprobs;
} draws;

/* ---- which rows share a draw ----------------------------------------------------------------- */

/* Whether a draw depends only on the logits, the options and a key. */
static bool is_simple(const weft_generator *g)
{
    const weft_sampler_options *o = &g->options.sampler;
    return !weft__sampler_counts(o) && o->n_bias == 0 && o->n_suppress == 0 &&
           o->xtc_probability == 0 && !g->options.constraint;
}

bool weft__draw_is_greedy(const weft_generator *g)
{
    return is_simple(g) && g->options.sampler.temperature == 0 && !g->options.logprobs;
}

/* Whether two simple draws have equal options. */
static bool are_alike(const weft_generate_options *a, const weft_generate_options *b)
{
    const weft_sampler_options *x = &a->sampler, *y = &b->sampler;
    return x->temperature == y->temperature && x->top_p == y->top_p && x->top_k == y->top_k &&
           x->min_p == y->min_p && x->order == y->order && a->logprobs == b->logprobs &&
           a->scaled_logprobs == b->scaled_logprobs && a->top_logprobs == b->top_logprobs;
}

static weft_generator *generator_of(const draws *d, size_t i)
{
    return d->rows[i]->run.generator;
}

static void find_leaders(draws *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const weft_generator *g = generator_of(d, i);
        d->leader[i] = d->n;
        for (size_t k = 0; k <= i && d->leader[i] == d->n && is_simple(g); k++) {
            if (k == i ||
                (d->leader[k] == k && are_alike(&g->options, &generator_of(d, k)->options)))
                d->leader[i] = k;
        }
    }
}

/* ---- building the draws ---------------------------------------------------------------------- */

/* Takes the words of the next draw's key from a generator, whose key is from then on an array of
 * the host. */
static weft_status take_key(weft_generator *g, uint32_t given[2])
{
    weft_device *before = weft_default_device();
    uint32_t key[2];
    weft_status status = weft_read(g->key, WEFT_UINT32, key, 2);
    if (status != WEFT_OK)
        return status;
    weft__random_next(key, given);
    weft_set_default_device(weft_device_get("cpu"));
    status = weft_set(&g->key, weft_from_data(key, WEFT_UINT32, WEFT_DIMS(2)));
    weft_set_default_device(before);
    return status;
}

/* Builds the draw of the rows with a leader, on the default device. */
static weft_status put_shared(draws *d, size_t leader, int32_t *at, uint32_t *keys)
{
    const weft_generator *g = generator_of(d, leader);
    int64_t m = 0;
    bool all = true;
    weft_status status = WEFT_OK;
    for (size_t i = leader; status == WEFT_OK && i < d->n; i++) {
        if (d->leader[i] != leader)
            continue;
        all = all && (int64_t)d->which[i] == m;
        if (g->key)
            status = take_key(generator_of(d, i), keys + 2 * m);
        at[m++] = (int32_t)d->which[i];
    }
    if (status != WEFT_OK)
        return status;
    weft_array *x = d->logits;
    if (!all || m != weft_dim(x, 0))
        x = weft_take(x, weft_from_data(at, WEFT_INT32, WEFT_DIMS(m)), 0);
    const weft_sampler_inputs in = {
        .key = g->key ? weft_from_data(keys, WEFT_UINT32, WEFT_DIMS(m, 2)) : NULL};
    d->tokens[leader] = weft_sampler_draw(x, &in, &g->options.sampler);
    if (g->options.logprobs)
        d->logprobs[leader] = weft__draw_logprobs(g, x, d->tokens[leader]);
    return WEFT_OK;
}

/* Builds the draw of a row that has one of its own. */
static weft_status put_own(const draws *d, size_t i)
{
    weft_generator *g = generator_of(d, i);
    const int64_t at = (int64_t)d->which[i];
    weft_status status = WEFT_OK;
    if (g->options.constraint)
        status = weft__allow(g, weft_device_of(d->logits));
    if (status == WEFT_OK && !g->must_end)
        status = weft__put_draw(g, weft_slice_axis(d->logits, 0, at, at + 1));
    return status == WEFT_OK && !g->must_end ? weft__generator_join(g) : status;
}

/* Fails the rows with a leader, or one that has a draw of its own. */
static void fail(draws *d, size_t leader, weft_status status)
{
    for (size_t i = leader; i < d->n; i++) {
        if (i == leader || d->leader[i] == leader)
            weft__row_fail(d->rows[i], status);
    }
}

/* Builds all draws; appends the arrays to evaluate to `all`. Returns their number. A sequence that
 * fails is not live any more. */
static int put_all(draws *d, int32_t *at, uint32_t *keys, weft_array **all)
{
    int held = 0;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(d->logits));
    for (size_t i = 0; i < d->n; i++) {
        if (!d->rows[i]->live) /* failed with its leader */
            continue;
        const weft_generator *g = generator_of(d, i);
        const bool own = d->leader[i] == d->n;
        if (weft__draw_is_greedy(g) || (!own && d->leader[i] != i))
            continue;
        const weft_status status = own ? put_own(d, i) : put_shared(d, i, at, keys);
        if (status != WEFT_OK) {
            fail(d, i, status);
            continue;
        }
        weft_array *const made[] = {own ? g->token : d->tokens[i],
                                    own ? g->logprob : d->logprobs[i], own ? g->key : NULL,
                                    own ? g->seen : NULL};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++) {
            if (made[k] != NULL)
                all[held++] = made[k];
        }
    }
    weft_set_default_device(before);
    return held;
}

/* ---- passing the tokens on ------------------------------------------------------------------- */

/* Passes on the token of a row, or the one that its generator has drawn and is to be read. */
static void deliver(weft__row *row, const int32_t *token, const float *logprobs)
{
    weft_generator *g = row->run.generator;
    if (token != NULL && *token < 0) {
        weft__row_fail(row, weft__sampler_failed("generate", g->stats.tokens));
        return;
    }
    if (token != NULL) {
        g->ids[0] = *token;
        g->logprobs[0] = 0;
        if (logprobs != NULL)
            memcpy(g->logprobs, logprobs, (size_t)weft__logprob_width(g) * sizeof *logprobs);
        g->n_read = 1;
        g->given = 0;
        g->last = weft__seconds();
        g->first = g->first > 0 ? g->first : g->last;
    }
    g->enqueued++;
    weft__row_next(row);
}

/* Reads the tokens of the rows with a leader, and passes them on. */
static weft_status deliver_shared(const draws *d, size_t leader)
{
    const int64_t m = weft_dim(d->tokens[leader], 0),
                  width = d->logprobs[leader] ? weft__logprob_width(generator_of(d, leader)) : 0;
    int32_t *tokens = weft_malloc(((size_t)m + 1) * sizeof *tokens);
    float *logprobs = weft_malloc(((size_t)(m * width) + 1) * sizeof *logprobs);
    weft_status status = tokens && logprobs ? weft_read(d->tokens[leader], WEFT_INT32, tokens, m)
                                            : weft__out_of_memory("generate", NULL);
    if (status == WEFT_OK && width > 0)
        status = weft_read(d->logprobs[leader], WEFT_FLOAT32, logprobs, m * width);
    size_t at = 0;
    for (size_t i = leader; i < d->n && status == WEFT_OK; i++) {
        if (d->leader[i] == leader) {
            deliver(d->rows[i], &tokens[at], width > 0 ? logprobs + (int64_t)at * width : NULL);
            at++;
        }
    }
    weft_free(tokens);
    weft_free(logprobs);
    return status;
}

/* Passes the tokens of all rows on; `best` (N) are the most probable ones. */
static weft_status deliver_all(const draws *d, const int32_t *best)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < d->n && status == WEFT_OK; i++) {
        if (d->leader[i] == d->n && d->rows[i]->live)
            deliver(d->rows[i], NULL, NULL);
        else if (d->leader[i] == i && d->tokens[i] != NULL)
            status = deliver_shared(d, i);
        else if (d->leader[i] != d->n && d->tokens[d->leader[i]] == NULL && d->rows[i]->live)
            deliver(d->rows[i], &best[d->which[i]], NULL);
    }
    return status;
}

weft_status weft__batch_draw(weft__row *const *rows, const size_t *which, size_t n,
                             weft_array *logits, weft_array *most)
{
    const int64_t N = weft_ok(most) ? weft_dim(most, 0) : 0;
    weft_array **all = weft_calloc(6 * n + 1, sizeof *all);
    size_t *leader = weft_malloc((n + 1) * sizeof *leader);
    uint32_t *keys = weft_malloc((2 * n + 1) * sizeof *keys);
    int32_t *at = weft_malloc((n + (size_t)N + 1) * sizeof *at);
    weft_status status =
        all && leader && keys && at ? WEFT_OK : weft__out_of_memory("generate", NULL);
    if (status == WEFT_OK) {
        draws d = {rows, which, n, logits, leader, all + 4 * n + 1, all + 5 * n + 1};
        int32_t *best = at + n;
        find_leaders(&d);
        all[0] = most;
        status = weft_eval_n(all, put_all(&d, at, keys, all + 1) + 1);
        if (status == WEFT_OK)
            status = weft_read(most, WEFT_INT32, best, N);
        if (status == WEFT_OK)
            status = deliver_all(&d, best);
    }
    weft_free(all);
    weft_free(leader);
    weft_free(keys);
    weft_free(at);
    return status;
}
