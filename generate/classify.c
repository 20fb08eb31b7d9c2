/* generate/classify.c -- draws one token for each of many prompts, and computes the probabilities
 * of given tokens. */
#include <string.h>

#include "core/failure.h"
#include "generate/rows.h"
#include "generate/sampler.h"

typedef struct classification {
    weft_model *model;
    const weft_prompt *prompts;
    const weft_classify_options *options;
    weft_classified *results;
    const size_t *order; /* of the prompts processed together */
    size_t G;
} classification;

/* The number of tokens, or of the labels of a classifier. */
static int64_t count_outputs(const weft_model *model)
{
    const weft_model_info *info = weft_model_info_of(model);
    return info->n_labels > 0 ? info->n_labels : info->vocab_size;
}

/* The token that weft_generate would draw first: int32 (1). logits (1, V) */
static weft_array *draw_one(const classification *c, size_t g, weft_array *logits)
{
    const weft_sampler_options *o = &c->options->sampler;
    const weft_prompt *prompt = &c->prompts[c->order[g]];
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(logits));
    weft_array *keys = weft_random_split(weft_random_key(c->options->seed + c->order[g]), 2);
    weft_sampler_inputs in = {.key = weft_squeeze(weft_slice_axis(keys, 0, 1, 2), 0)};
    if (weft__sampler_counts(o))
        in.seen = weft__sampler_seen(prompt->ids, (int64_t)prompt->n, weft_dim(logits, -1));
    weft_array *token = weft_sampler_draw(logits, &in, o);
    weft_set_default_device(before);
    return token;
}

/* Tokens of logits (G, V): int32 (G). */
static weft_array *draw(const classification *c, weft_array *logits)
{
    if (c->options->sampler.temperature == 0 && !weft__sampler_counts(&c->options->sampler))
        return weft_sampler_draw(logits, NULL, &c->options->sampler);
    weft_array **tokens = weft_malloc(c->G * sizeof *tokens);
    if (tokens == NULL)
        return weft__memory_error("classify", NULL);
    for (size_t g = 0; g < c->G; g++) {
        const int64_t at = (int64_t)g;
        tokens[g] = draw_one(c, g, weft_slice_axis(logits, 0, at, at + 1));
    }
    weft_array *all = weft_concatenate(tokens, (int)c->G, 0);
    weft_free(tokens);
    return all;
}

/* Host copies of a group's results. */
typedef struct answers {
    int32_t *tokens;
    float *logprobs, *logits; /* logits (G, V), or NULL */
} answers;

static weft_status read_answers(const classification *c, weft_array *logits, answers *a)
{
    const int64_t G = weft_dim(logits, 0), V = weft_dim(logits, 1);
    weft_array *token = draw(c, logits); /* (G) */
    weft_array *all = weft_log_softmax(logits, -1);
    weft_array *logprob = weft_take_along_axis(all, weft_expand_dims(token, -1), -1);
    weft_status status = weft_eval_n((weft_array *[]){token, logprob, logits}, 3);
    if (status == WEFT_OK)
        status = weft_read(token, WEFT_INT32, a->tokens, G);
    if (status == WEFT_OK)
        status = weft_read(logprob, WEFT_FLOAT32, a->logprobs, G);
    if (status == WEFT_OK && c->options->logits)
        status = weft_read(logits, WEFT_FLOAT32, a->logits, G * V);
    return status;
}

static void classified_fail(weft_classified *r, weft_status status)
{
    weft_free(r->logits);
    *r = (weft_classified){
        .status = status, .message = weft_strdup(weft_error_message()), .token = -1};
}

static weft_status put_answers(const classification *c, const answers *a, size_t V)
{
    for (size_t g = 0; g < c->G; g++) {
        weft_classified *r = &c->results[c->order[g]];
        if (a->tokens[g] < 0) {
            classified_fail(r, weft__sampler_failed("classify", -1));
            continue;
        }
        if (c->options->logits) {
            r->logits = weft_malloc(V * sizeof *r->logits);
            if (r->logits == NULL)
                return weft__out_of_memory("classify", "logits");
            memcpy(r->logits, a->logits + g * V, V * sizeof *r->logits);
        }
        r->token = a->tokens[g];
        r->logprob = (double)a->logprobs[g];
    }
    return WEFT_OK;
}

/* weft__rows_fn: handles the last token of each prompt; for prompts in several chunks it is in the
 * last. */
static weft_status classify_hidden(void *context, weft_array *hidden, int64_t from)
{
    const classification *c = context;
    const int64_t W = weft_dim(hidden, 1);
    const size_t V = (size_t)count_outputs(c->model);
    if (from + W < (int64_t)c->prompts[c->order[0]].n)
        return WEFT_OK;
    answers a = {weft_malloc(c->G * sizeof(int32_t)), weft_malloc(c->G * sizeof(float)),
                 c->options->logits ? weft_malloc(c->G * V * sizeof(float)) : NULL};
    weft_status status = WEFT_OK;
    if (!a.tokens || !a.logprobs || (c->options->logits && !a.logits))
        status = weft__out_of_memory("classify", NULL);
    if (status == WEFT_OK) {
        weft_array *logits =
            weft__rows_last_logits(c->model, c->prompts, c->order, c->G, hidden, from);
        logits = weft_astype(logits, WEFT_FLOAT32);
        weft_device *before = weft_default_device();
        weft_set_default_device(weft_device_of(logits));
        status = read_answers(c, logits, &a);
        weft_set_default_device(before);
    }
    if (status == WEFT_OK)
        status = put_answers(c, &a, V);
    weft_free(a.tokens);
    weft_free(a.logprobs);
    weft_free(a.logits);
    return status;
}

static weft_status check_classify(weft_model *model, const weft_classify_options *o)
{
    const int64_t V = count_outputs(model);
    weft_status status = weft__rows_expect_logits(model, "classify", true);
    if (status != WEFT_OK)
        return status;
    if (o->batch.tokens < 0)
        return weft_fail(WEFT_INVALID, "classify: batch.tokens: expected a number of at least 0");
    weft_scope_open_lean();
    weft_array *x =
        weft_sampler_logits(weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32), NULL, &o->sampler);
    if (!weft_ok(x))
        status = weft__report(x);
    weft_scope_close(NULL);
    return status;
}

weft_status weft_classify(weft_model *model, const weft_prompt *prompts, size_t n,
                          const weft_classify_options *options, weft_classified *results)
{
    static const weft_classify_options defaults = {0};
    classification c = {model, prompts, options ? options : &defaults, results, NULL, 0};
    for (size_t i = 0; i < n; i++)
        results[i] = (weft_classified){.token = -1};
    bool *failed = weft_calloc(n + 1, sizeof *failed);
    size_t *order = NULL, left = 0;
    weft_status status = check_classify(model, c.options);
    if (status == WEFT_OK && failed == NULL)
        status = weft_fail(WEFT_MEMORY, "classify: out of memory for %zu prompts", n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const weft_status own = weft__rows_check(model, "classify", &prompts[i]);
        failed[i] = own != WEFT_OK;
        if (failed[i])
            classified_fail(&results[i], own);
    }
    if (status == WEFT_OK)
        status = weft__rows_order(prompts, failed, n, &order, &left);
    for (size_t at = 0; status == WEFT_OK && at < left; at += c.G) {
        c.order = order + at;
        c.G = weft__rows_together(model, prompts, c.order, left - at, &c.options->batch);
        const weft_status own = weft__rows_pass(model, prompts, c.order, c.G, &c.options->batch,
                                                NULL, classify_hidden, &c);
        for (size_t g = 0; own != WEFT_OK && g < c.G; g++)
            classified_fail(&results[c.order[g]], own);
    }
    weft_free(order);
    weft_free(failed);
    return status;
}

void weft_classified_free(weft_classified *results, size_t n)
{
    for (size_t i = 0; results && i < n; i++) {
        weft_free(results[i].message);
        weft_free(results[i].logits);
        results[i] = (weft_classified){.token = -1};
    }
}
