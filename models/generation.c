/* models/generation.c -- reads a checkpoint's generation settings: stop ids, suppressed ids, and
 * sampler options. */
#include "models/generation.h"

#include <math.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/list.h"
#include "models/config.h"
#include "weft/generate.h"
#include "weft/tokenizer.h"

/* ---- reading -------------------------------------------------------------------------------- */

enum { MOST_IDS = 10000 }; /* limited, since each is compared with all previous ones */

/* Adds an id unless it is already in the list. False: out of memory. */
static bool append(weft__ids *ids, int32_t id)
{
    for (int i = 0; i < ids->n; i++) {
        if (ids->at[i] == id)
            return true;
    }
    if (!weft__list_more(ids->at, ids->n))
        return false;
    ids->at[ids->n++] = id;
    return true;
}

static weft_status add_id(weft__ids *ids, const weft__json *at)
{
    int64_t id;
    const weft_status status = weft__json_as_int(at, &id);
    if (status != WEFT_OK)
        return status;
    if (id < 0 || id > INT32_MAX)
        return weft__json_fail(at, WEFT_INVALID, "expected a token id, got %lld", (long long)id);
    return append(ids, (int32_t)id) ? WEFT_OK : weft__json_fail(at, WEFT_MEMORY, "out of memory");
}

/* Adds an id or a list of ids; absent is valid. */
static weft_status add_ids(weft__ids *ids, weft__json at)
{
    if (at.value == NULL)
        return WEFT_OK;
    if (!json_object_is_type(at.value, json_type_array))
        return add_id(ids, &at);
    size_t n;
    weft__json element;
    weft_status status = weft__json_length(&at, &n);
    if (status == WEFT_OK && n > MOST_IDS)
        status =
            weft__json_fail(&at, WEFT_INVALID, "expected at most %d ids, got %zu", MOST_IDS, n);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        status = weft__json_at(&at, i, &element);
        if (status == WEFT_OK)
            status = add_id(ids, &element);
    }
    return status;
}

static weft_status load_from_folder(weft__generation_config *g, const char *folder)
{
    char *path = weft_format("%s/generation_config.json", folder);
    if (path == NULL)
        return weft__out_of_memory(folder, NULL);
    const weft_status status =
        access(path, F_OK) == 0 ? weft_config_load(path, &g->config) : WEFT_OK;
    weft_free(path);
    return status;
}

/* Uses the tokenizer's token if no configuration names one. An unreadable tokenizer is reported
 * when it is needed. */
static weft_status add_tokenizers(weft__ids *ids, const char *folder)
{
    weft_tokenizer *tokenizer;
    char *path = weft_format("%s/tokenizer.json", folder);
    const bool there = path != NULL && access(path, F_OK) == 0;
    const weft_status status = path != NULL ? WEFT_OK : weft__out_of_memory(folder, NULL);
    weft_free(path);
    if (!there || weft_tokenizer_load(folder, &tokenizer) != WEFT_OK)
        return status;
    const int32_t id = weft_tokenizer_eos(tokenizer);
    weft_tokenizer_free(tokenizer);
    return id < 0 || append(ids, id) ? WEFT_OK : weft__out_of_memory(folder, NULL);
}

/* Drops ids outside of a reduced vocabulary. */
static void drop_from(weft__ids *ids, int64_t V)
{
    int n = 0;
    for (int i = 0; i < ids->n; i++) {
        if (ids->at[i] < V)
            ids->at[n++] = ids->at[i];
    }
    ids->n = n;
}

/* Checks the sampler options in generation_config.json, since the sampler's own errors do not name
 * the file. */
static weft_status check_sampler(const weft_config *config)
{
    typedef struct values {
        bool do_sample;
        int64_t top_k;
        double temperature, top_p, min_p, xtc_probability, xtc_threshold, repetition_penalty;
    } values;
    static const weft_config_field fields[] = {
        WEFT_CONFIG_OPTIONAL(BOOL, values, do_sample, false),
        WEFT_CONFIG_OPTIONAL(INT, values, top_k, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, temperature, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, top_p, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, min_p, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, xtc_probability, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, xtc_threshold, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, repetition_penalty, 0),
    };
    values v;
    const weft_status status = weft_config_read(config, fields, sizeof fields / sizeof *fields, &v);
    const struct {
        const char *key;
        double value, most;
    } ranges[] = {
        {"top_k", (double)v.top_k, INFINITY},
        {"temperature", v.temperature, INFINITY},
        {"top_p", v.top_p, 1},
        {"min_p", v.min_p, 1},
        {"xtc_probability", v.xtc_probability, 1},
        {"xtc_threshold", v.xtc_threshold, 1},
        {"repetition_penalty", v.repetition_penalty, INFINITY},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && status == WEFT_OK; i++) {
        if (ranges[i].value >= 0 && ranges[i].value <= ranges[i].most)
            continue;
        const char *where = weft_config_where(config), *key = ranges[i].key;
        return isinf(ranges[i].most)
                   ? weft_fail(WEFT_INVALID, "%s: %s: expected a number of at least 0, got %g",
                               where, key, ranges[i].value)
                   : weft_fail(WEFT_INVALID, "%s: %s: expected a number from 0 to %g, got %g",
                               where, key, ranges[i].most, ranges[i].value);
    }
    return status;
}

weft_status weft__generation_read(weft__generation_config *g, const weft_config *config,
                                  const char *folder, int64_t V)
{
    weft_status status = add_ids(&g->eos, weft__config_at(config, "eos_token_id"));
    if (status == WEFT_OK)
        status = add_ids(&g->eos, weft__config_at_top(config, "eos_token_id"));
    if (status == WEFT_OK && folder != NULL)
        status = load_from_folder(g, folder);
    if (status == WEFT_OK && g->config != NULL)
        status = check_sampler(g->config);
    if (status == WEFT_OK && g->config != NULL)
        status = add_ids(&g->eos, weft__config_at(g->config, "eos_token_id"));
    if (status == WEFT_OK && g->config != NULL)
        status = add_ids(&g->suppress, weft__config_at(g->config, "suppress_tokens"));
    if (status == WEFT_OK && folder != NULL && g->eos.n == 0)
        status = add_tokenizers(&g->eos, folder);
    drop_from(&g->suppress, V);
    return status;
}

weft_status weft__generation_add_eos(weft__generation_config *g, int32_t id)
{
    return append(&g->eos, id) ? WEFT_OK : weft__out_of_memory("adapter", "its eos token");
}

void weft__generation_free(weft__generation_config *g)
{
    weft_config_free(g->config);
    weft_free(g->eos.at);
    weft_free(g->suppress.at);
}

/* ---- the sampler options --------------------------------------------------------------------- */

/* do_sample selects between drawing and the most probable token; a file with a temperature but
 * without do_sample draws. */
static double temperature(const weft_config *c, double otherwise)
{
    if (weft_config_has(c, "do_sample") && !weft_config_bool(c, "do_sample", true))
        return 0;
    const bool draws = weft_config_has(c, "do_sample");
    return weft_config_double(c, "temperature", draws ? 1 : otherwise);
}

void weft_model_generation_defaults(const weft_model *model, weft_generate_options *options)
{
    const weft__generation_config *g = weft__model_generation(model);
    const weft_config *c = g->config;
    weft_sampler_options *o = &options->sampler;
    if (c == NULL)
        return;
    o->temperature = temperature(c, o->temperature);
    o->top_p = weft_config_double(c, "top_p", o->top_p);
    o->top_k = weft_config_int(c, "top_k", o->top_k);
    o->min_p = weft_config_double(c, "min_p", o->min_p);
    if (weft_config_has(c, "top_p") || weft_config_has(c, "top_k") || weft_config_has(c, "min_p"))
        o->order = WEFT_SAMPLER_TOP_K_FIRST;
    o->xtc_probability = weft_config_double(c, "xtc_probability", o->xtc_probability);
    o->xtc_threshold = weft_config_double(c, "xtc_threshold", o->xtc_threshold);
    o->repetition_penalty = weft_config_double(c, "repetition_penalty", o->repetition_penalty);
    if (g->suppress.n > 0) {
        o->suppress = g->suppress.at;
        o->n_suppress = g->suppress.n;
    }
}
