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
    weft__builder builder;
    int64_t line;       /* of the current line, from 1 */
    int64_t rewards;    /* room in d->rewards */
    int64_t group_line; /* of the first line of the current group */
} source;

/* Adds the ids of a member to the sample; the number of them is at least 1. */
static weft_status add_ids(source *s, const weft__json *row, const char *name, float weight)
{
    weft__json list, item;
    size_t n = 0;
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
            status = weft__builder_add(&s->builder, &narrow, 1, weight);
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

static bool grow_rewards(source *s)
{
    if (s->d->info.samples < s->rewards)
        return true;
    const int64_t room = s->rewards > 0 ? 2 * s->rewards : 256;
    double *moved = weft_realloc(s->d->rewards, (size_t)room * sizeof *moved);
    if (moved == NULL)
        return false;
    s->d->rewards = moved;
    s->rewards = room;
    return true;
}

/* Checks that a completion has the prompt of its group. */
static weft_status check_prompt(source *s, const weft__json *row, int64_t prompt)
{
    const weft_dataset *d = s->d;
    const int64_t at = d->info.samples, first = at / s->o->num_generations * s->o->num_generations;
    if (at == first) {
        s->group_line = s->line;
        return WEFT_OK;
    }
    const weft__dataset_sample *of = &d->samples[first];
    if (of->prompt == prompt &&
        memcmp(d->ids + of->start, s->builder.ids, (size_t)prompt * sizeof *d->ids) == 0)
        return WEFT_OK;
    return weft__json_fail(row, WEFT_INVALID,
                           "prompt_ids: expected the prompt of line %lld, the first of this group "
                           "of %lld completions",
                           (long long)s->group_line, (long long)s->o->num_generations);
}

static weft_status add_row(source *s, const weft__json *row)
{
    double reward;
    bool truncated = false;
    weft__builder *b = &s->builder;
    b->n = 0;
    weft_status status = add_ids(s, row, "prompt_ids", 0);
    const int64_t prompt = (int64_t)b->n;
    if (status == WEFT_OK)
        status = weft__json_find_bool(row, "truncated", &truncated);
    const bool counts = !(truncated && s->o->mask_truncated);
    if (status == WEFT_OK)
        status = add_ids(s, row, "completion_ids", counts ? 1 : 0);
    const int64_t length = (int64_t)b->n - prompt;
    if (status == WEFT_OK && length > s->o->max_completion_length)
        return weft__json_fail(row, WEFT_INVALID,
                               "completion_ids: expected at most max_completion_length %lld ids, "
                               "got %lld",
                               (long long)s->o->max_completion_length, (long long)length);
    if (status == WEFT_OK)
        status = read_reward(row, &reward);
    if (status == WEFT_OK)
        status = check_prompt(s, row, prompt);
    if (status == WEFT_OK && !grow_rewards(s))
        status = weft__out_of_memory(s->path, "its rewards");
    if (status != WEFT_OK)
        return status;
    const weft_sample sample = {b->ids, b->weights, (int64_t)b->n, 0};
    const int64_t at = s->d->info.samples;
    status = weft__dataset_append(s->d, &sample, truncated);
    if (status == WEFT_OK) {
        s->d->samples[at].prompt = (int32_t)prompt;
        s->d->rewards[at] = reward;
    }
    return status;
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
    source s = {.path = path, .o = &o, .line = 1};
    if (status == WEFT_OK)
        status = weft_dataset_new(INT64_MAX, &s.d);
    if (status == WEFT_OK)
        status = weft_file_read(path, (size_t)1 << 40, &text, &size);
    if (status == WEFT_OK) {
        s.d->info.examples = WEFT_EXAMPLES_SCORED;
        s.d->group = o.num_generations;
        s.d->temperature = o.temperature;
        s.d->info.files[WEFT_DATA_JSONL] = 1;
        status = read_lines(&s, text, size);
    }
    const int64_t n = s.d ? s.d->info.samples : 0;
    if (status == WEFT_OK && (n == 0 || n % o.num_generations != 0))
        status = weft_fail(WEFT_INVALID,
                           "%s: expected groups of %lld completions (num_generations), got %lld "
                           "lines",
                           path, (long long)o.num_generations, (long long)n);
    weft__builder_free(&s.builder);
    weft_free(text);
    if (status == WEFT_OK)
        *out = s.d;
    else
        weft_dataset_free(s.d);
    return status;
}
