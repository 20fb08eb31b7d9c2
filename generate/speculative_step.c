/* generate/speculative_step.c -- passes several tokens through a model at once, repeatedly: as a
 * compiled step for one token and for the maximum number, otherwise as a graph.
 *
 * Fewer tokens than the maximum are padded: the padding does not affect them, and the caches drop
 * it.
 */
#include "generate/speculative_step.h"

#include "core/failure.h"

/* Evaluates an array and the caches' arrays. */
static weft_status settle(const weft__span *span, weft_array *array)
{
    const int64_t n = span->caches ? weft_model_info_of(span->model)->n_caches : 0;
    weft_array **all = weft_malloc(((size_t)n * WEFT_CACHE_SLOTS + 1) * sizeof *all);
    if (all == NULL)
        return weft__out_of_memory("generate", NULL);
    int held = 0;
    all[held++] = array;
    for (int64_t i = 0; i < n; i++) {
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int m = weft_cache_state(span->caches[i], slots);
        for (int k = 0; k < m; k++) {
            if (*slots[k] != NULL)
                all[held++] = *slots[k];
        }
    }
    const weft_status status = weft_eval_n(all, held);
    weft_free(all);
    return status;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static weft_array *hidden_of(const weft__span *span, const int32_t *ids, int64_t n)
{
    const weft_model_call call = {.caches = span->caches, .length = span->length};
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    return weft_model_hidden(span->model, tokens, &call);
}

weft_status weft__span_read(weft__span *span, const int32_t *ids, int64_t n)
{
    weft_scope_open_lean();
    const weft_status status = settle(span, hidden_of(span, ids, n));
    weft_scope_close(NULL);
    return status;
}

/* (1, L, E) -> (L, V) */
static weft_array *logits_of(const weft__span *span, weft_array *hidden)
{
    return weft_astype(weft_squeeze(weft_model_head(span->model, hidden), 0), WEFT_FLOAT32);
}

/* ---- compiled ------------------------------------------------------------------------------- */

/* in: tokens (1, L), and the position of the first (1). If a slot cannot be set, the call fails. */
static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const weft__span *span = context;
    const weft_model_call call = {.caches = span->caches, .offset = in[1]};
    (void)n_in;
    (void)room;
    out[0] = logits_of(span, weft_model_hidden(span->model, in[0], &call));
    return 1;
}

enum {
    FEW = 8
}; /* up to this many tokens take hardly longer than two, since the weights are read
    * once */

/* The width of the compiled step for n tokens; 0: none, or far too wide. */
static int64_t width_for(const weft__span *span, int64_t n)
{
    const weft_model_info *info = weft_model_info_of(span->model);
    const int64_t width = n == 1 ? 1 : span->most;
    if (!span->compile || span->caches == NULL || !weft_compile_enabled() || !info->takes_offset ||
        n > span->most || (width > FEW && width > 2 * n))
        return 0;
    const int64_t end = weft_cache_offset(span->caches[0]) + width;
    if ((info->max_positions > 0 && end > info->max_positions) ||
        (end > info->renews_at && end - width <= info->renews_at))
        return 0;
    for (int64_t i = 0; i < info->n_caches; i++) {
        if (!weft_cache_appends(span->caches[i]) || weft_cache_offset(span->caches[i]) == 0)
            return 0;
    }
    return width;
}

static weft_status make(weft__span *span)
{
    const int64_t caches = weft_model_info_of(span->model)->n_caches;
    weft_array ***slots = weft_malloc(((size_t)caches * WEFT_CACHE_SLOTS + 1) * sizeof *slots);
    if (slots == NULL)
        return weft__out_of_memory("generate", NULL);
    int n = 0;
    for (int64_t i = 0; i < caches; i++)
        n += weft_cache_state(span->caches[i], slots + n);
    /* One token and the maximum; caches that have grown never have their old shapes again. */
    const weft_compile_options options = {.name = "proposals", .cache = 2};
    const weft_status status = weft_compile(step, span, slots, n, &options, &span->compiled);
    weft_free(slots);
    return status;
}

/* `ids` has `width` tokens. */
static weft_status call(weft__span *span, const int32_t *ids, int64_t width, weft_array **logits)
{
    const int64_t caches = weft_model_info_of(span->model)->n_caches;
    const int32_t at = (int32_t)weft_cache_offset(span->caches[0]);
    weft_array *in[] = {weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, width)),
                        weft_from_data(&at, WEFT_INT32, WEFT_DIMS(1))};
    weft_status status = span->compiled ? WEFT_OK : make(span);
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        status = weft_cache_reserve(span->caches[i], width);
    if (status == WEFT_OK)
        status = weft_compiled_call(span->compiled, in, 2, logits, 1);
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        weft_cache_advance(span->caches[i], width);
    return status;
}

static weft_status call_filled(weft__span *span, const int32_t *ids, int64_t n, int64_t width,
                               weft_array **logits)
{
    int32_t *all = weft_malloc((size_t)width * sizeof *all);
    if (all == NULL)
        return weft__out_of_memory("generate", NULL);
    for (int64_t i = 0; i < width; i++)
        all[i] = ids[i < n ? i : n - 1];
    weft_status status = call(span, all, width, logits);
    weft_free(all);
    return status == WEFT_OK ? weft__span_forget(span, width - n) : status;
}

weft_status weft__span_call(weft__span *span, const int32_t *ids, int64_t n, int64_t last,
                            weft_array **logits)
{
    const int64_t width = width_for(span, n);
    if (width == 0) {
        weft_array *hidden = hidden_of(span, ids, n);
        *logits = logits_of(span, weft_slice_axis(hidden, 1, -last, INT64_MAX));
        return settle(span, *logits);
    }
    const weft_status status = call_filled(span, ids, n, width, logits);
    if (status != WEFT_OK)
        return status;
    *logits = weft_slice_axis(*logits, 0, n - last, n);
    return weft_eval(*logits);
}

weft_status weft__span_forget(weft__span *span, int64_t n)
{
    const int64_t caches = span->caches ? weft_model_info_of(span->model)->n_caches : 0;
    for (int64_t i = 0; n > 0 && i < caches; i++) {
        weft_cache *cache = span->caches[i];
        if (!weft_cache_can_trim(cache, n))
            return weft_fail(WEFT_UNSUPPORTED,
                             "generate: a draft needs caches that can forget their last tokens, "
                             "which one of type %s cannot",
                             cache->type->name);
        const weft_status status = weft_cache_trim(cache, n);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}
