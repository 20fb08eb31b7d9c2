/* models/generate/sampler.c -- drawing a token from logits. */
#include <math.h>
#include <stddef.h>

#include "models/generate/sampler.h"

/* Why the options are refused, or NULL. Written so that NaN is refused. */
static const char *complaint(const weft_sampler_options *o)
{
    if (!(o->repetition_penalty >= 0) || !isfinite(o->repetition_penalty))
        return "repetition_penalty: expected a number of at least 0";
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return "temperature: expected a number of at least 0";
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return "top_p: expected a number from 0 to 1";
    if (o->top_k < 0)
        return "top_k: expected a number of at least 0";
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return "min_p: expected a number from 0 to 1";
    return NULL;
}

bool weft__sampler_counts(const weft_sampler_options *o)
{
    return o->repetition_penalty != 0 && o->repetition_penalty != 1;
}

weft_array *weft__sampler_seen(const int32_t *ids, int64_t n, int64_t V)
{
    weft_array *at = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    weft_array *none = weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32);
    return weft_scatter_add_along_axis(none, at, weft_ones(WEFT_DIMS(1, n), WEFT_FLOAT32), -1);
}

/* x (B, V) where tokens that were seen are less likely: (B, V). */
static weft_array *penalise(weft_array *x, weft_array *seen, double penalty)
{
    if (seen == NULL || penalty == 0 || penalty == 1)
        return x;
    weft_array *zero = weft_scalar(0, WEFT_FLOAT32);
    weft_array *lower =
        weft_where(weft_greater(x, zero), weft_scale(x, 1 / penalty), weft_scale(x, penalty));
    return weft_where(seen, lower, x);
}

/* The smallest logit that top-p and top-k leave in each row of x (B, V): (B, 1). Both keep a prefix
 * of the sorted row, so only the k largest need sorting when there is a k. */
static weft_array *prefix_threshold(weft_array *x, double top_p, int64_t top_k)
{
    int64_t V = weft_dim(x, -1);
    int64_t k = top_k > 0 && top_k < V ? top_k : V;
    weft_dims last = WEFT_DIMS(-1);
    weft_array *sorted = weft_topk(x, k, -1); /* (B, k), descending */
    if (top_p > 0 && top_p < 1) {
        weft_array *p = weft_exp(weft_subtract(sorted, weft_logsumexp(x, last, true)));
        weft_array *before = weft_cumsum(p, -1, false, false); /* of the tokens in front */
        weft_array *kept = weft_less(before, weft_scalar(top_p, WEFT_FLOAT32));
        sorted = weft_where(kept, sorted, weft_scalar(INFINITY, WEFT_FLOAT32));
    }
    return weft_min(sorted, last, true);
}

weft_array *weft_sampler_logits(weft_array *logits, const weft_sampler_inputs *inputs,
                                const weft_sampler_options *options)
{
    const weft_sampler_inputs in = inputs != NULL ? *inputs : (weft_sampler_inputs){0};
    const weft_sampler_options o = options != NULL ? *options : (weft_sampler_options){0};
    const char *why = complaint(&o);
    if (why != NULL)
        return weft_error_array("sampler: %s", why);
    if (weft_ok(logits) && (weft_ndim(logits) != 2 || weft_dim(logits, -1) < 1))
        return weft_error_array("sampler: logits: expected shape (B, V)");
    weft_scope_open();
    weft_array *x = weft_astype(logits, WEFT_FLOAT32);
    if (in.allowed != NULL)
        x = weft_where(in.allowed, x, weft_scalar(-INFINITY, WEFT_FLOAT32));
    x = penalise(x, in.seen, o.repetition_penalty);
    if (o.temperature == 0)
        return weft_scope_close(x);
    x = weft_scale(x, 1 / o.temperature);
    weft_array *low = NULL; /* (B, 1) */
    if ((o.top_p > 0 && o.top_p < 1) || (o.top_k > 0 && o.top_k < weft_dim(x, -1)))
        low = prefix_threshold(x, o.top_p, o.top_k);
    if (o.min_p > 0) {
        weft_array *least = weft_add_scalar(weft_max(x, WEFT_DIMS(-1), true), log(o.min_p));
        low = low == NULL ? least : weft_maximum(low, least);
    }
    if (low != NULL)
        x = weft_where(weft_less(x, low), weft_scalar(-INFINITY, WEFT_FLOAT32), x);
    return weft_scope_close(x);
}

weft_array *weft_sampler_draw(weft_array *logits, const weft_sampler_inputs *inputs,
                              const weft_sampler_options *options)
{
    weft_array *key = inputs != NULL ? inputs->key : NULL;
    weft_scope_open();
    weft_array *x = weft_sampler_logits(logits, inputs, options);
    weft_array *token = options == NULL || options->temperature == 0
                            ? weft_argmax(x, -1, false)
                            : weft_random_categorical(key, x, -1);
    return weft_scope_close(weft_astype(token, WEFT_INT32));
}
