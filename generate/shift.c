/* generate/shift.c -- generation beyond the context length: the first and the last tokens are
 * processed again from position 0. */
#include "generate/shift.h"

#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "generate/generator.h"

enum { SINKS = 4 };

/* How many of the first and of the last tokens are kept. */
static weft_status kept(weft_model *model, const weft_generate_options *o, int64_t *first,
                        int64_t *last)
{
    const int64_t positions = weft__positions(model, o);
    *first = o->cache.sink_tokens == 0 ? SINKS : o->cache.sink_tokens;
    *first = *first > 0 ? *first : 0;
    *last = (positions - *first) / 2;
    return *last > 0 ? WEFT_OK
                     : weft_fail(WEFT_INVALID,
                                 "generate: shift: %lld first tokens leave none of %lld positions",
                                 (long long)*first, (long long)positions);
}

/* The tokens of n that are processed again, in new memory. */
static weft_status cut(weft_model *model, const weft_generate_options *o, const int32_t *ids,
                       int64_t n, int32_t **out, size_t *n_out)
{
    int64_t first = 0, last = 0;
    *out = NULL;
    weft_status status = kept(model, o, &first, &last);
    if (status != WEFT_OK)
        return status;
    *n_out = (size_t)(first + last);
    *out = weft_malloc(*n_out * sizeof **out);
    if (*out == NULL)
        return weft__out_of_memory("generate", NULL);
    memcpy(*out, ids, (size_t)first * sizeof **out);
    memcpy(*out + first, ids + n - last, (size_t)last * sizeof **out);
    return WEFT_OK;
}

weft_status weft__shift_open(weft__generation *r, const int32_t *prompt, size_t n)
{
    const weft_generate_options *o = &r->options;
    const int64_t positions = weft__positions(r->model, o);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (!o->shift || positions == 0)
        return weft_generator_new(r->model, prompt, n, o, &r->generator);
    if (o->constraint != NULL)
        return weft_fail(WEFT_UNSUPPORTED, "generate: shift: not with a constraint");
    int64_t first, last;
    weft_status status = kept(r->model, o, &first, &last);
    if (status != WEFT_OK || n <= (size_t)positions)
        return status != WEFT_OK ? status
                                 : weft_generator_new(r->model, prompt, n, o, &r->generator);
    status = cut(r->model, o, prompt, (int64_t)n, &ids, &n_ids);
    if (status == WEFT_OK)
        status = weft_generator_new(r->model, ids, n_ids, o, &r->generator);
    weft_free(ids);
    return status;
}

bool weft__shift_wanted(const weft__generation *r)
{
    const weft_generate_stats *s = &r->generator->stats;
    return r->options.shift && s->reason == WEFT_FINISH_LENGTH &&
           s->detail == WEFT_FINISH_POSITIONS;
}

/* The sum of the statistics of previous generators and this one. */
static weft_generate_stats sum_of(const weft_generate_stats *past, const weft_generate_stats *now)
{
    weft_generate_stats s = *now;
    s.prompt_tokens = past->prompt_tokens;
    s.cached_tokens = past->cached_tokens;
    s.first_token_seconds = past->first_token_seconds;
    s.prompt_per_second = past->prompt_per_second;
    s.decode_seconds += past->decode_seconds + now->first_token_seconds;
    s.tokens += past->tokens;
    s.drafted += past->drafted;
    s.accepted += past->accepted;
    s.compiles += past->compiles;
    s.shifts = past->shifts;
    s.decode_per_second = s.decode_seconds > 0 ? (double)(s.tokens - 1) / s.decode_seconds : 0;
    return s;
}

/* The options of the next generator. */
static weft_generate_options rest_of(const weft_generate_options *options,
                                     const weft_generate_stats *past)
{
    weft_generate_options o = *options;
    o.max_tokens = weft__count_or_default(o.max_tokens, WEFT__MAX_TOKENS) - past->tokens;
    o.seed += (uint64_t)past->shifts + 1;
    if (o.timeout > 0) {
        const double left = o.timeout - past->first_token_seconds - past->decode_seconds;
        o.timeout = left > 1e-9 ? left : 1e-9;
    }
    return o;
}

weft_status weft__shift_go_on(weft__generation *r)
{
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status =
        cut(r->model, &r->options, r->generator->text, r->generator->n_text, &ids, &n);
    if (status != WEFT_OK)
        return status;
    r->past = weft__shift_stats(r);
    weft_generator_free(r->generator); /* frees its caches before new ones are created */
    r->generator = NULL;
    const weft_generate_options o = rest_of(&r->options, &r->past);
    status = weft_generator_new(r->model, ids, n, &o, &r->generator);
    weft_free(ids);
    if (status == WEFT_OK)
        r->past.shifts++;
    return status;
}

weft_generate_stats weft__shift_stats(const weft__generation *r)
{
    if (r->generator == NULL)
        return r->past;
    const weft_generate_stats now = weft_generator_stats(r->generator);
    return r->past.shifts > 0 ? sum_of(&r->past, &now) : now;
}
