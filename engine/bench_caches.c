/* engine/bench_caches.c -- measures what caches save: reusing a prompt cache, restoring it from a
 * file, resuming a saved generation. Generated tokens with and without the cache are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/failure.h"
#include "engine/bench.h"
#include "engine/engine.h"
#include "weft/prompt_cache.h"
#include "weft/state.h"

enum { PATH = 4096 };

/* A generated continuation. */
typedef struct continuation {
    int32_t *ids; /* room for max_tokens */
    int64_t n;
    double first; /* seconds to the first token */
} continuation;

typedef struct caching {
    const weft_bench_options *options;
    weft_bench_report *report;
    int64_t rounds;
    int32_t *ids; /* the prompt */
    size_t n;
    weft_generate_options greedy;
    continuation plain, other;
    double *times[4]; /* one per round */
    char folder[PATH], file[PATH + 16];
} caching;

/* ---- generating ----------------------------------------------------------------------------- */

static weft_status generate_on(weft_generator *g, int64_t most, continuation *out)
{
    weft_status status = WEFT_OK;
    int32_t id = 0;
    while (status == WEFT_OK && id >= 0 && out->n < most) {
        status = weft_generator_next(g, &id, NULL);
        if (status == WEFT_OK && id >= 0)
            out->ids[out->n++] = id;
    }
    out->first = weft_generator_stats(g).first_token_seconds;
    return status;
}

static weft_status generate(const caching *c, weft_model *model, weft_prompt_cache *cache,
                            continuation *out)
{
    weft_generate_options o = c->greedy;
    weft_generator *g = NULL;
    o.prompt_cache = cache;
    out->n = 0;
    weft_status status = weft_generator_new(model, c->ids, c->n, &o, &g);
    if (status == WEFT_OK)
        status = generate_on(g, o.max_tokens, out);
    weft_generator_free(g); /* stores the sequence in the prompt cache */
    if (status == WEFT_OK && weft_cancel_is_set(o.cancel))
        status = weft_fail(WEFT_CANCELLED, "bench: cancelled");
    return status;
}

static bool are_same(const continuation *a, const continuation *b)
{
    return a->n == b->n && memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0;
}

static int64_t bytes_of_file(const caching *c)
{
    struct stat what;
    return stat(c->file, &what) == 0 ? (int64_t)what.st_size : 0;
}

/* ---- prompt_cache --------------------------------------------------------------------------- */

/* Creates a cache that also stores short prompts. */
static weft_status new_cache(weft_model *model, weft_prompt_cache **out)
{
    return weft_prompt_cache_new(model, &(weft_prompt_cache_options){.min_tokens = 1}, out);
}

/* Generates with a cache that contains the prompt, and counts cached tokens. */
static weft_status counted(const caching *c, weft_model *model, weft_prompt_cache *cache,
                           continuation *out)
{
    weft_bench_cache *r = &c->report->prompt_cache;
    const weft_prompt_cache_metrics before = weft_prompt_cache_measure(cache);
    const weft_status status = generate(c, model, cache, out);
    const weft_prompt_cache_metrics after = weft_prompt_cache_measure(cache);
    r->hits += after.hits - before.hits;
    r->misses += after.misses - before.misses;
    r->hit_tokens += after.hit_tokens - before.hit_tokens;
    r->miss_tokens += after.miss_tokens - before.miss_tokens;
    return status;
}

/* Prefills the prompt into a cache entry and removes the entry again. */
static weft_status warm_and_take(const caching *c, weft_model *model, weft_prompt_cache *cache,
                                 int64_t round)
{
    weft_cache **caches = NULL;
    int64_t matched;
    weft_prompt_cache_clear(cache);
    const double start = weft__seconds();
    weft_status status = weft_prompt_cache_warm(cache, c->ids, c->n, NULL, 0);
    const double warm = weft__seconds();
    c->times[0][round] = warm - start;
    if (status == WEFT_OK) {
        c->report->prompt_cache.bytes = weft_prompt_cache_measure(cache).bytes;
        status = weft_prompt_cache_take(cache, c->ids, c->n, NULL, &caches, &matched);
    }
    c->times[1][round] = weft__seconds() - warm;
    if (status == WEFT_OK)
        weft_model_free_caches(model, caches);
    return status;
}

static weft_status bench_prompt_cache(caching *c, weft_model *model)
{
    weft_bench_cache *r = &c->report->prompt_cache;
    weft_prompt_cache *cache = NULL;
    weft_status status = new_cache(model, &cache);
    r->same = true;
    for (int64_t i = 0; i < c->rounds && status == WEFT_OK; i++) {
        weft_prompt_cache_clear(cache);
        status = generate(c, model, cache, &c->plain);
        c->times[2][i] = c->plain.first;
        if (status == WEFT_OK)
            status = warm_and_take(c, model, cache, i);
        if (status == WEFT_OK)
            status = counted(c, model, cache, &c->other);
        c->times[3][i] = c->other.first;
        r->same = r->same && are_same(&c->plain, &c->other);
    }
    weft_prompt_cache_free(cache);
    if (status != WEFT_OK)
        return status;
    r->warm_seconds = weft__bench_median(c->times[0], c->rounds);
    r->restore_seconds = weft__bench_median(c->times[1], c->rounds);
    r->miss_seconds = weft__bench_median(c->times[2], c->rounds);
    r->hit_seconds = weft__bench_median(c->times[3], c->rounds);
    return WEFT_OK;
}

/* ---- kv_restore ------------------------------------------------------------------------------ */

/* Loads the file into a new cache and waits until keys and values are usable; then generates. */
static weft_status restore(caching *c, weft_model *model, int64_t round)
{
    weft_prompt_cache *cache = NULL;
    weft_cache **caches = NULL;
    int64_t matched = 0;
    weft_status status = new_cache(model, &cache);
    const double start = weft__seconds();
    if (status == WEFT_OK)
        status = weft_prompt_cache_load(cache, c->file);
    if (status == WEFT_OK)
        status = weft_prompt_cache_take(cache, c->ids, c->n, NULL, &caches, &matched);
    c->times[1][round] = weft__seconds() - start;
    if (status == WEFT_OK)
        weft_model_free_caches(model, caches);
    c->report->kv_restore.tokens = matched;
    if (status == WEFT_OK)
        status = generate(c, model, cache, &c->other);
    weft_prompt_cache_free(cache);
    return status;
}

static weft_status bench_restore(caching *c, weft_model *model)
{
    weft_bench_file *r = &c->report->kv_restore;
    weft_prompt_cache *cache = NULL;
    weft_status status = new_cache(model, &cache);
    r->same = true;
    for (int64_t i = 0; i < c->rounds && status == WEFT_OK; i++) {
        weft_prompt_cache_clear(cache);
        status = weft_prompt_cache_warm(cache, c->ids, c->n, NULL, 0);
        const double start = weft__seconds();
        if (status == WEFT_OK)
            status = weft_prompt_cache_save(cache, c->file);
        c->times[0][i] = weft__seconds() - start;
        if (status == WEFT_OK)
            status = generate(c, model, cache, &c->plain);
        if (status == WEFT_OK)
            status = restore(c, model, i);
        r->same = r->same && are_same(&c->plain, &c->other);
    }
    weft_prompt_cache_free(cache);
    r->bytes = bytes_of_file(c);
    r->save_seconds = weft__bench_median(c->times[0], c->rounds);
    r->load_seconds = weft__bench_median(c->times[1], c->rounds);
    return status;
}

/* ---- state_bundle --------------------------------------------------------------------------- */

/* Generates half of a sequence, saves the state, loads it, and generates the rest. */
static weft_status through_file(caching *c, weft_model *model, int64_t round)
{
    continuation *out = &c->other;
    const int64_t most = c->greedy.max_tokens;
    const weft_generate_options cancel = {.cancel = c->greedy.cancel};
    weft_generator *g = NULL;
    out->n = 0;
    weft_status status = weft_generator_new(model, c->ids, c->n, &c->greedy, &g);
    if (status == WEFT_OK)
        status = generate_on(g, (most + 1) / 2, out);
    double start = weft__seconds();
    if (status == WEFT_OK)
        status = weft_state_save(g, c->file, NULL);
    c->times[0][round] = weft__seconds() - start;
    weft_generator_free(g);
    g = NULL;
    start = weft__seconds();
    if (status == WEFT_OK)
        status = weft_state_load(model, c->file, NULL, &cancel, &g);
    c->times[1][round] = weft__seconds() - start;
    if (status == WEFT_OK)
        status = generate_on(g, most, out);
    weft_generator_free(g);
    if (status == WEFT_OK && weft_cancel_is_set(c->greedy.cancel))
        status = weft_fail(WEFT_CANCELLED, "bench: cancelled");
    return status;
}

static weft_status bench_bundle(caching *c, weft_model *model)
{
    weft_bench_file *r = &c->report->state_bundle;
    weft_status status = generate(c, model, NULL, &c->plain);
    r->same = true;
    for (int64_t i = 0; i < c->rounds && status == WEFT_OK; i++) {
        status = through_file(c, model, i);
        r->same = r->same && are_same(&c->plain, &c->other);
    }
    r->tokens = (int64_t)c->n + (c->greedy.max_tokens + 1) / 2;
    r->bytes = bytes_of_file(c);
    r->save_seconds = weft__bench_median(c->times[0], c->rounds);
    r->load_seconds = weft__bench_median(c->times[1], c->rounds);
    return status;
}

/* ---- all sections ---------------------------------------------------------------------------- */

typedef weft_status section(caching *c, weft_model *model);

/* Runs a section. A failure is recorded, and other sections still run. */
static weft_status attempt(caching *c, weft_model *model, section *run, bool left_out,
                           bool *attempted, char *error, size_t size)
{
    if (left_out)
        return WEFT_OK;
    *attempted = true;
    const weft_status status = run(c, model);
    unlink(c->file);
    if (status == WEFT_OK || status == WEFT_CANCELLED || status == WEFT_MEMORY)
        return status;
    strncpy(error, weft_error_message(), size - 1);
    return WEFT_OK;
}

static weft_status run_sections(void *context, weft_model *model)
{
    caching *c = context;
    const weft_bench_options *o = c->options;
    weft_bench_report *r = c->report;
    weft_status status =
        attempt(c, model, bench_prompt_cache, o->no_cache, &r->prompt_cache.attempted,
                r->prompt_cache.error, sizeof r->prompt_cache.error);
    if (status == WEFT_OK)
        status = attempt(c, model, bench_restore, o->no_restore, &r->kv_restore.attempted,
                         r->kv_restore.error, sizeof r->kv_restore.error);
    if (status == WEFT_OK)
        status = attempt(c, model, bench_bundle, o->no_bundle, &r->state_bundle.attempted,
                         r->state_bundle.error, sizeof r->state_bundle.error);
    return status;
}

static weft_status in_turn(weft_engine *engine, const weft_cancel *cancel, void *context)
{
    caching *c = context;
    c->greedy.cancel = cancel;
    return weft__native_use(engine->state, run_sections, c);
}

static weft_status get_room(caching *c)
{
    const char *where = getenv("TMPDIR");
    snprintf(c->folder, sizeof c->folder, "%s/weft-bench-XXXXXX",
             where != NULL && *where != '\0' ? where : "/tmp");
    c->plain.ids = weft_malloc((size_t)c->greedy.max_tokens * sizeof *c->plain.ids);
    c->other.ids = weft_malloc((size_t)c->greedy.max_tokens * sizeof *c->other.ids);
    bool there = c->plain.ids != NULL && c->other.ids != NULL;
    for (int i = 0; i < 4; i++) {
        c->times[i] = weft_calloc((size_t)c->rounds, sizeof *c->times[i]);
        there = there && c->times[i] != NULL;
    }
    if (!there)
        return weft__out_of_memory("bench", NULL);
    if (mkdtemp(c->folder) == NULL)
        return weft_fail(WEFT_IO, "%s: cannot create a folder there", c->folder);
    snprintf(c->file, sizeof c->file, "%s/kept", c->folder);
    return WEFT_OK;
}

static void say_unsupported(const weft_bench_options *o, weft_bench_report *r, const char *why)
{
    r->prompt_cache.attempted = !o->no_cache;
    r->kv_restore.attempted = !o->no_restore;
    r->state_bundle.attempted = !o->no_bundle;
    if (!o->no_cache)
        strncpy(r->prompt_cache.error, why, sizeof r->prompt_cache.error - 1);
    if (!o->no_restore)
        strncpy(r->kv_restore.error, why, sizeof r->kv_restore.error - 1);
    if (!o->no_bundle)
        strncpy(r->state_bundle.error, why, sizeof r->state_bundle.error - 1);
}

weft_status weft__bench_caches(weft_engine *engine, const weft_bench_options *o,
                               weft_bench_report *report)
{
    const char *prompt = o->cache_prompt != NULL ? o->cache_prompt : o->prompt;
    caching c = {.options = o,
                 .report = report,
                 .rounds = weft__bench_rounds(o),
                 .greedy = {.max_tokens = o->max_tokens, .ignore_eos = true}};
    if (o->no_cache && o->no_restore && o->no_bundle)
        return WEFT_OK;
    if (engine->backend != &weft__engine_native) {
        say_unsupported(o, report, "unsupported: another program manages its own caches");
        return WEFT_OK;
    }
    weft_status status = weft_engine_encode(engine, prompt, strlen(prompt),
                                            WEFT_TOKENIZER_ADD_SPECIAL, &c.ids, &c.n);
    if (status == WEFT_OK)
        status = get_room(&c);
    if (status == WEFT_OK) {
        status = weft__engine_in_turn(engine, "bench", false, o->cancel, in_turn, &c);
        rmdir(c.folder);
    }
    for (int i = 0; i < 4; i++)
        weft_free(c.times[i]);
    weft_free(c.plain.ids);
    weft_free(c.other.ids);
    weft_free(c.ids);
    return status;
}
