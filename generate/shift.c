/* generate/shift.c -- generation beyond the context length: the first and the last tokens are
 * processed again from position 0. */
#include "generate/shift.h"

#include <string.h>

#include "core/failure.h"
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

weft_status weft__shift_open(weft_model *model, const int32_t *prompt, size_t n,
                             const weft_generate_options *o, weft_generator **out)
{
    const int64_t positions = weft__positions(model, o);
    if (!o->shift || positions == 0)
        return weft_generator_new(model, prompt, n, o, out);
    if (o->constraint != NULL)
        return weft_fail(WEFT_UNSUPPORTED, "generate: shift: not with a constraint");
    int64_t first, last;
    weft_status status = kept(model, o, &first, &last);
    if (status != WEFT_OK || n <= (size_t)positions)
        return status != WEFT_OK ? status : weft_generator_new(model, prompt, n, o, out);
    int32_t *ids = weft_malloc((size_t)(first + last) * sizeof *ids);
    if (ids == NULL)
        return weft__out_of_memory("generate", NULL);
    memcpy(ids, prompt, (size_t)first * sizeof *ids);
    memcpy(ids + first, prompt + n - last, (size_t)last * sizeof *ids);
    status = weft_generator_new(model, ids, (size_t)(first + last), o, out);
    weft_free(ids);
    return status;
}

bool weft__shift_wanted(const weft_generator *g)
{
    return g->options.shift && g->stats.reason == WEFT_FINISH_LENGTH &&
           g->stats.detail == WEFT_FINISH_POSITIONS;
}

weft_status weft__shift_go_on(weft_generator *g)
{
    int64_t first, last;
    const weft_status status = kept(g->model, &g->options, &first, &last);
    return status == WEFT_OK ? weft__generator_cut(g, first, last) : status;
}
