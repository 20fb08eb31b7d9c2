/* generate/embed.c -- computes one vector for each of many prompts, pooled from the final hidden
 * states. */
#include <math.h>

#include "core/failure.h"
#include "generate/rows.h"

typedef struct embedding {
    weft_model *model;
    const weft_prompt *prompts;
    const weft_embed_options *options;
    weft_embedded *results;
    const size_t *order; /* of the prompts processed together */
    size_t G, E;         /* E: the length of a vector */
    double *sums;        /* (G, E) sums or maxima over the columns so far */
    float *values;       /* (G, E) of the latest columns */
} embedding;

/* The weight of each token of columns [from, from + W) in its prompt's embedding: (G, 1, W) float32
 * in new memory; NULL when out of memory. */
static float *find_shares(const embedding *e, int64_t from, int64_t W)
{
    float *shares = weft_calloc(e->G * (size_t)W + 1, sizeof *shares);
    for (size_t g = 0; shares != NULL && g < e->G; g++) {
        const int64_t L = (int64_t)e->prompts[e->order[g]].n;
        for (int64_t w = 0; w < W && from + w < L; w++) {
            float *share = &shares[g * (size_t)W + (size_t)w];
            if (e->options->pooling == WEFT_POOLING_MEAN || e->options->pooling == WEFT_POOLING_MAX)
                *share = 1;
            else if (e->options->pooling == WEFT_POOLING_LAST)
                *share = from + w == L - 1;
            else
                *share = from + w == 0;
        }
    }
    return shares;
}

/* weft__rows_fn: adds the chosen hidden states of (G, W, E) to the sums, or replaces these by
 * larger ones. */
static weft_status embed_hidden(void *context, weft_array *hidden, int64_t from)
{
    const embedding *e = context;
    const int64_t G = weft_dim(hidden, 0), W = weft_dim(hidden, 1), E = weft_dim(hidden, 2);
    float *shares = find_shares(e, from, W);
    if (shares == NULL)
        return weft__out_of_memory("embed", NULL);
    weft_array *weights = weft_from_data(shares, WEFT_FLOAT32, WEFT_DIMS(G, W, 1));
    weft_free(shares);
    weights = weft_to(weights, weft_device_of(hidden));
    const bool largest = e->options->pooling == WEFT_POOLING_MAX;
    weft_array *other = weft_full(weft_shape(weights), largest ? -INFINITY : 0, WEFT_FLOAT32);
    weft_array *chosen =
        weft_where(weft_greater_scalar(weights, 0), weft_astype(hidden, WEFT_FLOAT32),
                   weft_to(other, weft_device_of(hidden))); /* (G, W, E) */
    weft_array *pooled = largest ? weft_max(chosen, WEFT_DIMS(1), false)
                                 : weft_sum(chosen, WEFT_DIMS(1), false); /* (G, E) */
    const weft_status status = weft_read(pooled, WEFT_FLOAT32, e->values, G * E);
    for (size_t i = 0; status == WEFT_OK && i < (size_t)(G * E); i++) {
        const double value = (double)e->values[i];
        if (!largest || from == 0)
            e->sums[i] = (largest ? 0 : e->sums[i]) + value;
        else if (value > e->sums[i] || isnan(value))
            e->sums[i] = value;
    }
    return status;
}

static void embedded_fail(weft_embedded *r, weft_status status)
{
    weft_free(r->values);
    *r = (weft_embedded){.status = status, .message = weft_strdup(weft_error_message())};
}

/* Divides sums by the number of tokens. */
static void divide(const embedding *e)
{
    for (size_t i = 0; e->options->pooling == WEFT_POOLING_MEAN && i < e->G * e->E; i++)
        e->sums[i] /= (double)e->prompts[e->order[i / e->E]].n;
}

/* Replaces the pooled vectors by what the options' module computes from them. */
/* The device of a module: that of its first parameter, or the default one. */
static weft_device *device_of(weft_module *m)
{
    weft_nn_slots slots = {0};
    weft_device *device = weft_default_device();
    if (weft_nn_parameters(m, &slots) == WEFT_OK && slots.n > 0)
        device = weft_device_of(*slots.slots[0]);
    weft_nn_slots_free(&slots);
    return device;
}

static weft_status apply_dense(embedding *e)
{
    const size_t G = e->G;
    for (size_t i = 0; i < G * e->E; i++)
        e->values[i] = (float)e->sums[i];
    weft_scope_open_lean();
    weft_array *x = weft_from_data(e->values, WEFT_FLOAT32, WEFT_DIMS((int64_t)G, (int64_t)e->E));
    x = weft_to(x, device_of(e->options->dense));
    weft_array *y = weft_nn_call(e->options->dense, x); /* (G, n) */
    weft_status status = weft_ok(y) ? WEFT_OK : weft__report(y);
    if (status == WEFT_OK && (weft_ndim(y) != 2 || weft_dim(y, 0) != (int64_t)G))
        status =
            weft_fail(WEFT_INVALID, "embed: dense: expected a vector for each of %zu prompts", G);
    if (status == WEFT_OK) {
        e->E = (size_t)weft_dim(y, 1);
        weft_free(e->sums);
        weft_free(e->values);
        e->sums = weft_malloc((G * e->E + 1) * sizeof *e->sums);
        e->values = weft_malloc((G * e->E + 1) * sizeof *e->values);
        status = e->sums && e->values ? weft_read(y, WEFT_FLOAT32, e->values, (int64_t)(G * e->E))
                                      : weft__out_of_memory("embed", NULL);
    }
    for (size_t i = 0; status == WEFT_OK && i < G * e->E; i++)
        e->sums[i] = (double)e->values[i];
    weft_scope_close(NULL);
    return status;
}

/* Makes the result of a prompt from its vector. */
static weft_status finish(const embedding *e, size_t g)
{
    weft_embedded *r = &e->results[e->order[g]];
    const size_t E = e->E;
    const double *sum = e->sums + g * E;
    double divisor = 1, squares = 0;
    for (size_t i = 0; i < E; i++)
        squares += sum[i] * sum[i];
    if (!isfinite(squares))
        return weft_fail(WEFT_INVALID,
                         "embed: the hidden states are NaN or infinite: the model's weights are "
                         "damaged, or the computation overflows in its dtype (try float32)");
    if (e->options->normalize)
        divisor = fmax(sqrt(squares), 1e-12);
    r->values = weft_malloc((E + 1) * sizeof *r->values);
    if (r->values == NULL)
        return weft__out_of_memory("embed", NULL);
    for (size_t i = 0; i < E; i++)
        r->values[i] = (float)(sum[i] / divisor);
    r->n = E;
    return WEFT_OK;
}

/* Processes a group of prompts, longest first. A prompt that fails does so alone. */
static void embed_group(embedding *e)
{
    const size_t E = e->E = (size_t)weft_model_info_of(e->model)->hidden_size;
    e->sums = weft_calloc(e->G * E + 1, sizeof *e->sums);
    e->values = weft_malloc((e->G * E + 1) * sizeof *e->values);
    weft_status status = WEFT_OK;
    if (e->sums == NULL || e->values == NULL)
        status = weft__out_of_memory("embed", NULL);
    if (status == WEFT_OK)
        status = weft__rows_pass(e->model, e->prompts, e->order, e->G, &e->options->batch, NULL,
                                 embed_hidden, e);
    if (status == WEFT_OK)
        divide(e);
    if (status == WEFT_OK && e->options->dense)
        status = apply_dense(e);
    for (size_t g = 0; g < e->G; g++) {
        const weft_status own = status == WEFT_OK ? finish(e, g) : status;
        if (own != WEFT_OK)
            embedded_fail(&e->results[e->order[g]], own);
    }
    weft_free(e->sums);
    weft_free(e->values);
}

static weft_status check_options(const weft_model *model, const weft_embed_options *o)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (info->encoder && info->n_labels > 0)
        return weft_fail(WEFT_UNSUPPORTED, "embed: the model is a classifier with %lld labels",
                         (long long)info->n_labels);
    if (o->batch.tokens < 0)
        return weft_fail(WEFT_INVALID, "embed: batch.tokens: expected a number of at least 0");
    if (o->pooling < WEFT_POOLING_MEAN || o->pooling > WEFT_POOLING_MAX)
        return weft_fail(WEFT_INVALID, "embed: pooling: expected 0 to 3, got %d", (int)o->pooling);
    return WEFT_OK;
}

weft_status weft_embed(weft_model *model, const weft_prompt *prompts, size_t n,
                       const weft_embed_options *options, weft_embedded *results)
{
    static const weft_embed_options defaults = {0};
    embedding e = {.model = model,
                   .prompts = prompts,
                   .options = options ? options : &defaults,
                   .results = results};
    for (size_t i = 0; i < n; i++)
        results[i] = (weft_embedded){0};
    bool *failed = weft_calloc(n + 1, sizeof *failed);
    size_t *order = NULL, left = 0;
    weft_status status = check_options(model, e.options);
    if (status == WEFT_OK && failed == NULL)
        status = weft_fail(WEFT_MEMORY, "embed: out of memory for %zu prompts", n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const weft_status own = weft__rows_check(model, "embed", &prompts[i]);
        failed[i] = own != WEFT_OK;
        if (failed[i])
            embedded_fail(&results[i], own);
    }
    if (status == WEFT_OK)
        status = weft__rows_order(prompts, failed, n, &order, &left);
    for (size_t at = 0; status == WEFT_OK && at < left; at += e.G) {
        e.order = order + at;
        e.G = weft__rows_together(model, prompts, e.order, left - at, &e.options->batch);
        embed_group(&e);
    }
    weft_free(order);
    weft_free(failed);
    return status;
}

void weft_embedded_free(weft_embedded *results, size_t n)
{
    for (size_t i = 0; results && i < n; i++) {
        weft_free(results[i].message);
        weft_free(results[i].values);
        results[i] = (weft_embedded){0};
    }
}
