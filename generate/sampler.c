/* generate/sampler.c -- draws tokens from logits. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "generate/sampler.h"
#include "ops/reduce/top_p.h"

/* ---- checks ---------------------------------------------------------------------------------- */

/* The reason why options are invalid, or NULL. The comparisons also reject NaN. */
static const char *complaint(const weft_sampler_options *o)
{
    if (!(o->repetition_penalty >= 0) || !isfinite(o->repetition_penalty))
        return "repetition_penalty: expected a number of at least 0";
    if (!isfinite(o->presence_penalty) || !isfinite(o->frequency_penalty))
        return "presence_penalty, frequency_penalty: expected numbers";
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return "temperature: expected a number of at least 0";
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return "top_p: expected a number from 0 to 1";
    if (o->top_k < 0)
        return "top_k: expected a number of at least 0";
    if (o->order != WEFT_SAMPLER_TOP_P_FIRST && o->order != WEFT_SAMPLER_TOP_K_FIRST)
        return "order: expected WEFT_SAMPLER_TOP_P_FIRST or WEFT_SAMPLER_TOP_K_FIRST";
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return "min_p: expected a number from 0 to 1";
    if (!(o->xtc_probability >= 0 && o->xtc_probability <= 1))
        return "xtc_probability: expected a number from 0 to 1";
    if (!(o->xtc_threshold >= 0 && o->xtc_threshold <= 1))
        return "xtc_threshold: expected a number from 0 to 1";
    if (o->n_bias < 0 || o->n_suppress < 0 || o->n_xtc_keep < 0)
        return "n_bias, n_suppress, n_xtc_keep: expected numbers of at least 0";
    for (int i = 0; i < o->n_bias; i++) {
        if (!(o->bias_values[i] < INFINITY))
            return "bias_values: expected numbers or -inf";
    }
    return NULL;
}

/* NULL, or an error array that names the first of n ids that is not below V. */
static weft_array *check_ids(const char *what, const int32_t *ids, int n, int64_t V)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= V)
            return weft_error_array("sampler: %s: expected ids of the vocabulary's %lld, got %d",
                                    what, (long long)V, (int)ids[i]);
    }
    return NULL;
}

/* NULL, or an error array. */
static weft_array *check(weft_array *logits, const weft_sampler_options *o)
{
    const char *why = complaint(o);
    if (why != NULL)
        return weft_error_array("sampler: %s", why);
    if (!weft_ok(logits))
        return logits;
    if (weft_ndim(logits) != 2 || weft_dim(logits, -1) < 1)
        return weft_error_array("sampler: logits: expected shape (B, V)");
    const int64_t V = weft_dim(logits, -1);
    weft_array *error = check_ids("bias_ids", o->bias_ids, o->n_bias, V);
    if (error == NULL)
        error = check_ids("suppress", o->suppress, o->n_suppress, V);
    return error ? error : check_ids("xtc_keep", o->xtc_keep, o->n_xtc_keep, V);
}

/* Copies `n` 4-byte words from `list` to *at, and advances it. */
static const void *copy_words(char **at, const void *list, int n)
{
    const void *copy = *at;
    if (n > 0)
        memcpy(*at, list, (size_t)n * 4);
    *at += (size_t)n * 4;
    return copy;
}

weft_status weft__sampler_copy(const weft_sampler_options *options, weft_sampler_options *out,
                               void **block)
{
    weft_sampler_options o = *options;
    const size_t words = 2 * (size_t)o.n_bias + (size_t)o.n_suppress + (size_t)o.n_xtc_keep;
    char *at = *block = weft_malloc(words * 4 + 1);
    if (at == NULL)
        return weft__out_of_memory("sampler", NULL);
    o.bias_ids = copy_words(&at, o.bias_ids, o.n_bias);
    o.bias_values = copy_words(&at, o.bias_values, o.n_bias);
    o.suppress = copy_words(&at, o.suppress, o.n_suppress);
    o.xtc_keep = copy_words(&at, o.xtc_keep, o.n_xtc_keep);
    *out = o;
    return WEFT_OK;
}

/* ---- penalties and biases -------------------------------------------------------------------- */

/* Adds values[i] at ids[i] to x (B, V); NULL values: -inf. */
static weft_array *add_at(weft_array *x, const int32_t *ids, const float *values, int n)
{
    if (n == 0)
        return x;
    const weft_dims one = WEFT_DIMS(1, n), all = WEFT_DIMS(weft_dim(x, 0), n);
    weft_array *at = weft_broadcast_to(weft_from_data(ids, WEFT_INT32, one), all);
    weft_array *added = values ? weft_broadcast_to(weft_from_data(values, WEFT_FLOAT32, one), all)
                               : weft_full(all, -(double)INFINITY, WEFT_FLOAT32);
    return weft_scatter_add_along_axis(x, at, added, -1);
}

bool weft__sampler_counts(const weft_sampler_options *o)
{
    return (o->repetition_penalty != 0 && o->repetition_penalty != 1) || o->presence_penalty != 0 ||
           o->frequency_penalty != 0;
}

weft_array *weft__sampler_seen(const int32_t *ids, int64_t n, int64_t V)
{
    weft_array *at = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    weft_array *none = weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32);
    return weft_scatter_add_along_axis(none, at, weft_ones(WEFT_DIMS(1, n), WEFT_FLOAT32), -1);
}

/* Applies the repetition penalties to x (B, V). */
static weft_array *penalize(weft_array *x, weft_array *seen, const weft_sampler_options *o)
{
    const double penalty = o->repetition_penalty;
    if (seen == NULL)
        return x;
    if (penalty != 0 && penalty != 1) {
        weft_array *zero = weft_scalar(0, WEFT_FLOAT32);
        weft_array *lower =
            weft_where(weft_greater(x, zero), weft_scale(x, 1 / penalty), weft_scale(x, penalty));
        x = weft_where(seen, lower, x);
    }
    if (o->presence_penalty != 0)
        x = weft_where(seen, weft_add_scalar(x, -o->presence_penalty), x);
    if (o->frequency_penalty != 0)
        x = weft_subtract(x, weft_scale(seen, o->frequency_penalty));
    return x;
}

/* ---- truncation ------------------------------------------------------------------------------ */

/* The smallest logit that top-p and top-k keep in each row of x (B, V): (B, 1). The order of the
 * two determines the distribution to which top-p applies. */
static weft_array *prefix_threshold(weft_array *x, const weft_sampler_options *o)
{
    const int64_t V = weft_dim(x, -1);
    const int64_t k = o->top_k > 0 && o->top_k < V ? o->top_k : V;
    const weft_dims last = WEFT_DIMS(-1);
    const bool nucleus = o->top_p > 0 && o->top_p < 1;
    weft_array *over = !nucleus || o->order == WEFT_SAMPLER_TOP_K_FIRST ? weft_topk(x, k, -1) : x;
    return nucleus ? weft__top_p(x, weft_logsumexp(over, last, true), k, o->top_p)
                   : weft_min(over, last, true);
}

/* x (B, V) without the tokens that top-p, top-k and min-p exclude. */
static weft_array *truncate(weft_array *x, const weft_sampler_options *o)
{
    weft_array *low = NULL; /* (B, 1) */
    if ((o->top_p > 0 && o->top_p < 1) || (o->top_k > 0 && o->top_k < weft_dim(x, -1)))
        low = prefix_threshold(x, o);
    if (o->min_p > 0) {
        weft_array *least = weft_add_scalar(weft_max(x, WEFT_DIMS(-1), true), log(o->min_p));
        low = low == NULL ? least : weft_maximum(low, least);
    }
    if (low == NULL)
        return x;
    return weft_where(weft_less(x, low), weft_scalar(-INFINITY, WEFT_FLOAT32), x);
}

/* XTC: x (B, V) without its top choices, in randomly selected rows. */
static weft_array *exclude_top(weft_array *x, weft_array *key, const weft_sampler_options *o)
{
    const weft_dims last = WEFT_DIMS(-1), column = WEFT_DIMS(weft_dim(x, 0), 1);
    weft_array *none = weft_scalar(0, WEFT_FLOAT32), *never = weft_scalar(INFINITY, WEFT_FLOAT32);
    weft_array *p = weft_softmax(x, -1); /* (B, V) */
    weft_array *enough = weft_logical_and(
        weft_greater_equal(p, weft_scalar(o->xtc_threshold, WEFT_FLOAT32)), weft_greater(p, none));
    weft_array *least = weft_min(weft_where(enough, p, never), last, true); /* (B, 1) */
    weft_array *out = weft_greater(p, least);
    if (o->n_xtc_keep > 0) {
        weft_array *kept = weft_zeros(WEFT_DIMS(1, weft_dim(x, -1)), WEFT_FLOAT32);
        kept = add_at(kept, o->xtc_keep, NULL, o->n_xtc_keep); /* -inf there */
        out = weft_logical_and(out, weft_equal(kept, none));
    }
    weft_array *u = weft_random_uniform(key, column, 0, 1, WEFT_FLOAT32);
    weft_array *turn = weft_less(u, weft_scalar(o->xtc_probability, WEFT_FLOAT32));
    return weft_where(weft_logical_and(out, turn), weft_scalar(-INFINITY, WEFT_FLOAT32), x);
}

/* The keys of the draw and of XTC. Without XTC the draw uses the key itself. */
static void part_key(weft_array *key, const weft_sampler_options *o, weft_array **drawn,
                     weft_array **excluding)
{
    *drawn = key;
    *excluding = NULL;
    if (key == NULL || o->xtc_probability == 0)
        return;
    if (weft_ok(key) && weft_ndim(key) != 1)
        *excluding = weft_error_array("sampler: key: expected one, of shape (2), with XTC");
    else
        weft_random_split_pair(key, drawn, excluding);
}

/* ---- logits and draws ----------------------------------------------------------------------- */

/* Runs on the default device. */
static weft_array *steps(weft_array *logits, const weft_sampler_inputs *in, weft_array *key,
                         const weft_sampler_options *o)
{
    weft_array *x = weft_astype(logits, WEFT_FLOAT32);
    if (in->allowed != NULL)
        x = weft_where(in->allowed, x, weft_scalar(-INFINITY, WEFT_FLOAT32));
    x = add_at(x, o->bias_ids, o->bias_values, o->n_bias);
    x = add_at(x, o->suppress, NULL, o->n_suppress);
    x = penalize(x, in->seen, o);
    if (o->temperature == 0)
        return x;
    x = truncate(weft_scale(x, 1 / o->temperature), o);
    return o->xtc_probability > 0 ? exclude_top(x, key, o) : x;
}

static weft_array *all_steps(weft_array *logits, const weft_sampler_inputs *in, weft_array *key,
                             const weft_sampler_options *o)
{
    weft_array *error = check(logits, o);
    if (error != NULL)
        return error;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(logits));
    weft_array *x = steps(logits, in, key, o);
    weft_set_default_device(before);
    return x;
}

weft_array *weft_sampler_logits(weft_array *logits, const weft_sampler_inputs *inputs,
                                const weft_sampler_options *options)
{
    const weft_sampler_inputs in = inputs != NULL ? *inputs : (weft_sampler_inputs){0};
    const weft_sampler_options o = options != NULL ? *options : (weft_sampler_options){0};
    weft_array *drawn, *excluding;
    weft_scope_open_lean();
    part_key(in.key, &o, &drawn, &excluding);
    return weft_scope_close(all_steps(logits, &in, excluding, &o));
}

/* Whether the draw takes the largest of the logits as they are. */
static bool is_plain(const weft_sampler_inputs *in, const weft_sampler_options *o)
{
    return o->temperature == 0 && in->allowed == NULL && in->seen == NULL && o->n_bias == 0 &&
           o->n_suppress == 0;
}

/* The logits from which the token is drawn; the conversion to float32 would keep their order. */
static weft_array *drawn_from(weft_array *logits, const weft_sampler_inputs *in, weft_array *key,
                              const weft_sampler_options *o)
{
    weft_array *error = is_plain(in, o) ? check(logits, o) : NULL;
    return error ? error : is_plain(in, o) ? logits : all_steps(logits, in, key, o);
}

weft_array *weft__sampler_checked(weft_array *x, weft_array *token)
{
    weft_array *picked = weft_take_along_axis(x, weft_expand_dims(token, -1), -1);
    weft_array *is_number = weft_less_scalar(weft_squeeze(picked, -1), INFINITY);
    weft_array *none = weft_to(weft_scalar_int(-1, WEFT_INT32), weft_device_of(x));
    return weft_where(is_number, weft_astype(token, WEFT_INT32), none);
}

weft_status weft__sampler_failed(const char *where, int64_t token)
{
    char which[40] = "";
    if (token >= 0)
        snprintf(which, sizeof which, " of token %lld", (long long)token);
    return weft_fail(WEFT_INVALID,
                     "%s: the logits%s are NaN or infinite: the model's weights are damaged, or "
                     "the computation overflows in its dtype (try float32)",
                     where, which);
}

weft_array *weft_sampler_draw(weft_array *logits, const weft_sampler_inputs *inputs,
                              const weft_sampler_options *options)
{
    const weft_sampler_inputs in = inputs != NULL ? *inputs : (weft_sampler_inputs){0};
    const weft_sampler_options o = options != NULL ? *options : (weft_sampler_options){0};
    weft_array *drawn, *excluding;
    weft_scope_open_lean();
    part_key(in.key, &o, &drawn, &excluding);
    weft_array *x = drawn_from(logits, &in, excluding, &o);
    weft_array *token =
        o.temperature == 0 ? weft_argmax(x, -1, false) : weft_random_categorical(drawn, x, -1);
    return weft_scope_close(weft__sampler_checked(x, token));
}
