/* models/generate/generator.c -- one sequence: the prompt in chunks, then a token at a time with
 * the next step under way before the last token is read. */
#include <string.h>
#include <time.h>

#include "weft/compile.h"
#include "weft/generate.h"

struct weft_generator {
    weft_model *model;
    weft_generate_options options;
    int32_t *stop; /* ids that end the text: the model's and the caller's */
    int n_stop;
    int32_t *text; /* prompt and tokens; room for all with no_cache, else the prompt's */
    int64_t n_text;
    int64_t limit; /* tokens that may be generated: max_tokens or the positions that are left */
    weft_cache **caches; /* NULL with no_cache */

    /* Kept across steps. `token` and `logprob` (1) are under way and unread. */
    weft_array *token, *logprob;
    weft_array *seen; /* (1, V) float32, how often each token occurred; NULL without a penalty */
    weft_array *key;  /* of the steps to come; NULL when greedy */
    int64_t enqueued; /* tokens that were asked of the device */

    weft_compiled *decode; /* a step of one token; NULL: it is not compiled (yet) */
    weft_array *offset;    /* (1) int32, the position of the token under way; of `decode` */

    double start, first, last; /* seconds */
    weft_generate_stats stats;
};

const char *weft_stop_reason_name(weft_stop_reason reason)
{
    static const char *const names[] = {"none", "eos", "length", "context", "callback"};
    return (size_t)reason < sizeof names / sizeof *names ? names[reason] : "none";
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Making --------------------------------------------------------------------------------- */

static weft_status check_prompt(weft_model *model, const int32_t *prompt, size_t n)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (n == 0)
        return weft_fail(WEFT_INVALID, "generate: the prompt has no tokens");
    if (info->max_positions > 0 && n > (size_t)info->max_positions)
        return weft_fail(WEFT_INVALID,
                         "generate: the prompt has %zu tokens, the model %lld "
                         "positions",
                         n, (long long)info->max_positions);
    for (size_t i = 0; i < n; i++) {
        if (prompt[i] < 0 || prompt[i] >= info->vocab_size)
            return weft_fail(WEFT_INVALID,
                             "generate: prompt id %zu: expected one of the vocabulary's %lld, got "
                             "%d",
                             i, (long long)info->vocab_size, (int)prompt[i]);
    }
    return WEFT_OK;
}

/* The settings of the sampler are checked once, here, on a tiny graph that is never computed. */
static weft_status check_options(const weft_generate_options *o)
{
    if (o->max_tokens < 0 || o->prefill < 0 || o->n_stop < 0)
        return weft_fail(WEFT_INVALID, "generate: max_tokens, prefill and n_stop: expected numbers "
                                       "of at least 0");
    weft_scope_open();
    weft_array *x =
        weft_sampler_logits(weft_zeros(WEFT_DIMS(1, 1), WEFT_FLOAT32), NULL, &o->sampler);
    weft_status status = weft_ok(x) ? WEFT_OK : weft_fail(WEFT_INVALID, "%s", weft_error(x));
    weft_scope_close(NULL);
    return status;
}

static weft_status fill_stop(weft_generator *g)
{
    int n_eos = 0;
    const int32_t *eos = weft_model_eos(g->model, &n_eos);
    if (g->options.ignore_eos)
        n_eos = 0;
    size_t n = (size_t)n_eos + (size_t)g->options.n_stop;
    g->stop = weft_malloc((n + 1) * sizeof *g->stop);
    if (g->stop == NULL)
        return weft_fail(WEFT_MEMORY, "generate: no memory");
    if (n_eos > 0)
        memcpy(g->stop, eos, (size_t)n_eos * sizeof *eos);
    if (g->options.n_stop > 0)
        memcpy(g->stop + n_eos, g->options.stop, (size_t)g->options.n_stop * sizeof *g->stop);
    g->n_stop = (int)n;
    return WEFT_OK;
}

static weft_status fill_text(weft_generator *g, const int32_t *prompt, size_t n)
{
    int64_t positions = weft_model_info_of(g->model)->max_positions;
    int64_t most = g->options.max_tokens;
    /* The last token needs no position: nothing is computed from it. */
    int64_t left = positions > 0 ? positions - (int64_t)n + 1 : most;
    g->limit = most < left ? most : left;
    size_t room = n + (g->options.no_cache ? (size_t)g->limit : 0);
    g->text = weft_malloc(room * sizeof *g->text);
    if (g->text == NULL)
        return weft_fail(WEFT_MEMORY, "generate: no memory");
    memcpy(g->text, prompt, n * sizeof *prompt);
    g->n_text = (int64_t)n;
    g->stats.prompt_tokens = (int64_t)n;
    return WEFT_OK;
}

/* The key of the draws, and the tokens of the prompt counted for the penalty. */
static weft_status fill_state(weft_generator *g)
{
    const weft_sampler_options *o = &g->options.sampler;
    weft_status status = WEFT_OK;
    weft_scope_open();
    if (o->temperature > 0)
        status = weft_set(&g->key, weft_random_key(g->options.seed));
    if (status == WEFT_OK && o->repetition_penalty != 0 && o->repetition_penalty != 1) {
        int64_t V = weft_model_info_of(g->model)->vocab_size, L = g->n_text;
        weft_array *ids = weft_from_data(g->text, WEFT_INT32, WEFT_DIMS(1, L));
        weft_array *none = weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32);
        weft_array *ones = weft_ones(WEFT_DIMS(1, L), WEFT_FLOAT32);
        status = weft_set(&g->seen, weft_scatter_add_along_axis(none, ids, ones, -1));
    }
    weft_scope_close(NULL);
    return status;
}

weft_status weft_generator_new(weft_model *model, const int32_t *prompt, size_t n,
                               const weft_generate_options *options, weft_generator **out)
{
    *out = NULL;
    weft_generate_options o = options != NULL ? *options : (weft_generate_options){0};
    weft_status status = check_prompt(model, prompt, n);
    if (status == WEFT_OK)
        status = check_options(&o);
    if (status != WEFT_OK)
        return status;
    o.max_tokens = o.max_tokens > 0 ? o.max_tokens : 256;
    o.prefill = o.prefill > 0 ? o.prefill : 512;

    weft_generator *g = weft_calloc(1, sizeof *g);
    if (g == NULL)
        return weft_fail(WEFT_MEMORY, "generate: no memory");
    g->model = model;
    g->options = o;
    status = fill_stop(g);
    if (status == WEFT_OK)
        status = fill_text(g, prompt, n);
    if (status == WEFT_OK && !o.no_cache) {
        g->caches = weft_model_new_caches(model);
        if (g->caches == NULL)
            status = weft_fail(WEFT_MEMORY, "generate: no memory for the caches");
    }
    if (status == WEFT_OK)
        status = fill_state(g);
    g->options.stop = NULL; /* copied; the caller's may go */
    if (status != WEFT_OK) {
        weft_generator_free(g);
        return status;
    }
    *out = g;
    return WEFT_OK;
}

void weft_generator_free(weft_generator *g)
{
    if (g == NULL)
        return;
    weft_compiled_free(g->decode);
    weft_drop(g->offset);
    weft_drop(g->token);
    weft_drop(g->logprob);
    weft_drop(g->seen);
    weft_drop(g->key);
    weft_model_free_caches(g->model, g->caches);
    weft_free(g->stop);
    weft_free(g->text);
    weft_free(g);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

enum {
    CACHE_SLOTS = 4,
    WORTH = 8 /* steps that earn back what compiling them takes */
};

/* Starts the computation of `arrays` (n of them, room for what the caches hold behind them) and of
 * the caches, so that no graph grows behind a slot. */
static weft_status start(weft_generator *g, weft_array **arrays, int n)
{
    int64_t caches = g->caches != NULL ? weft_model_info_of(g->model)->n_caches : 0;
    for (int64_t i = 0; i < caches; i++) {
        weft_array **slots[CACHE_SLOTS];
        int held = weft_cache_state(g->caches[i], slots);
        for (int k = 0; k < held; k++) {
            if (*slots[k] != NULL)
                arrays[n++] = *slots[k];
        }
    }
    return weft_eval_async(arrays, n);
}

/* Room for the caches' arrays and `more`. Free with weft_free. */
static weft_array **room(const weft_generator *g, int more)
{
    int64_t caches = weft_model_info_of(g->model)->n_caches;
    weft_array **arrays =
        weft_malloc(((size_t)caches * CACHE_SLOTS + (size_t)more) * sizeof *arrays);
    if (arrays == NULL)
        weft_fail(WEFT_MEMORY, "generate: no memory");
    return arrays;
}

/* All of the prompt but its last chunk goes through the layers; *done tokens of it. */
static weft_status prefill(weft_generator *g, int64_t *done)
{
    weft_array **arrays = room(g, 0);
    if (arrays == NULL)
        return WEFT_MEMORY;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && g->n_text - *done > g->options.prefill) {
        int64_t L = g->options.prefill;
        weft_scope_open();
        weft_array *tokens = weft_from_data(g->text + *done, WEFT_INT32, WEFT_DIMS(1, L));
        weft_array *hidden =
            weft_model_hidden(g->model, tokens, &(weft_model_call){.caches = g->caches});
        /* Only the caches are computed: the last layer's output is not needed. */
        status = weft_ok(hidden) ? start(g, arrays, 0)
                                 : weft_fail(WEFT_INVALID, "%s", weft_error(hidden));
        weft_scope_close(NULL);
        *done += L;
    }
    weft_free(arrays);
    return status;
}

/* The sampler on logits (1, V): fills the slots of the token under way. On the device of the
 * logits, where the key and the counts stay from the first step on. */
static weft_status draw_there(weft_generator *g, weft_array *logits)
{
    weft_device *there = weft_default_device();
    weft_array *key = NULL, *seen = g->seen != NULL ? weft_to(g->seen, there) : NULL;
    weft_status status = WEFT_OK;
    if (g->key != NULL) {
        weft_array *keys = weft_random_split(weft_to(g->key, there), 2);
        key = weft_squeeze(weft_slice_axis(keys, 0, 1, 2), 0);
        status = weft_set(&g->key, weft_squeeze(weft_slice_axis(keys, 0, 0, 1), 0));
    }
    weft_array *token = weft_sampler_draw(logits, seen, key, &g->options.sampler); /* (1) */
    weft_array *column = weft_expand_dims(token, -1);                              /* (1, 1) */
    if (status == WEFT_OK)
        status = weft_set(&g->token, token);
    if (status == WEFT_OK && g->options.logprobs) {
        weft_array *all = weft_log_softmax(weft_astype(logits, WEFT_FLOAT32), -1);
        status = weft_set(&g->logprob, weft_take_along_axis(all, column, -1));
    }
    if (status == WEFT_OK && seen != NULL) {
        weft_array *one = weft_ones(WEFT_DIMS(1, 1), WEFT_FLOAT32);
        status = weft_set(&g->seen, weft_scatter_add_along_axis(seen, column, one, -1));
    }
    return status;
}

static weft_status draw(weft_generator *g, weft_array *logits)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(logits));
    const weft_status status = draw_there(g, logits);
    weft_set_default_device(before);
    return status;
}

/* The graph of one step from tokens (1, L): fills the slots with the token after the last. `offset`
 * as weft_model_call has it. */
static weft_status put_step(weft_generator *g, weft_array *tokens, weft_array *offset)
{
    const weft_model_call call = {.caches = g->caches, .offset = offset};
    weft_array *hidden = weft_model_hidden(g->model, tokens, &call);       /* (1, L, E) */
    weft_array *last = weft_slice_axis(hidden, 1, -1, INT64_MAX);          /* (1, 1, E) */
    weft_array *logits = weft_squeeze(weft_model_head(g->model, last), 1); /* (1, V) */
    return draw(g, logits);
}

/* Enqueues one step from tokens (1, L). */
static weft_status step(weft_generator *g, weft_array *tokens)
{
    weft_array **arrays = room(g, 4);
    if (arrays == NULL)
        return WEFT_MEMORY;
    weft_status status = put_step(g, tokens, NULL);
    int n = 0;
    weft_array *const held[] = {g->token, g->logprob, g->seen, g->key};
    for (int i = 0; i < 4; i++) {
        if (held[i] != NULL)
            arrays[n++] = held[i];
    }
    if (status == WEFT_OK)
        status = start(g, arrays, n);
    weft_free(arrays);
    g->enqueued++;
    return status;
}

/* ---- The compiled step ---------------------------------------------------------------------- */

static bool can_compile(const weft_generator *g)
{
    if (g->options.no_compile || !weft_compile_enabled() || g->limit < WORTH ||
        !weft_model_info_of(g->model)->takes_offset)
        return false;
    for (int64_t i = 0; i < weft_model_info_of(g->model)->n_caches; i++) {
        if (!weft_cache_appends(g->caches[i]))
            return false;
    }
    return true;
}

/* The step after the token under way. A refusal of a slot is the call's failure. */
static void decode(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    weft_generator *g = context;
    (void)in;
    (void)n_in;
    (void)out;
    (void)n_out;
    weft_array *tokens = weft_reshape(g->token, WEFT_DIMS(1, 1));
    if (put_step(g, tokens, g->offset) == WEFT_OK)
        weft_set(&g->offset, weft_add(g->offset, weft_scalar_int(1, WEFT_INT32)));
}

/* The token under way comes behind all that the caches hold. */
static weft_status put_offset(weft_generator *g)
{
    const int32_t at = (int32_t)weft_cache_offset(g->caches[0]);
    return weft_set(&g->offset, weft_to(weft_from_data(&at, WEFT_INT32, WEFT_DIMS(1)),
                                        weft_device_of(g->token)));
}

static weft_status make_decode(weft_generator *g)
{
    weft_status status = put_offset(g);
    const int64_t caches = weft_model_info_of(g->model)->n_caches;
    weft_array ***slots = weft_malloc(((size_t)caches * CACHE_SLOTS + 5) * sizeof *slots);
    if (slots == NULL)
        return weft_fail(WEFT_MEMORY, "generate: no memory");
    weft_array **own[] = {&g->token, &g->logprob, &g->seen, &g->key, &g->offset};
    int n = sizeof own / sizeof *own;
    memcpy(slots, own, sizeof own);
    for (int64_t i = 0; i < caches; i++)
        n += weft_cache_state(g->caches[i], slots + n);
    /* A cache that has grown never has its old shapes again: one combination is kept. */
    const weft_compile_options options = {.name = "decode", .cache = 1, .async = true};
    if (status == WEFT_OK)
        status = weft_compile(decode, g, slots, n, &options, &g->decode);
    weft_free(slots);
    return status;
}

static weft_status step_compiled(weft_generator *g)
{
    const int64_t caches = weft_model_info_of(g->model)->n_caches;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        status = weft_cache_reserve(g->caches[i], 1);
    if (status == WEFT_OK)
        status = weft_compiled_call(g->decode, NULL, 0, NULL, 0);
    for (int64_t i = 0; i < caches && status == WEFT_OK; i++)
        weft_cache_advance(g->caches[i], 1);
    g->enqueued++;
    return status;
}

/* A step from the token under way, compiled from the second on. */
static weft_status step_next(weft_generator *g)
{
    weft_status status = WEFT_OK;
    if (g->decode == NULL && can_compile(g))
        status = make_decode(g);
    if (status != WEFT_OK)
        return status;
    return g->decode ? step_compiled(g) : step(g, weft_expand_dims(g->token, 0));
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* The first step: the prompt. */
static weft_status step_prompt(weft_generator *g)
{
    int64_t done = 0;
    g->start = seconds();
    weft_status status = g->caches != NULL ? prefill(g, &done) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    int64_t L = g->n_text - done;
    return step(g, weft_from_data(g->text + done, WEFT_INT32, WEFT_DIMS(1, L)));
}

/* A further step without a cache: needs the tokens so far. */
static weft_status step_whole(weft_generator *g, int32_t id)
{
    g->text[g->n_text++] = id;
    return step(g, weft_from_data(g->text, WEFT_INT32, WEFT_DIMS(1, g->n_text)));
}

static bool ends(const weft_generator *g, int32_t id)
{
    for (int i = 0; i < g->n_stop; i++) {
        if (g->stop[i] == id)
            return true;
    }
    return false;
}

/* Copies the token under way to the caller. */
static weft_status read_out(weft_array *token, weft_array *logprob, int32_t *id, double *value)
{
    float number = 0;
    weft_status status = weft_read(token, WEFT_INT32, id, 1);
    if (status == WEFT_OK && logprob != NULL)
        status = weft_read(logprob, WEFT_FLOAT32, &number, 1);
    if (value != NULL)
        *value = (double)number;
    return status;
}

/* Reads the token under way; with a cache the step after it is enqueued first. The first token is
 * waited for, so that its time is its own. */
static weft_status read_token(weft_generator *g, int32_t *id, double *logprob)
{
    /* Held, because the next step takes their slots and uses the token. */
    weft_array *token = weft_keep(g->token), *prob = weft_keep(g->logprob);
    weft_status status = WEFT_OK;
    if (g->stats.tokens == 0) {
        status = weft_eval(token);
        g->first = seconds();
    }
    if (status == WEFT_OK && g->caches != NULL && g->enqueued < g->limit)
        status = step_next(g);
    if (status == WEFT_OK)
        status = read_out(token, prob, id, logprob);
    weft_drop(token);
    weft_drop(prob);
    g->last = seconds();
    return status;
}

weft_status weft_generator_next(weft_generator *g, int32_t *id, double *logprob)
{
    *id = -1;
    if (g->stats.reason != WEFT_STOP_NONE)
        return WEFT_OK;
    if (g->stats.tokens == g->limit) {
        bool asked = g->limit == g->options.max_tokens;
        g->stats.reason = asked ? WEFT_STOP_LENGTH : WEFT_STOP_CONTEXT;
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    int32_t token = -1;
    weft_scope_open();
    if (g->enqueued == 0)
        status = step_prompt(g);
    if (status == WEFT_OK)
        status = read_token(g, &token, logprob);
    bool end = status == WEFT_OK && ends(g, token);
    if (status == WEFT_OK && !end && g->caches == NULL && g->enqueued < g->limit)
        status = step_whole(g, token);
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        return status;
    if (end) {
        g->stats.reason = WEFT_STOP_EOS;
        return WEFT_OK;
    }
    g->stats.tokens++;
    *id = token;
    return WEFT_OK;
}

weft_generate_stats weft_generator_stats(const weft_generator *g)
{
    weft_generate_stats stats = g->stats;
    stats.first_token_seconds = g->first > 0 ? g->first - g->start : 0;
    stats.decode_seconds = g->first > 0 ? g->last - g->first : 0;
    if (stats.first_token_seconds > 0)
        stats.prompt_per_second = (double)stats.prompt_tokens / stats.first_token_seconds;
    if (stats.tokens > 1 && stats.decode_seconds > 0)
        stats.decode_per_second = (double)(stats.tokens - 1) / stats.decode_seconds;
    stats.peak_memory = weft_memory_peak();
    stats.compiles = g->decode ? weft_compiled_counts(g->decode).compiles : 0;
    return stats;
}
