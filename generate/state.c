/* generate/state.c -- saves an unfinished generation to a file, and resumes it. */
#include "weft/state.h"

#include <string.h>

#include "generate/generator.h"
#include "generate/prompt_cache/files.h"
#include "weft/io.h"
#include "weft/random.h"

static const char kind[] = "generation";

/* The integers and doubles of the file, in order. */
typedef struct counts {
    int64_t prompt_tokens, tokens, enqueued, max_tokens, prefill, top_k;
    int64_t ignore_eos, logprobs, order;
} counts;
enum { COUNTS = sizeof(counts) / sizeof(int64_t), SETTINGS = 8 };

static void settings_of(const weft_sampler_options *o, double out[SETTINGS])
{
    const double all[SETTINGS] = {o->repetition_penalty,
                                  o->presence_penalty,
                                  o->frequency_penalty,
                                  o->temperature,
                                  o->top_p,
                                  o->min_p,
                                  o->xtc_probability,
                                  o->xtc_threshold};
    memcpy(out, all, sizeof all);
}

static void set_settings(weft_sampler_options *o, const double in[SETTINGS])
{
    o->repetition_penalty = in[0];
    o->presence_penalty = in[1];
    o->frequency_penalty = in[2];
    o->temperature = in[3];
    o->top_p = in[4];
    o->min_p = in[5];
    o->xtc_probability = in[6];
    o->xtc_threshold = in[7];
}

/* ---- the model of the file ------------------------------------------------------------------- */

static uint64_t hash_tokenizer(const weft_tokenizer *t)
{
    uint64_t hash = 1;
    const int32_t n = weft_tokenizer_vocab_size(t);
    const int32_t marks[] = {n, weft_tokenizer_bos(t), weft_tokenizer_eos(t),
                             weft_tokenizer_pad(t)};
    hash = weft__hash(hash, marks, sizeof marks);
    for (int32_t i = 0; i < n; i++) {
        const char *token = weft_tokenizer_id_to_token(t, i);
        const int special = weft_tokenizer_is_special(t, i);
        hash = weft__hash(hash, token ? token : "", token ? strlen(token) : 0);
        hash = weft__hash(hash, &special, sizeof special);
    }
    return hash;
}

static int fill_about(const weft_state_about *about, weft_metadata out[3], char texts[2][WEFT__HEX])
{
    int n = 0;
    if (about && about->tokenizer)
        out[n++] = (weft_metadata){"weft.tokenizer",
                                   weft__hash_text(hash_tokenizer(about->tokenizer), texts[0])};
    if (about && about->chat_template) {
        const uint64_t hash = weft__hash(1, about->chat_template, strlen(about->chat_template));
        out[n++] = (weft_metadata){"weft.template", weft__hash_text(hash, texts[1])};
    }
    if (about && about->prompt)
        out[n++] = (weft_metadata){"weft.prompt", about->prompt};
    return n;
}

/* Compares tokenizer and template if both sides have one. */
static weft_status check_about(const weft_safetensors *file, const char *path,
                               const weft_state_about *about)
{
    weft_metadata here[3];
    char texts[2][WEFT__HEX];
    const int n = fill_about(about, here, texts);
    for (int i = 0; i < n; i++) {
        const char *there = weft_safetensors_metadata(file, here[i].key);
        if (there && strcmp(here[i].key, "weft.prompt") != 0 && strcmp(there, here[i].value) != 0)
            return weft_fail(WEFT_INVALID, "%s: written with the %s %s; this is %s", path,
                             strchr(here[i].key, '.') + 1, there, here[i].value);
    }
    return WEFT_OK;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static weft_status check_state(const weft_generator *g)
{
    const weft_finish reason = g->stats.reason;
    const char *with = g->caches == NULL             ? "without caches"
                       : g->options.constraint       ? "with a constraint"
                       : g->speculation              ? "with proposed tokens"
                       : g->options.top_logprobs > 0 ? "with top_logprobs"
                                                     : NULL;
    if (with)
        return weft_fail(WEFT_UNSUPPORTED, "state: a generation %s cannot be saved", with);
    if (reason == WEFT_FINISH_STOP || reason == WEFT_FINISH_ERROR)
        return weft_fail(WEFT_INVALID, "state: the text has ended: %s", weft_finish_name(reason));
    return WEFT_OK;
}

/* Adds tokens that were read but not returned, and those still being computed. */
static void add_pending(weft__saving *s, weft_generator *g)
{
    const int64_t read = g->n_read - g->given;
    weft__saving_add_ids(s, g->ids + g->given, read, "read.", "ids");
    weft__saving_add(s, weft_from_data(g->logprobs + g->given, WEFT_FLOAT32, WEFT_DIMS(read)),
                     "read.", "logprobs");
    if (g->ahead.n > 0)
        weft__saving_add(s, g->ahead.tokens, "ahead.", "ids");
    if (g->ahead.n > 0 && g->ahead.logprobs)
        weft__saving_add(s, g->ahead.logprobs, "ahead.", "logprobs");
}

static void add_sampler(weft__saving *s, const weft_generator *g)
{
    const weft_sampler_options *o = &g->options.sampler;
    double settings[SETTINGS];
    settings_of(o, settings);
    weft__saving_add(s, weft_from_data(settings, WEFT_FLOAT64, WEFT_DIMS(SETTINGS)), "sampler.",
                     "settings");
    weft__saving_add_ids(s, o->bias_ids, o->n_bias, "sampler.", "bias_ids");
    const float none = 0; /* a valid address for an empty list */
    const float *values = o->n_bias > 0 ? o->bias_values : &none;
    weft__saving_add(s, weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(o->n_bias)), "sampler.",
                     "bias_values");
    weft__saving_add_ids(s, o->suppress, o->n_suppress, "sampler.", "suppress");
    weft__saving_add_ids(s, o->xtc_keep, o->n_xtc_keep, "sampler.", "xtc_keep");
    weft__saving_add_ids(s, g->stop + g->n_eos, g->n_stop - g->n_eos, "", "stop");
}

weft_status weft_state_save(weft_generator *g, const char *path, const weft_state_about *about)
{
    weft_status status = check_state(g);
    if (status != WEFT_OK)
        return status;
    const counts c = {.prompt_tokens = g->stats.prompt_tokens,
                      .tokens = g->stats.tokens,
                      .enqueued = g->enqueued,
                      .max_tokens = g->options.max_tokens,
                      .prefill = g->options.prefill,
                      .top_k = g->options.sampler.top_k,
                      .ignore_eos = g->options.ignore_eos,
                      .logprobs = g->options.logprobs,
                      .order = g->options.sampler.order};
    weft_metadata metadata[3];
    char texts[2][WEFT__HEX];
    const int n = fill_about(about, metadata, texts);
    weft__saving s = {0};
    weft_scope_open_lean();
    weft__saving_add_numbers(&s, (const int64_t *)&c, COUNTS, "", "counts");
    weft__saving_add_ids(&s, g->text, g->n_text, "", "ids");
    add_pending(&s, g);
    add_sampler(&s, g);
    weft_array *const slots[] = {g->token, g->logprob, g->seen, g->key};
    static const char *const names[] = {"token", "logprob", "seen", "key"};
    for (int i = 0; i < 4; i++) {
        if (slots[i])
            weft__saving_add(&s, slots[i], "slot.", names[i]);
    }
    weft__saving_add_caches(&s, g->model, g->caches, &g->options.cache, "cache.");
    status = weft__saving_write(&s, path, kind, g->model, metadata, n);
    weft_scope_close(NULL);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* State while loading; the lists are freed with it. */
typedef struct loading {
    weft_model *model;
    const weft_safetensors *file;
    const char *path;
    counts c;
    weft_generate_options o;
    int32_t *ids, *lists[4]; /* bias_ids, suppress, xtc_keep, stop */
    float *bias_values;
    int64_t n_ids;
} loading;

/* Reads n floats of a vector, or fails with WEFT_INVALID. */
static weft_status read_floats(const loading *l, const char *name, weft_dtype dtype, void *out,
                               int64_t n)
{
    const int i = weft_safetensors_find(l->file, name);
    const weft_safetensors_entry *e = i >= 0 ? weft_safetensors_at(l->file, i) : NULL;
    if (e == NULL || e->dtype != dtype || e->shape.n != 1 || e->shape.at[0] != n)
        return weft_fail(WEFT_INVALID, "%s: '%s': expected %lld numbers of %s", l->path,
                         weft_printable(name), (long long)n, weft_dtype_name(dtype));
    return weft_read(weft_safetensors_get_at(l->file, i), dtype, out, n);
}

static weft_status read_lists(loading *l)
{
    static const char *const names[] = {"sampler.bias_ids", "sampler.suppress", "sampler.xtc_keep",
                                        "stop"};
    weft_sampler_options *o = &l->o.sampler;
    int64_t n[4] = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 4 && status == WEFT_OK; i++) {
        status = weft__saved_ids(l->file, l->path, "", names[i], l->model, &l->lists[i], &n[i]);
        if (status == WEFT_OK && n[i] > INT32_MAX)
            status = weft_fail(WEFT_INVALID, "%s: '%s': too many ids", l->path,
                               weft_printable(names[i]));
    }
    if (status != WEFT_OK)
        return status;
    l->bias_values = weft_calloc((size_t)n[0] + 1, sizeof *l->bias_values);
    if (l->bias_values == NULL)
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %lld biases", l->path,
                         (long long)n[0]);
    o->bias_ids = l->lists[0];
    o->bias_values = l->bias_values;
    o->n_bias = (int)n[0];
    o->suppress = l->lists[1];
    o->n_suppress = (int)n[1];
    o->xtc_keep = l->lists[2];
    o->n_xtc_keep = (int)n[2];
    l->o.stop = l->lists[3];
    l->o.n_stop = (int)n[3];
    return read_floats(l, "sampler.bias_values", WEFT_FLOAT32, l->bias_values, n[0]);
}

/* Reads the file's options, and applies those that the caller may choose. */
static weft_status read_options(loading *l, const weft_generate_options *chosen)
{
    double settings[SETTINGS];
    weft_status status =
        weft__saved_numbers(l->file, l->path, "", "counts", (int64_t *)&l->c, COUNTS);
    if (status == WEFT_OK)
        status = read_floats(l, "sampler.settings", WEFT_FLOAT64, settings, SETTINGS);
    if (status != WEFT_OK)
        return status;
    if (l->c.order != WEFT_SAMPLER_TOP_P_FIRST && l->c.order != WEFT_SAMPLER_TOP_K_FIRST)
        return weft_fail(WEFT_INVALID, "%s: 'counts': sampler order: expected 0 or 1, got %lld",
                         l->path, (long long)l->c.order);
    set_settings(&l->o.sampler, settings);
    l->o.sampler.top_k = l->c.top_k;
    l->o.sampler.order = (weft_sampler_order)l->c.order;
    l->o.max_tokens = l->c.max_tokens;
    l->o.prefill = l->c.prefill;
    l->o.ignore_eos = l->c.ignore_eos != 0;
    l->o.logprobs = l->c.logprobs != 0;
    if (chosen) {
        l->o.max_tokens = chosen->max_tokens != 0 ? chosen->max_tokens : l->o.max_tokens;
        l->o.timeout = chosen->timeout;
        l->o.cancel = chosen->cancel;
        l->o.tokens_per_eval = chosen->tokens_per_eval;
        l->o.no_compile = chosen->no_compile;
        l->o.positions = chosen->positions;
    }
    return read_lists(l);
}

static weft_status misfit(const loading *l, const char *what)
{
    return weft_fail(WEFT_INVALID, "%s: %s does not fit the rest", l->path, what);
}

/* Reads a slot's array, which must match `like`; NULL: it must be absent. */
static weft_status read_slot(const loading *l, const char *name, weft_array *like,
                             weft_array **slot)
{
    const int i = weft_safetensors_find(l->file, name);
    if ((i >= 0) != (like != NULL))
        return misfit(l, name);
    if (like == NULL)
        return weft_set(slot, NULL);
    const weft_safetensors_entry *e = weft_safetensors_at(l->file, i);
    const weft_dims shape = weft_shape(like);
    if (e->dtype != weft_dtype_of(like) || e->shape.n != shape.n ||
        memcmp(e->shape.at, shape.at, (size_t)shape.n * sizeof *shape.at) != 0)
        return misfit(l, name);
    return weft_set(slot, weft_to(weft_safetensors_get_at(l->file, i), weft_default_device()));
}

/* Reads n tokens that were still being computed. */
static weft_status read_ahead(const loading *l, weft_generator *g, int64_t n)
{
    int32_t *ids;
    int64_t found;
    weft_status status = weft__saved_ids(l->file, l->path, "ahead.", "ids", l->model, &ids, &found);
    weft_free(ids); /* checked against the vocabulary */
    if (status == WEFT_OK)
        status = read_slot(l, "ahead.ids", weft_zeros(WEFT_DIMS(n), WEFT_INT32), &g->ahead.tokens);
    weft_array *like = g->options.logprobs ? weft_zeros(WEFT_DIMS(n), WEFT_FLOAT32) : NULL;
    if (status == WEFT_OK)
        status = read_slot(l, "ahead.logprobs", like, &g->ahead.logprobs);
    g->ahead.n = status == WEFT_OK ? n : 0;
    return status;
}

/* Reads tokens that were not returned: those already read, and those being computed. */
static weft_status read_pending(const loading *l, weft_generator *g)
{
    int32_t *ids;
    int64_t n, m;
    weft_status status = weft__saved_ids(l->file, l->path, "read.", "ids", l->model, &ids, &n);
    if (status != WEFT_OK)
        return status;
    m = l->c.enqueued - l->c.tokens - n;
    if (m < 0 || (l->c.enqueued == 0 && n > 0)) {
        weft_free(ids);
        return misfit(l, "'counts'");
    }
    const size_t room = (size_t)(n + m + g->options.tokens_per_eval);
    weft_free(g->ids);
    g->ids = weft_realloc(ids, room * sizeof *ids);
    float *logprobs = weft_realloc(g->logprobs, room * sizeof *logprobs);
    g->logprobs = logprobs ? logprobs : g->logprobs;
    if (g->ids == NULL) {
        weft_free(ids);
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %zu tokens", l->path, room);
    }
    if (logprobs == NULL)
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %zu tokens", l->path, room);
    g->n_read = n;
    status = read_floats(l, "read.logprobs", WEFT_FLOAT32, g->logprobs, n);
    return status == WEFT_OK && m > 0 ? read_ahead(l, g, m) : status;
}

static weft_status read_slots(const loading *l, weft_generator *g)
{
    const bool begun = l->c.enqueued > 0;
    weft_array *token = begun ? weft_zeros(WEFT_DIMS(1), WEFT_INT32) : NULL;
    weft_array *logprob =
        begun && g->options.logprobs ? weft_zeros(WEFT_DIMS(1, 1), WEFT_FLOAT32) : NULL;
    weft_status status = read_slot(l, "slot.seen", g->seen, &g->seen);
    if (status == WEFT_OK)
        status = read_slot(l, "slot.key", g->key, &g->key);
    if (status == WEFT_OK)
        status = read_slot(l, "slot.logprob", logprob, &g->logprob);
    if (status == WEFT_OK)
        status = read_slot(l, "slot.token", token, &g->token);
    int32_t id = 0;
    if (status == WEFT_OK && begun)
        status = weft_read(g->token, WEFT_INT32, &id, 1);
    if (status == WEFT_OK && (id < 0 || id >= weft_model_info_of(l->model)->vocab_size))
        status = misfit(l, "'slot.token'");
    return status;
}

static weft_status read_caches(const loading *l, weft_generator *g)
{
    weft_cache **caches;
    const weft_status status =
        weft__saved_caches(l->file, l->path, "cache.", l->model, &g->options.cache, &caches);
    if (status != WEFT_OK)
        return status;
    weft_model_free_caches(g->model, g->caches);
    g->caches = caches;
    const int64_t held = weft_cache_offset(caches[0]);
    const bool begun = l->c.enqueued > 0;
    g->reading = !begun || held != l->c.prompt_tokens + l->c.enqueued - 1;
    if (!g->reading)
        return WEFT_OK;
    g->known = held; /* of a text that was interrupted before its first token or at renews_at */
    g->stats.cached_tokens = begun ? 0 : held;
    const bool again = l->n_ids == weft_model_info_of(l->model)->renews_at + 1;
    return held < l->n_ids && l->c.tokens == l->c.enqueued && (!begun || again)
               ? WEFT_OK
               : misfit(l, "'counts'");
}

static weft_status fill(const loading *l, weft_generator *g)
{
    weft_status status = read_caches(l, g);
    if (status == WEFT_OK)
        status = read_slots(l, g);
    if (status == WEFT_OK)
        status = read_pending(l, g);
    for (int64_t i = l->c.prompt_tokens; i < l->n_ids && status == WEFT_OK; i++)
        status = weft__generator_append(g, l->ids[i]);
    g->enqueued = l->c.enqueued;
    g->stats.tokens = l->c.tokens;
    if (status == WEFT_OK && g->limit < g->enqueued)
        g->limit = g->enqueued;
    if (status != WEFT_OK || g->reading || g->ahead.n > 0)
        return status;
    return weft__go_ahead(g); /* more tokens are requested than when it was saved */
}

static weft_status load(loading *l, const weft_generate_options *options, weft_generator **out)
{
    weft_status status = read_options(l, options);
    if (status == WEFT_OK)
        status = weft__saved_ids(l->file, l->path, "", "ids", l->model, &l->ids, &l->n_ids);
    if (status == WEFT_OK &&
        (l->c.prompt_tokens < 1 || l->c.tokens < 0 || l->c.tokens > l->c.enqueued ||
         l->c.enqueued > INT32_MAX || /* positions are int32 */
         l->c.prompt_tokens > l->n_ids || l->n_ids - l->c.prompt_tokens != l->c.tokens))
        status = misfit(l, "'counts'");
    if (status == WEFT_OK)
        status = weft_generator_new(l->model, l->ids, (size_t)l->c.prompt_tokens, &l->o, out);
    if (status == WEFT_OK)
        status = fill(l, *out);
    if (status == WEFT_OK && options)
        (*out)->options.prompt_cache = options->prompt_cache;
    return status;
}

weft_status weft_state_load(weft_model *model, const char *path, const weft_state_about *about,
                            const weft_generate_options *options, weft_generator **out)
{
    weft_safetensors *file;
    *out = NULL;
    weft_status status = weft__saved_open(path, kind, model, &file);
    if (status != WEFT_OK)
        return status;
    loading l = {.model = model, .file = file, .path = path};
    status = check_about(file, path, about);
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = load(&l, options, out);
    weft_scope_close(NULL);
    if (status != WEFT_OK) {
        weft_generator_free(*out);
        *out = NULL;
    }
    for (int i = 0; i < 4; i++)
        weft_free(l.lists[i]);
    weft_free(l.bias_values);
    weft_free(l.ids);
    weft_safetensors_close(file);
    return status;
}
