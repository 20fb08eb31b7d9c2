/* train/data/completions.c -- reads sampled completions with their rewards from JSON lines. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "train/data/builder.h"
#include "train/data/dataset.h"
#include "train/objective/objective.h"

/* State for reading a file. */
typedef struct source {
    const char *path;
    const weft_objective_options *o;
    weft_dataset *d;
    weft__builder prompt, completion; /* whose weights are the sampler's log-probabilities */
    int64_t line;                     /* of the current line, from 1 */
    int64_t group_line;               /* of the first line of the current group */
} source;

/* ---- adding --------------------------------------------------------------------------------- */

weft_status weft__dataset_of_completions(const weft_objective_options *o, weft_dataset **out)
{
    const weft_status status = weft_dataset_new(INT64_MAX, out);
    if (status != WEFT_OK)
        return status;
    (*out)->info.examples = WEFT_EXAMPLES_SCORED;
    (*out)->group = o->num_generations;
    (*out)->temperature = o->temperature;
    return WEFT_OK;
}

/* Adds the reward and the log-probabilities of a sample that was appended. */
static weft_status add_values(weft_dataset *d, const weft__completion *c)
{
    const int64_t at = d->info.samples - 1, start = d->samples[at].start;
    if (!weft__dataset_grow((void **)&d->rewards, at, 1, &d->rewards_capacity,
                            sizeof *d->rewards) ||
        (c->logprobs && !weft__dataset_grow((void **)&d->sampled, start, c->n_prompt + c->n,
                                            &d->sampled_capacity, sizeof *d->sampled)))
        return weft__out_of_memory("dataset", "rewards");
    d->rewards[at] = c->reward;
    d->samples[at].prompt = (int32_t)c->n_prompt;
    for (int64_t i = 0; c->logprobs && i < c->n_prompt + c->n; i++)
        d->sampled[start + i] = i < c->n_prompt ? 0 : c->logprobs[i - c->n_prompt];
    return WEFT_OK;
}

weft_status weft__dataset_add_completion(weft_dataset *d, const weft_objective_options *o,
                                         const weft__completion *c)
{
    weft__builder b = {0};
    const bool counts = !(c->truncated && o->mask_truncated);
    weft_status status = weft__builder_add(&b, c->prompt, (size_t)c->n_prompt, 0);
    if (status == WEFT_OK)
        status = weft__builder_add(&b, c->ids, (size_t)c->n, counts ? 1 : 0);
    const weft_sample sample = {b.ids, b.weights, b.n, 0};
    if (status == WEFT_OK)
        status = weft__dataset_append(d, &sample, c->truncated);
    weft__builder_free(&b);
    return status == WEFT_OK ? add_values(d, c) : status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the ids of a member; the number of them is at least 1. */
static weft_status read_ids(const weft__json *row, const char *name, weft__builder *out)
{
    weft__json list, item;
    size_t n = 0;
    out->n = 0;
    weft_status status = weft__json_get(row, name, &list);
    if (status == WEFT_OK)
        status = weft__json_length(&list, &n);
    if (status == WEFT_OK && n == 0)
        return weft__json_fail(&list, WEFT_INVALID, "expected at least one id");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        int64_t id = 0;
        status = weft__json_at(&list, i, &item);
        if (status == WEFT_OK)
            status = weft__json_as_int(&item, &id);
        if (status == WEFT_OK && (id < 0 || id > INT32_MAX))
            return weft__json_fail(&item, WEFT_INVALID, "expected a token id, got %lld",
                                   (long long)id);
        const int32_t narrow = (int32_t)id;
        if (status == WEFT_OK)
            status = weft__builder_add(out, &narrow, 1, 0);
    }
    return status;
}

/* Reads the reward, which may be null but not absent. */
static weft_status read_reward(const weft__json *row, double *out)
{
    weft__json reward;
    *out = NAN;
    json_object *ignored;
    if (row->value && json_object_object_get_ex(row->value, "reward", &ignored) && ignored == NULL)
        return WEFT_OK;
    weft_status status = weft__json_get(row, "reward", &reward);
    if (status == WEFT_OK)
        status = weft__json_as_number(&reward, out);
    if (status == WEFT_OK && !(fabs(*out) <= FLT_MAX))
        return weft__json_fail(&reward, WEFT_INVALID, "expected a finite number or null, got %g",
                               *out);
    return status;
}

/* Reads the sampler's log-probabilities, if the file has them, as the weights of the ids. */
static weft_status read_logprobs(const source *s, const weft__json *row, bool *found,
                                 weft__builder *out)
{
    weft__json list, item;
    size_t n = 0;
    weft_status status = weft__json_find(row, "logprobs", &list);
    *found = status == WEFT_OK && list.value != NULL;
    if (status == WEFT_OK && s->d->info.samples > 0 && *found != (s->d->sampled != NULL))
        return weft__json_fail(row, WEFT_INVALID, "logprobs: the lines before this %s them",
                               *found ? "lack" : "have");
    if (!*found)
        return status;
    status = weft__json_length(&list, &n);
    if (status == WEFT_OK && n != (size_t)out->n)
        return weft__json_fail(&list, WEFT_INVALID, "expected %lld numbers, got %zu",
                               (long long)out->n, n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        double value = 0;
        status = weft__json_at(&list, i, &item);
        if (status == WEFT_OK)
            status = weft__json_as_number(&item, &value);
        if (status == WEFT_OK && !(value <= 0 && value >= -(double)FLT_MAX))
            return weft__json_fail(&item, WEFT_INVALID, "expected a log-probability, got %g",
                                   value);
        out->weights[i] = (float)value;
    }
    return status;
}

/* Checks that a completion has the prompt of its group. */
static weft_status check_prompt(source *s, const weft__json *row)
{
    const weft_dataset *d = s->d;
    const int64_t at = d->info.samples, first = at / s->o->num_generations * s->o->num_generations;
    if (at == first) {
        s->group_line = s->line;
        return WEFT_OK;
    }
    const weft__dataset_sample *of = &d->samples[first];
    if (of->prompt == s->prompt.n &&
        memcmp(d->ids + of->start, s->prompt.ids, (size_t)s->prompt.n * sizeof *d->ids) == 0)
        return WEFT_OK;
    return weft__json_fail(row, WEFT_INVALID,
                           "prompt_ids: expected the prompt of line %lld, the first of this group "
                           "of %lld completions",
                           (long long)s->group_line, (long long)s->o->num_generations);
}

static weft_status add_row(source *s, const weft__json *row)
{
    weft__completion c = {.reward = NAN};
    bool has_logprobs = false;
    weft_status status = read_ids(row, "prompt_ids", &s->prompt);
    if (status == WEFT_OK)
        status = weft__json_find_bool(row, "truncated", &c.truncated);
    if (status == WEFT_OK)
        status = read_ids(row, "completion_ids", &s->completion);
    if (status == WEFT_OK && s->completion.n > s->o->max_completion_length)
        return weft__json_fail(row, WEFT_INVALID,
                               "completion_ids: expected at most max_completion_length %lld ids, "
                               "got %lld",
                               (long long)s->o->max_completion_length, (long long)s->completion.n);
    if (status == WEFT_OK)
        status = read_logprobs(s, row, &has_logprobs, &s->completion);
    if (status == WEFT_OK)
        status = read_reward(row, &c.reward);
    if (status == WEFT_OK)
        status = check_prompt(s, row);
    c.prompt = s->prompt.ids;
    c.n_prompt = s->prompt.n;
    c.ids = s->completion.ids;
    c.n = s->completion.n;
    c.logprobs = has_logprobs ? s->completion.weights : NULL;
    return status == WEFT_OK ? weft__dataset_add_completion(s->d, s->o, &c) : status;
}

static weft_status read_lines(source *s, const char *text, size_t size)
{
    const char *at = text, *end = text + size;
    weft_status status = WEFT_OK;
    for (; status == WEFT_OK && at < end; s->line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        weft__json_doc doc = {.root = NULL};
        char *name = weft_format("%s:%lld", s->path, (long long)s->line);
        if (name == NULL)
            return weft__out_of_memory(s->path, NULL);
        if (strspn(at, " \t\r") < (size_t)(stop - at)) {
            status = weft__json_parse(at, (size_t)(stop - at), name, &doc);
            const weft__json row = weft__json_root(&doc);
            if (status == WEFT_OK)
                status = add_row(s, &row);
        }
        weft__json_free(&doc);
        weft_free(name);
        at = newline ? newline + 1 : end;
    }
    return status;
}

weft_status weft__completions_parse(const char *text, size_t size, const char *path,
                                    const weft_objective_options *o, weft_dataset **out)
{
    source s = {.path = path, .o = o, .line = 1};
    *out = NULL;
    weft_status status = weft__dataset_of_completions(o, &s.d);
    if (status == WEFT_OK)
        status = read_lines(&s, text, size);
    const int64_t n = s.d ? s.d->info.samples : 0;
    if (status == WEFT_OK && (n == 0 || n % o->num_generations != 0))
        status = weft_fail(WEFT_INVALID,
                           "%s: expected groups of %lld completions (num_generations), got %lld "
                           "lines",
                           path, (long long)o->num_generations, (long long)n);
    weft__builder_free(&s.prompt);
    weft__builder_free(&s.completion);
    if (status == WEFT_OK)
        *out = s.d;
    else
        weft_dataset_free(s.d);
    return status;
}

weft_status weft_dataset_load_completions(const char *path, const weft_objective *objective,
                                          const weft_objective_options *options, weft_dataset **out)
{
    weft_objective_options o = options ? *options : (weft_objective_options){0};
    char *text = NULL;
    size_t size = 0;
    *out = NULL;
    if (objective->examples != WEFT_EXAMPLES_SCORED)
        return weft_fail(WEFT_INVALID, "objective %s: it does not read completions with rewards",
                         objective->name);
    weft_status status = weft__objective_complete(objective, &o);
    if (status == WEFT_OK)
        status = weft_file_read(path, (size_t)1 << 40, &text, &size);
    if (status == WEFT_OK)
        status = weft__completions_parse(text, size, path, &o, out);
    if (status == WEFT_OK)
        (*out)->info.files[WEFT_DATA_JSONL] = 1;
    weft_free(text);
    return status;
}
