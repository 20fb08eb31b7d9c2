/* generate/prepare.c -- creates a generator: checks prompt and options, collects stop tokens,
 * initializes the sampler's key and counts. */
#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "generate/generation.h"
#include "generate/probes.h"
#include "generate/rows.h"
#include "generate/sampler.h"

/* ---- checks ---------------------------------------------------------------------------------- */

int64_t weft__positions(const weft_model *model, const weft_generate_options *o)
{
    const int64_t all = weft_model_info_of(model)->max_positions;
    return o->positions > 0 && (all == 0 || o->positions < all) ? o->positions : all;
}

static weft_status check_prompt(weft_model *model, const int32_t *prompt, size_t n,
                                int64_t positions)
{
    const weft_model_info *info = weft_model_info_of(model);
    const weft_status status = weft__rows_expect_logits(model, "generate", false);
    if (status != WEFT_OK)
        return status;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "generate: the prompt has no tokens");
    if (positions > 0 && n > (size_t)positions)
        return weft_fail(WEFT_INVALID, "generate: the prompt has %zu tokens, the %s %lld positions",
                         n, positions == info->max_positions ? "model" : "options allow",
                         (long long)positions);
    for (size_t i = 0; i < n; i++) {
        if (prompt[i] < 0 || prompt[i] >= info->vocab_size)
            return weft_fail(WEFT_INVALID,
                             "generate: prompt id %zu: expected one of the vocabulary's %lld, got "
                             "%d",
                             i, (long long)info->vocab_size, (int)prompt[i]);
    }
    return WEFT_OK;
}

/* Checks the sampler's options once, on a graph that is never computed. */
static weft_status check_sampler(const weft_sampler_options *o, int64_t V)
{
    weft_scope_open_lean();
    weft_array *x = weft_sampler_logits(weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32), NULL, o);
    weft_status status = weft_ok(x) ? WEFT_OK : weft__report(x);
    weft_scope_close(NULL);
    return status;
}

static weft_status check_stop(const weft_generate_options *o, int64_t V)
{
    for (int i = 0; i < o->n_stop; i++) {
        if (o->stop[i] < 0 || o->stop[i] >= V)
            return weft_fail(WEFT_INVALID,
                             "generate: stop token %d: expected one of the vocabulary's %lld, got "
                             "%d",
                             i, (long long)V, (int)o->stop[i]);
    }
    return WEFT_OK;
}

static weft_status check_options(weft_model *model, const weft_generate_options *o)
{
    const int64_t V = weft_model_info_of(model)->vocab_size;
    if (o->prefill < 0 || o->n_stop < 0 || o->tokens_per_eval < 0 || o->positions < 0)
        return weft_fail(WEFT_INVALID, "generate: prefill, n_stop, tokens_per_eval and positions: "
                                       "expected numbers of at least 0");
    if (o->top_logprobs < 0 || o->top_logprobs > WEFT_TOP_LOGPROBS ||
        (o->top_logprobs > 0 && !o->logprobs))
        return weft_fail(
            WEFT_INVALID,
            "generate: top_logprobs: expected a number from 0 to %d, and logprobs, got "
            "%lld",
            (int)WEFT_TOP_LOGPROBS, (long long)o->top_logprobs);
    if (!(o->timeout >= 0))
        return weft_fail(WEFT_INVALID, "generate: timeout: expected seconds of at least 0");
    weft_status status = weft__speculation_check(model, o);
    if (status == WEFT_OK)
        status = check_stop(o, V);
    return status == WEFT_OK ? check_sampler(&o->sampler, V) : status;
}

/* ---- initialization -------------------------------------------------------------------------- */

static weft_status fill_stop(weft_generator *g)
{
    const int32_t *eos = weft_model_eos(g->model, &g->n_eos);
    if (g->options.ignore_eos)
        g->n_eos = 0;
    size_t n = (size_t)g->n_eos + (size_t)g->options.n_stop;
    g->stop = weft_malloc((n + 1) * sizeof *g->stop);
    if (g->stop == NULL)
        return weft__out_of_memory("generate", NULL);
    if (g->n_eos > 0)
        memcpy(g->stop, eos, (size_t)g->n_eos * sizeof *eos);
    if (g->options.n_stop > 0)
        memcpy(g->stop + g->n_eos, g->options.stop, (size_t)g->options.n_stop * sizeof *g->stop);
    g->n_stop = (int)n;
    return WEFT_OK;
}

static weft_status fill_text(weft_generator *g, const int32_t *prompt, size_t n)
{
    g->text = weft_malloc(n * sizeof *g->text);
    if (g->text == NULL)
        return weft__out_of_memory("generate", NULL);
    memcpy(g->text, prompt, n * sizeof *prompt);
    g->n_text = g->room = (int64_t)n;
    g->stats.prompt_tokens = (int64_t)n;
    return WEFT_OK;
}

/* Allocates the lists for tokens that are read. */
static weft_status fill_group(weft_generator *g)
{
    const size_t n = (size_t)g->options.tokens_per_eval;
    g->ids = weft_calloc(n, sizeof *g->ids);
    g->logprobs = weft_calloc(n * (size_t)weft__logprob_width(g), sizeof *g->logprobs);
    g->top = weft_calloc((size_t)g->options.top_logprobs + 1, sizeof *g->top);
    if (g->options.constraint)
        g->allowed_here =
            weft_calloc((size_t)weft_model_info_of(g->model)->vocab_size, sizeof *g->allowed_here);
    if (!g->ids || !g->logprobs || !g->top || (g->options.constraint && !g->allowed_here))
        return weft__out_of_memory("generate", NULL);
    return WEFT_OK;
}

/* The key for draws, and the counts of the text's tokens for the penalty. */
static weft_status fill_state(weft_generator *g)
{
    const weft_sampler_options *o = &g->options.sampler;
    weft_status status = WEFT_OK;
    weft_scope_open_lean();
    if (o->temperature > 0)
        status = weft_set(&g->key, weft_random_key(g->options.seed));
    if (status == WEFT_OK && weft__sampler_counts(o)) {
        const int64_t V = weft_model_info_of(g->model)->vocab_size;
        status = weft_set(&g->seen, weft__sampler_seen(g->text, g->n_text, V));
    }
    weft_scope_close(NULL);
    return status;
}

/* Whether stored keys of another sequence can serve one of n tokens, and the reverse: both are
 * rotated alike. */
static bool shares_keys(const weft_generator *g, int64_t n)
{
    const int64_t renews_at = weft_model_info_of(g->model)->renews_at;
    return renews_at == 0 || n <= renews_at;
}

static weft_status fill_caches(weft_generator *g)
{
    const weft_generate_options *o = &g->options;
    if (o->prompt_cache && shares_keys(g, g->n_text))
        return weft_prompt_cache_take(o->prompt_cache, g->text, (size_t)g->n_text, &o->cache,
                                      &g->caches, &g->known);
    g->caches = weft_model_new_caches(g->model, &o->cache);
    return g->caches ? WEFT_OK : weft_error_status();
}

/* What depends on the text that is to be processed. */
static weft_status fill_start(weft_generator *g)
{
    const int64_t positions = weft__positions(g->model, &g->options), most = g->options.max_tokens;
    /* The last token needs no position, since nothing is computed from it. */
    const int64_t end = positions > 0 ? g->stats.tokens + positions - g->n_text + 1 : most;
    weft_status status = WEFT_OK;
    g->limit = most < end ? most : end;
    g->reading = true;
    g->known = 0;
    if (!g->options.no_cache)
        status = fill_caches(g);
    if (status == WEFT_OK && weft__speculation_wanted(&g->options))
        status = weft__speculation_new(g->model, &g->options, &g->speculation);
    return status == WEFT_OK ? fill_state(g) : status;
}

static weft_status fill(weft_generator *g, const int32_t *prompt, size_t n)
{
    weft_status status =
        weft__sampler_copy(&g->options.sampler, &g->options.sampler, &g->sampler_lists);
    if (status == WEFT_OK)
        status = fill_stop(g);
    if (status == WEFT_OK)
        status = fill_text(g, prompt, n);
    if (status == WEFT_OK)
        status = fill_group(g);
    if (status == WEFT_OK)
        status = weft__probed_new(g, &g->probed);
    if (status == WEFT_OK)
        status = fill_start(g);
    g->stats.cached_tokens = g->known;
    g->options.stop = NULL; /* copied, so the caller's may be freed */
    return status;
}

/* ---- creating and freeing -------------------------------------------------------------------- */

weft_status weft_generator_new(weft_model *model, const int32_t *prompt, size_t n,
                               const weft_generate_options *options, weft_generator **out)
{
    *out = NULL;
    weft_generate_options o = options != NULL ? *options : (weft_generate_options){0};
    weft_status status = check_prompt(model, prompt, n, weft__positions(model, &o));
    if (status == WEFT_OK)
        status = check_options(model, &o);
    if (status != WEFT_OK)
        return status;
    o.max_tokens = weft__count_or_default(o.max_tokens, WEFT__MAX_TOKENS);
    o.prefill = o.prefill > 0 ? o.prefill : 512;
    const int64_t V = weft_model_info_of(model)->vocab_size;
    o.top_logprobs = o.top_logprobs < V ? o.top_logprobs : V;
    const bool watched = o.probe != NULL && o.probe->kinds != 0;
    if (o.tokens_per_eval == 0 || o.constraint || o.no_cache || watched)
        o.tokens_per_eval = 1;
    if (o.tokens_per_eval > o.max_tokens && o.max_tokens > 0)
        o.tokens_per_eval = o.max_tokens;
    if (weft__speculation_wanted(&o)) {
        const int64_t tokens = weft__speculation_tokens(&o);
        o.tokens_per_eval = tokens + 1;
        o.cache.trim = o.cache.trim > tokens ? o.cache.trim : tokens;
    }

    weft_generator *g = weft_calloc(1, sizeof *g);
    if (g == NULL)
        return weft__out_of_memory("generate", NULL);
    g->model = model;
    g->options = o;
    status = fill(g, prompt, n);
    if (status != WEFT_OK) {
        weft_generator_free(g);
        return status;
    }
    *out = g;
    return WEFT_OK;
}

/* Recurrent states that have read the stop token cannot forget it, so it stays in the text, as in
 * conversations between turns. */
static void keep_last(weft_generator *g)
{
    const weft_finish_detail detail = g->stats.detail;
    if (weft_model_info_of(g->model)->keeps_states && g->given < g->n_read &&
        (detail == WEFT_FINISH_EOS || detail == WEFT_FINISH_TOKEN) &&
        weft_cache_offset(g->caches[0]) == g->n_text + 1)
        (void)weft__generator_append(g, g->ids[g->given]);
}

/* Passes the caches to the prompt cache. After a failure, or if an entry cannot be allocated, they
 * are freed. The keys of a text that is read in part are rotated for its whole length. */
static void give_caches(weft_generator *g)
{
    if (g->caches && g->options.prompt_cache && g->stats.reason != WEFT_FINISH_ERROR &&
        shares_keys(g, g->reading ? g->n_text : weft_cache_offset(g->caches[0])))
        (void)weft_prompt_cache_put(g->options.prompt_cache, g->text, (size_t)g->n_text,
                                    &g->options.cache, g->caches);
    else
        weft_model_free_caches(g->model, g->caches);
    g->caches = NULL;
}

weft_status weft__generator_store(weft_generator *g)
{
    weft_cache **empty = weft_model_new_caches(g->model, &g->options.cache);
    if (empty == NULL)
        return weft_error_status();
    give_caches(g);
    g->caches = empty;
    return WEFT_OK;
}

weft_status weft__generator_take(weft_generator *g)
{
    weft_model_free_caches(g->model, g->caches);
    g->caches = NULL;
    g->known = 0;
    return fill_caches(g);
}

/* Frees what fill_start has made; caches are passed to the prompt cache. */
static void release(weft_generator *g)
{
    g->stats.compiles = weft_generator_stats(g).compiles;
    weft_compiled_free(g->decode);
    weft__speculation_free(g->options.draft, g->speculation);
    give_caches(g);
    g->decode = NULL;
    g->speculation = NULL;
}

weft_status weft__generator_cut(weft_generator *g, int64_t first, int64_t last)
{
    release(g); /* before new caches are created */
    memmove(g->text + first, g->text + g->n_text - last, (size_t)last * sizeof *g->text);
    g->n_text = first + last;
    g->options.seed++;
    g->n_read = g->given = 0;
    g->stats.reason = WEFT_FINISH_NONE;
    g->stats.detail = WEFT_FINISH_DETAIL_NONE;
    const weft_status status = fill_start(g);
    g->stats.shifts += status == WEFT_OK;
    return status;
}

bool weft__generator_renew(weft_generator *g)
{
    const weft_model_info *info = weft_model_info_of(g->model);
    if (info->renews_at == 0 || g->n_text != info->renews_at + 1 || g->given < g->n_read ||
        g->ahead.n > 0 || g->caches == NULL)
        return false;
    for (int64_t i = 0; i < info->n_caches; i++)
        weft_cache_reset(g->caches[i]);
    g->reading = true;
    g->known = 0;
    return true;
}

void weft_generator_free(weft_generator *g)
{
    if (g == NULL)
        return;
    if (g->caches && g->options.prompt_cache)
        keep_last(g);
    release(g);
    weft_array *const slots[] = {g->token,   g->logprob,      g->seen,
                                 g->key,     g->offset,       g->logits,
                                 g->allowed, g->ahead.tokens, g->ahead.logprobs};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        weft_drop(slots[i]);
    weft__probed_free(g, g->probed);
    weft__probed_free(g, g->ahead.probed);
    weft__probed_free(g, g->shown);
    weft_free(g->allowed_here);
    weft_free(g->sampler_lists);
    weft_free(g->logprobs);
    weft_free(g->top);
    weft_free(g->ids);
    weft_free(g->stop);
    weft_free(g->text);
    weft_free(g);
}

weft_status weft__generator_append(weft_generator *g, int32_t id)
{
    if (g->n_text == g->room) {
        const int64_t room = g->room + (g->room < 256 ? 256 : g->room);
        int32_t *moved = weft_realloc(g->text, (size_t)room * sizeof *moved);
        if (moved == NULL)
            return weft__out_of_memory("generate", NULL);
        g->text = moved;
        g->room = room;
    }
    g->text[g->n_text++] = id;
    return WEFT_OK;
}
