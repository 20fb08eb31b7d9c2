/* generate/speculative.c -- speculative decoding (Leviathan, Kalman and Matias 2023): the model
 * checks several tokens proposed by a draft at once, and accepts as many as keep the distribution
 * unchanged.
 *
 * A proposal x is accepted with probability min(1, p(x) / q(x)), where p and q are the sampler's
 * distributions from the model's and the draft's logits. After the first rejection a token is drawn
 * from max(p - q, 0), normalized. Tokens found in the text itself have q(x) = 1. Probabilities and
 * draws are computed in double on the host.
 */
#include "generate/speculative.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "generate/generator.h"
#include "generate/sampler.h"
#include "generate/speculative_step.h"

enum {
    TOKENS = 4, /* proposed at a time */
    WORTH = 8   /* number of tokens from which compiling their steps pays */
};

struct weft__speculation {
    weft__span model;
    weft__span draft; /* without a model: proposals are found in the text */
    int64_t held;     /* tokens in the draft's caches */
    int64_t V;
    int64_t n;    /* number of proposals in this round */
    int32_t *ids; /* the proposals, with space for one more */
    double *q;    /* (n, V): the distributions that they were drawn from */
    double *p;    /* (V) */
    float *rows;  /* (n + 1, V): logits after the sampler's steps */
    float *raw;   /* the same before those; NULL without log-probabilities */
    uint64_t random;
};

/* ---- creating -------------------------------------------------------------------------------- */

bool weft__speculation_wanted(const weft_generate_options *o)
{
    return o->draft != NULL || o->ngram > 0;
}

int64_t weft__speculation_tokens(const weft_generate_options *o)
{
    return o->draft_tokens > 0 ? o->draft_tokens : TOKENS;
}

weft_status weft__speculation_check(weft_model *model, const weft_generate_options *o)
{
    if (o->draft_tokens < 0 || o->draft_tokens > 1024 || o->ngram < 0)
        return weft_fail(WEFT_INVALID, "generate: draft_tokens and ngram: expected numbers of at "
                                       "least 0, the first of 1024 at most");
    if (!weft__speculation_wanted(o))
        return WEFT_OK;
    if (o->draft && o->ngram > 0)
        return weft_fail(WEFT_INVALID, "generate: expected a draft or ngram, not both");
    if (o->constraint || o->probe || o->top_logprobs > 0)
        return weft_fail(WEFT_UNSUPPORTED, "generate: a draft with %s is unsupported",
                         o->constraint ? "a constraint"
                         : o->probe    ? "a probe"
                                       : "top_logprobs");
    if (weft_model_info_of(model)->keeps_states ||
        (o->draft && weft_model_info_of(o->draft)->keeps_states))
        return weft_fail(WEFT_UNSUPPORTED,
                         "generate: a draft is unsupported where layers keep states, which cannot "
                         "forget refused tokens");
    const int64_t V = weft_model_info_of(model)->vocab_size;
    if (o->draft && weft_model_info_of(o->draft)->vocab_size != V)
        return weft_fail(WEFT_INVALID,
                         "generate: draft: expected the model's vocabulary of %lld tokens, got one "
                         "of %lld",
                         (long long)V, (long long)weft_model_info_of(o->draft)->vocab_size);
    return WEFT_OK;
}

weft_status weft__speculation_new(weft_model *model, const weft_generate_options *o,
                                  weft__speculation **out)
{
    const size_t K = (size_t)weft__speculation_tokens(o);
    const size_t V = (size_t)weft_model_info_of(model)->vocab_size;
    weft__speculation *s = *out = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft__out_of_memory("generate", NULL);
    s->V = (int64_t)V;
    s->random = o->seed;
    s->ids = weft_malloc((K + 1) * sizeof *s->ids);
    s->p = weft_malloc(V * sizeof *s->p);
    s->rows = weft_malloc((K + 1) * V * sizeof *s->rows);
    if (o->logprobs)
        s->raw = weft_malloc((K + 1) * V * sizeof *s->raw);
    if (o->draft)
        s->q = weft_malloc(K * V * sizeof *s->q);
    if (!s->ids || !s->p || !s->rows || (o->logprobs && !s->raw) || (o->draft && !s->q))
        return weft__out_of_memory("generate", "proposals");
    if (o->draft == NULL)
        return WEFT_OK;
    /* The draft has not read its last proposal; if that is accepted, it reads two tokens. */
    s->draft = (weft__span){
        .model = o->draft,
        .caches = weft_model_new_caches(o->draft, &(weft_cache_options){.trim = (int64_t)K + 1}),
        .most = 2,
    };
    return s->draft.caches == NULL ? weft_error_status() : WEFT_OK;
}

void weft__speculation_free(weft_model *draft, weft__speculation *s)
{
    if (s == NULL)
        return;
    weft_compiled_free(s->model.compiled);
    weft_compiled_free(s->draft.compiled);
    weft_model_free_caches(draft, s->draft.caches);
    weft_free(s->ids);
    weft_free(s->q);
    weft_free(s->p);
    weft_free(s->rows);
    weft_free(s->raw);
    weft_free(s);
}

/* ---- numbers on the host -------------------------------------------------------------------- */

/* Uniform in [0, 1): SplitMix64 (Steele, Lea and Flood 2014). */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* The first of the largest elements, like weft_argmax. */
static int32_t largest(const float *row, int64_t V)
{
    int64_t best = 0;
    for (int64_t v = 1; v < V; v++)
        best = row[v] > row[best] ? v : best;
    return (int32_t)best;
}

/* Softmax of a row. */
static void probabilities(const float *row, int64_t V, double *out)
{
    const double top = (double)row[largest(row, V)];
    double sum = 0;
    for (int64_t v = 0; v < V; v++)
        sum += out[v] = exp((double)row[v] - top);
    for (int64_t v = 0; v < V; v++)
        out[v] /= sum;
}

static double log_probability(const float *row, int64_t V, int32_t id)
{
    const double top = (double)row[largest(row, V)];
    double sum = 0;
    for (int64_t v = 0; v < V; v++)
        sum += exp((double)row[v] - top);
    return (double)row[id] - top - log(sum);
}

/* Draws a token from weights whose sum is `sum`. */
static int32_t pick(uint64_t *random, const double *weights, int64_t V, double sum)
{
    double left = uniform(random) * sum;
    int64_t last = 0;
    for (int64_t v = 0; v < V; v++) {
        if (weights[v] <= 0)
            continue;
        last = v;
        left -= weights[v];
        if (left < 0)
            break;
    }
    return (int32_t)last;
}

/* ---- a model's logits ----------------------------------------------------------------------- */

/* Passes n tokens through a model, in chunks; *logits (last, V) of the last ones; NULL when the
 * caller interrupted. */
static weft_status feed(weft_generator *g, weft__span *span, const int32_t *ids, int64_t n,
                        int64_t last, weft_array **logits)
{
    const int64_t prefill = g->options.prefill > last ? g->options.prefill : last;
    const int64_t piece = span->caches ? prefill : n;
    weft_status status = WEFT_OK;
    *logits = NULL;
    for (; n > piece && status == WEFT_OK; ids += piece, n -= piece) {
        if (weft__interrupted(g))
            return WEFT_OK;
        status = weft__span_read(span, ids, piece);
    }
    if (status != WEFT_OK || weft__interrupted(g))
        return status;
    return weft__span_call(span, ids, n, last, logits);
}

/* Applies the sampler's steps to a row of logits (1, V) after the text and `more` proposals. */
static weft_array *sampled(weft_generator *g, weft_array *row, int64_t more)
{
    weft__speculation *s = g->speculation;
    const weft_sampler_options *o = &g->options.sampler;
    weft_sampler_inputs in = {0};
    if (weft__sampler_counts(o)) {
        weft_array *text = weft__sampler_seen(g->text, g->n_text, s->V);
        in.seen = more == 0 ? text : weft_add(text, weft__sampler_seen(s->ids, more, s->V));
    }
    if (o->xtc_probability > 0) /* each position needs its own random key */
        in.key = weft_random_key((uint64_t)(uniform(&s->random) * 0x1p53));
    return weft_sampler_logits(row, &in, o);
}

/* Whether n values are finite or -infinity, which samplers use for excluded tokens. */
static bool are_logits(const float *values, int64_t n)
{
    bool all = true;
    for (int64_t i = 0; i < n; i++)
        all &= values[i] < INFINITY; /* NaN is not */
    return all;
}

/* Copies rows of logits (n, V) to the host, of which the first follows `more` proposals. */
static weft_status read_rows(weft_generator *g, weft_array *logits, int64_t n, int64_t more,
                             float *out)
{
    const int64_t V = g->speculation->V, rows = n;
    weft_device *before = weft_default_device();
    weft_status status = WEFT_OK;
    weft_set_default_device(weft_device_of(logits));
    const weft_sampler_options *o = &g->options.sampler;
    if (!weft__sampler_counts(o) &&
        o->xtc_probability <= 0) { /* the rows can be processed together */
        status = weft_read(weft_sampler_logits(logits, NULL, o), WEFT_FLOAT32, out, n * V);
        n = 0;
    }
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        weft_array *row = sampled(g, weft_slice_axis(logits, 0, i, i + 1), more + i);
        status = weft_read(row, WEFT_FLOAT32, out + i * V, V);
    }
    weft_set_default_device(before);
    if (status == WEFT_OK && !are_logits(out, rows * V))
        status = weft__sampler_failed("generate", g->stats.tokens + more);
    return status;
}

/* ---- proposals ------------------------------------------------------------------------------ */

/* Proposes what followed the last `ngram` tokens at their latest earlier occurrence in the text. */
static void find_in_text(weft_generator *g, int64_t most)
{
    weft__speculation *s = g->speculation;
    const int64_t m = g->options.ngram, n = g->n_text;
    if (m >= n)
        return;
    const int32_t *end = g->text + (n - m);
    for (int64_t at = n - m - 1; at >= 0; at--) {
        if (memcmp(g->text + at, end, (size_t)m * sizeof *end) != 0)
            continue;
        while (s->n < most && at + m + s->n < n) {
            s->ids[s->n] = g->text[at + m + s->n];
            s->n++;
        }
        return;
    }
}

/* The caches of a draft with longrope begin again where its factors switch. */
static void renew_draft(weft_generator *g)
{
    weft__speculation *s = g->speculation;
    const weft_model_info *info = weft_model_info_of(g->options.draft);
    if (g->n_text <= info->renews_at || s->held > info->renews_at)
        return;
    for (int64_t i = 0; i < info->n_caches; i++)
        weft_cache_reset(s->draft.caches[i]);
    s->held = 0;
}

/* Proposes one token by the draft, which first reads the tokens of s->ids after `held`. */
static weft_status propose_one(weft_generator *g)
{
    weft__speculation *s = g->speculation;
    const bool first = s->n == 0;
    if (first)
        renew_draft(g);
    s->draft.length = g->n_text + s->n;
    const int32_t *ids = first ? g->text + s->held : s->ids + s->n - 1;
    const int64_t n = first ? g->n_text - s->held : 1;
    weft_array *logits;
    weft_status status = feed(g, &s->draft, ids, n, 1, &logits);
    if (status != WEFT_OK || logits == NULL)
        return status;
    s->held = g->n_text + s->n;
    status = read_rows(g, logits, 1, s->n, s->rows);
    double *q = s->q + s->n * s->V;
    if (g->options.sampler.temperature == 0) {
        s->ids[s->n] = largest(s->rows, s->V);
    } else {
        probabilities(s->rows, s->V, q);
        s->ids[s->n] = pick(&s->random, q, s->V, 1);
    }
    s->n++;
    return status;
}

/* How many proposals can be read after the text: a model's positions are limited, and so are the
 * keys of longrope's first factors. */
static int64_t room_for(const weft_model *model, const weft_generator *g, int64_t most)
{
    const weft_model_info *info = weft_model_info_of(model);
    const int64_t ends[] = {info->max_positions,
                            g->n_text <= info->renews_at ? info->renews_at : 0};
    for (int i = 0; i < 2; i++) {
        if (ends[i] > 0 && most > ends[i] - g->n_text)
            most = ends[i] - g->n_text;
    }
    return most;
}

/* Up to `most` proposals. */
static weft_status propose(weft_generator *g, int64_t most)
{
    weft__speculation *s = g->speculation;
    weft_status status = WEFT_OK;
    s->n = 0;
    most = room_for(g->model, g, most);
    if (g->options.draft == NULL) {
        find_in_text(g, most);
        return WEFT_OK;
    }
    most = room_for(g->options.draft, g, most);
    while (s->n < most && status == WEFT_OK && g->stats.reason == WEFT_FINISH_NONE) {
        weft_scope_open_lean();
        status = propose_one(g);
        weft_scope_close(NULL);
    }
    return status;
}

/* ---- verification ---------------------------------------------------------------------------- */

/* Whether proposal i is accepted; if not, *instead is the token drawn for it. p is the distribution
 * of its row. */
static bool takes(weft__speculation *s, int64_t i, int32_t *instead)
{
    const int32_t x = s->ids[i];
    const double *q = s->q ? s->q + i * s->V : NULL;
    if (uniform(&s->random) * (q ? q[x] : 1) < s->p[x])
        return true;
    double sum = 0;
    for (int64_t v = 0; v < s->V; v++) {
        const double left = s->p[v] - (q ? q[v] : v == x ? 1 : 0);
        s->p[v] = left > 0 ? left : 0;
        sum += s->p[v];
    }
    if (sum > 0) {
        *instead = pick(&s->random, s->p, s->V, sum);
        return false;
    }
    return true; /* p and q differ only by rounding */
}

/* Determines the tokens of this round from the rows of logits; returns their number. */
static int64_t decide(weft_generator *g)
{
    weft__speculation *s = g->speculation;
    const bool greedy = g->options.sampler.temperature == 0;
    for (int64_t i = 0; i <= s->n; i++) {
        const float *row = s->rows + i * s->V;
        bool taken;
        if (greedy) {
            g->ids[i] = largest(row, s->V);
            taken = i < s->n && g->ids[i] == s->ids[i];
        } else {
            probabilities(row, s->V, s->p);
            taken = i < s->n && takes(s, i, &g->ids[i]);
            if (taken)
                g->ids[i] = s->ids[i];
            else if (i == s->n)
                g->ids[i] = pick(&s->random, s->p, s->V, 1);
        }
        if (!taken)
            return i + 1;
    }
    return s->n + 1;
}

/* Trims the caches to the accepted tokens except the last one drawn. */
static weft_status forget_refused(weft_generator *g, int64_t taken)
{
    weft__speculation *s = g->speculation;
    const int64_t kept = g->n_text + taken;
    weft_status status = weft__span_forget(&s->model, s->n - taken);
    if (status != WEFT_OK || s->held <= kept)
        return status;
    status = weft__span_forget(&s->draft, s->held - kept);
    s->held = kept;
    return status;
}

/* The tokens of the text that the model has not read, and the proposals, in new memory. */
static int32_t *unread(const weft_generator *g, int64_t *n)
{
    const weft__speculation *s = g->speculation;
    const int64_t held = g->caches ? weft_cache_offset(g->caches[0]) : 0;
    const int64_t fresh = g->n_text - held;
    int32_t *ids = weft_malloc((size_t)(fresh + s->n) * sizeof *ids);
    if (ids == NULL) {
        weft__out_of_memory("generate", NULL);
        return NULL;
    }
    memcpy(ids, g->text + held, (size_t)fresh * sizeof *ids);
    memcpy(ids + fresh, s->ids, (size_t)s->n * sizeof *ids);
    *n = fresh + s->n;
    return ids;
}

static weft_status check_proposals(weft_generator *g)
{
    weft__speculation *s = g->speculation;
    int64_t n = 0;
    weft_array *logits = NULL;
    int32_t *ids = unread(g, &n);
    weft_status status = ids ? feed(g, &s->model, ids, n, s->n + 1, &logits) : WEFT_MEMORY;
    weft_free(ids);
    if (status != WEFT_OK || logits == NULL)
        return status;
    status = read_rows(g, logits, s->n + 1, 0, s->rows);
    if (status == WEFT_OK && s->raw)
        status = weft_read(logits, WEFT_FLOAT32, s->raw, (s->n + 1) * s->V);
    if (status != WEFT_OK)
        return status;
    const int64_t found = decide(g);
    for (int64_t i = 0; s->raw && i < found; i++)
        g->logprobs[i] = (float)log_probability(s->raw + i * s->V, s->V, g->ids[i]);
    g->n_read = found;
    g->reading = false;
    g->enqueued += found;
    g->stats.drafted += s->n;
    g->stats.accepted += found - 1;
    return forget_refused(g, found - 1);
}

weft_status weft__speculate(weft_generator *g)
{
    const int64_t most = weft__speculation_tokens(&g->options);
    const int64_t left = g->limit - g->stats.tokens - 1; /* the round yields one more token */
    weft__speculation *s = g->speculation;
    g->n_read = g->given = 0;
    if (s->model.model == NULL) {
        s->model = (weft__span){.model = g->model, .caches = g->caches, .most = most + 1};
        s->model.compile = s->draft.compile =
            !g->options.no_compile && g->limit - g->stats.tokens >= WORTH;
    }
    (void)weft__generator_renew(g);
    s->model.length = weft__whole_length(g);
    /* The prompt is processed without proposals: its token arrives sooner, and the caches are
     * checked for trimming. */
    weft_status status = propose(g, g->reading ? 0 : left < most ? left : most);
    if (status == WEFT_OK && g->stats.reason == WEFT_FINISH_NONE)
        status = check_proposals(g);
    const double now = weft__seconds();
    g->first = g->first > 0 ? g->first : now;
    g->last = now;
    return status;
}
