/* generate/rows.c -- passes prompts of different lengths through the model together. */
#include "generate/rows.h"

#include <stdlib.h>

#include "core/failure.h"

enum {
    TOKENS = 2048,     /* tokens of one forward pass */
    PADDING = 128,     /* this much padding is always acceptable to save a forward pass */
    LOGITS = 64 << 20, /* elements of logits at a time */
    LEAST_LOGITS_ROWS = 8
};

weft_status weft__rows_check(weft_model *model, const char *where, const weft_prompt *prompt)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (prompt->n == 0)
        return weft_fail(WEFT_INVALID, "%s: the prompt has no tokens", where);
    if (info->max_positions > 0 && prompt->n > (size_t)info->max_positions)
        return weft_fail(WEFT_INVALID, "%s: the prompt has %zu tokens, the model %lld positions",
                         where, prompt->n, (long long)info->max_positions);
    for (size_t i = 0; i < prompt->n; i++) {
        if (prompt->ids[i] < 0 || prompt->ids[i] >= info->vocab_size)
            return weft_fail(WEFT_INVALID,
                             "%s: prompt id %zu: expected one of the vocabulary's %lld, got %d",
                             where, i, (long long)info->vocab_size, (int)prompt->ids[i]);
    }
    return WEFT_OK;
}

weft_status weft__rows_expect_logits(const weft_model *model, const char *where, bool labels)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (info->n_labels > 0 && !labels)
        return weft_fail(WEFT_UNSUPPORTED, "%s: the model is a classifier of %lld labels", where,
                         (long long)info->n_labels);
    return !info->encoder || info->n_labels > 0
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED,
                           "%s: %s models are encoders, which predict no tokens (weft embed gives "
                           "their embeddings)",
                           where, weft_model_family_of(model)->model_type);
}

/* ---- The order ------------------------------------------------------------------------------ */

typedef struct entry {
    size_t length, index;
} entry;

static int longest_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

weft_status weft__rows_order(const weft_prompt *prompts, const bool *taken, size_t n, size_t **out,
                             size_t *n_out)
{
    entry *entries = weft_malloc((n + 1) * sizeof *entries);
    *out = weft_malloc((n + 1) * sizeof **out);
    *n_out = 0;
    if (entries == NULL || *out == NULL) {
        weft_free(entries);
        weft_free(*out);
        *out = NULL;
        return weft_fail(WEFT_MEMORY, "out of memory for %zu prompts", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (taken == NULL || !taken[i])
            entries[(*n_out)++] = (entry){prompts[i].n, i};
    }
    qsort(entries, *n_out, sizeof *entries, longest_first);
    for (size_t i = 0; i < *n_out; i++)
        (*out)[i] = entries[i].index;
    weft_free(entries);
    return WEFT_OK;
}

size_t weft__rows_of_logits(weft_model *model)
{
    const int64_t rows = LOGITS / weft_model_info_of(model)->vocab_size;
    return rows > LEAST_LOGITS_ROWS ? (size_t)rows : LEAST_LOGITS_ROWS;
}

int64_t weft__rows_budget(const weft_batch_options *options)
{
    return options->tokens > 0 ? options->tokens : TOKENS;
}

size_t weft__rows_together(weft_model *model, const weft_prompt *prompts, const size_t *order,
                           size_t n, const weft_batch_options *options)
{
    const size_t longest = prompts[order[0]].n, most = (size_t)weft__rows_budget(options) / longest;
    /* If the rotation depends on the length, padding would change it. */
    const weft_model_info *info = weft_model_info_of(model);
    const bool equal = !info->takes_offset && !info->encoder,
               longer = longest > (size_t)info->renews_at;
    size_t G = 1, padding = 0;
    if (options->invariant)
        return 1;
    while (G < n && G < most && G < weft__rows_of_logits(model)) {
        padding += longest - prompts[order[G]].n;
        if ((equal && padding > 0) || (longer && prompts[order[G]].n <= (size_t)info->renews_at) ||
            (padding > PADDING && 4 * padding > longest * (G + 1)))
            break;
        G++;
    }
    return G;
}

/* ---- The pass ------------------------------------------------------------------------------- */

weft_array *weft__rows_tokens(const weft_prompt *prompts, const size_t *order, size_t G,
                              int64_t from, int64_t to)
{
    const size_t W = (size_t)(to - from);
    int32_t *ids = weft_calloc(G * W + 1, sizeof *ids);
    if (ids == NULL)
        return weft__memory_error("rows", "tokens");
    for (size_t g = 0; g < G; g++) {
        const weft_prompt *prompt = &prompts[order[g]];
        for (size_t w = 0; w < W && (size_t)from + w < prompt->n; w++)
            ids[g * W + w] = prompt->ids[(size_t)from + w];
    }
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS((int64_t)G, (int64_t)W));
    weft_free(ids);
    return tokens;
}

/* The number of tokens of each prompt: int32 (G). */
static weft_array *lengths_of(const weft_prompt *prompts, const size_t *order, size_t G)
{
    int32_t *lengths = weft_malloc((G + 1) * sizeof *lengths);
    if (lengths == NULL)
        return weft__memory_error("rows", "lengths");
    for (size_t g = 0; g < G; g++)
        lengths[g] = (int32_t)prompts[order[g]].n;
    weft_array *a = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS((int64_t)G));
    weft_free(lengths);
    return a;
}

weft_status weft__rows_pass(weft_model *model, const weft_prompt *prompts, const size_t *order,
                            size_t G, const weft_batch_options *options, weft_cache **given,
                            weft__rows_fn *take, void *context)
{
    const int64_t longest = (int64_t)prompts[order[0]].n, most = weft__rows_budget(options);
    const bool encoder = weft_model_info_of(model)->encoder, pieces = longest > most && !encoder;
    const weft_cache_options o = {.kv_bits = 32, .batch = (int64_t)G}; /* exact */
    weft_cache **own = pieces && given == NULL ? weft_model_new_caches(model, &o) : NULL;
    weft_cache **caches = given ? given : own;
    weft_status status = WEFT_OK;
    if (pieces && caches == NULL)
        return weft_error_status();
    for (int64_t from = 0; status == WEFT_OK && from < longest; from += pieces ? most : longest) {
        const int64_t to = pieces && longest - from > most ? from + most : longest;
        weft_scope_open_lean();
        weft_array *tokens = weft__rows_tokens(prompts, order, G, from, to);
        const weft_model_call call = {.caches = caches,
                                      .lengths = encoder ? lengths_of(prompts, order, G) : NULL,
                                      .length = given ? 0 : longest};
        weft_array *hidden = weft_model_hidden(model, tokens, &call);
        status = weft_eval(hidden);
        if (status == WEFT_OK)
            status = take(context, hidden, from);
        weft_scope_close(NULL);
    }
    weft_model_free_caches(model, own);
    return status;
}

weft_array *weft__rows_pick(weft_array *hidden, const int32_t *places, size_t n)
{
    weft_array *rows = weft_flatten(hidden, 0, 1); /* (G W, E) */
    weft_array *index = weft_from_data(places, WEFT_INT32, WEFT_DIMS((int64_t)n));
    return weft_take(rows, weft_to(index, weft_device_of(hidden)), 0);
}

weft_array *weft__rows_last_logits(weft_model *model, const weft_prompt *prompts,
                                   const size_t *order, size_t G, weft_array *hidden, int64_t from)
{
    const int64_t W = weft_dim(hidden, 1);
    int32_t *places = weft_malloc((G + 1) * sizeof *places);
    if (places == NULL)
        return weft__memory_error("rows", "prompts");
    for (size_t g = 0; g < G; g++)
        places[g] = (int32_t)((int64_t)g * W + (int64_t)prompts[order[g]].n - 1 - from);
    weft_array *logits = weft_model_head(model, weft__rows_pick(hidden, places, G));
    weft_free(places);
    return logits;
}
