/* generate/constrained.c -- draws tokens that a constraint allows. The host computes the allowed
 * tokens while the device computes the logits. */
#include <math.h>

#include "generate/generator.h"

/* Tokens that the sampler suppresses are not allowed either. */
static void forbid_suppressed(weft_generator *g)
{
    const weft_sampler_options *o = &g->options.sampler;
    for (int i = 0; i < o->n_suppress; i++)
        g->allowed_here[o->suppress[i]] = false;
    for (int i = 0; i < o->n_bias; i++) {
        if (isinf(o->bias_values[i]))
            g->allowed_here[o->bias_ids[i]] = false;
    }
}

/* Computes the allowed tokens on the host; sets must_end when there are none. Stop tokens are
 * allowed where the document may end. */
static weft_status find_allowed(weft_generator *g)
{
    const int32_t V = (int32_t)weft_model_info_of(g->model)->vocab_size;
    bool complete;
    weft_status status = weft_constraint_mask(g->options.constraint, g->limit - g->stats.tokens,
                                              g->allowed_here, V, &complete);
    if (status != WEFT_OK)
        return status;
    forbid_suppressed(g);
    bool any = false;
    for (int32_t i = 0; i < V && !any; i++)
        any = g->allowed_here[i];
    g->must_end = complete && !any;
    if (!complete && !any)
        return weft_fail(WEFT_INVALID, "generate: the constraint allows no token of the "
                                       "vocabulary here");
    for (int i = 0; i < g->n_stop && complete; i++) {
        if (g->stop[i] >= 0 && g->stop[i] < V)
            g->allowed_here[g->stop[i]] = true;
    }
    return WEFT_OK;
}

weft_status weft__allow(weft_generator *g, weft_device *device)
{
    const int64_t V = weft_model_info_of(g->model)->vocab_size;
    const weft_status status = find_allowed(g);
    if (status != WEFT_OK || g->must_end)
        return status;
    weft_array *allowed = weft_from_data(g->allowed_here, WEFT_BOOL, WEFT_DIMS(1, V));
    return weft_set(&g->allowed, weft_to(allowed, device));
}

weft_status weft__draw_constrained(weft_generator *g)
{
    g->undrawn = false;
    weft_status status = weft__allow(g, weft_device_of(g->logits));
    if (status != WEFT_OK || g->must_end)
        return status;
    status = weft__put_draw(g, g->logits);
    weft_array *const held[] = {g->token, g->logprob, g->seen, g->key};
    if (status == WEFT_OK)
        status = weft__start(g, held, 4, false);
    return status;
}

const char *weft__limit_name(const weft_generator *g)
{
    return g->limit == g->options.max_tokens ? "max_tokens" : "the model's positions";
}

weft_status weft__check_room(const weft_generator *g)
{
    int64_t bytes = 0, tokens = 0;
    if (g->options.constraint)
        weft_constraint_missing(g->options.constraint, &bytes, &tokens);
    if (tokens <= g->limit)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "generate: the shortest document of the constraint has %lld bytes, at least "
                     "%lld tokens; the limit of %s is %lld",
                     (long long)bytes, (long long)tokens, weft__limit_name(g), (long long)g->limit);
}
