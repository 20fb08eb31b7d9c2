/* train/dataset.c -- samples of token ids, kept one after another. */
#include "train/dataset.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"

enum { DEFAULT_LENGTH = 512 };

typedef struct sample {
    int64_t start, length, group;
    bool cut; /* it was longer */
} sample;

struct weft_dataset {
    int64_t limit; /* most ids of a sample */
    int32_t *ids;
    float *weights; /* of each id; 0 of each sample's first */
    int64_t n_ids, ids_capacity, weights_capacity;
    sample *samples;
    int64_t samples_capacity;
    weft_dataset_info info;
};

weft_status weft_dataset_new(int64_t length, weft_dataset **out)
{
    *out = NULL;
    if (length < 0 || length == 1)
        return weft_fail(WEFT_INVALID, "dataset: length: expected at least 2 tokens, got %lld",
                         (long long)length);
    weft_dataset *d = weft_calloc(1, sizeof *d);
    if (d == NULL)
        return weft__out_of_memory("dataset", NULL);
    d->limit = length > 0 ? length : DEFAULT_LENGTH;
    *out = d;
    return WEFT_OK;
}

void weft_dataset_free(weft_dataset *dataset)
{
    if (dataset == NULL)
        return;
    weft_free(dataset->ids);
    weft_free(dataset->weights);
    weft_free(dataset->samples);
    weft_free(dataset);
}

weft_dataset_info weft_dataset_info_of(const weft_dataset *dataset)
{
    return dataset->info;
}

weft_sample weft_dataset_at(const weft_dataset *dataset, int64_t i)
{
    const sample *s = &dataset->samples[i];
    return (weft_sample){dataset->ids + s->start, dataset->weights + s->start, s->length, s->group};
}

/* ---- adding --------------------------------------------------------------------------------- */

/* Room for `more` elements in a list that doubles. */
static bool grow(void **list, int64_t n, int64_t more, int64_t *capacity, size_t size)
{
    if (more <= *capacity - n)
        return true;
    int64_t larger = *capacity > 0 ? *capacity : 256;
    while (larger - n < more)
        larger *= 2;
    void *moved = weft_realloc(*list, (size_t)larger * size);
    if (moved == NULL)
        return false;
    *list = moved;
    *capacity = larger;
    return true;
}

static weft_status check_sample(const weft_sample *s)
{
    for (int64_t i = 0; i < s->length; i++) {
        if (s->ids[i] < 0)
            return weft_fail(WEFT_INVALID, "dataset: id %lld of a sample is negative: %d",
                             (long long)i, (int)s->ids[i]);
        if (s->weights && !(s->weights[i] >= 0 && isfinite(s->weights[i])))
            return weft_fail(WEFT_INVALID,
                             "dataset: weight %lld of a sample: expected a finite number of at "
                             "least 0, got %g",
                             (long long)i, (double)s->weights[i]);
    }
    return WEFT_OK;
}

int64_t weft__sample_targets(const weft_sample *s)
{
    int64_t n = 0;
    for (int64_t i = 1; i < s->length; i++)
        n += s->weights == NULL || s->weights[i] != 0;
    return n;
}

/* A sample that fits and has a target. */
static weft_status append(weft_dataset *d, const weft_sample *s, bool cut)
{
    const int64_t n = s->length;
    if (!grow((void **)&d->ids, d->n_ids, n, &d->ids_capacity, sizeof *d->ids) ||
        !grow((void **)&d->weights, d->n_ids, n, &d->weights_capacity, sizeof *d->weights) ||
        !grow((void **)&d->samples, d->info.samples, 1, &d->samples_capacity, sizeof *d->samples))
        return weft_fail(WEFT_MEMORY, "dataset: out of memory after %lld samples",
                         (long long)d->info.samples);
    memcpy(d->ids + d->n_ids, s->ids, (size_t)n * sizeof *s->ids);
    float *weights = d->weights + d->n_ids;
    weights[0] = 0;
    for (int64_t i = 1; i < n; i++)
        weights[i] = s->weights ? s->weights[i] : 1;
    d->samples[d->info.samples++] = (sample){d->n_ids, n, s->group, cut};
    d->n_ids += n;
    d->info.tokens += n;
    d->info.targets += weft__sample_targets(s);
    d->info.truncated += cut;
    if (n > d->info.longest)
        d->info.longest = n;
    return WEFT_OK;
}

weft_status weft_dataset_add_sample(weft_dataset *dataset, const weft_sample *sample)
{
    const weft_status status = check_sample(sample);
    if (status != WEFT_OK)
        return status;
    const int64_t over = sample->length > dataset->limit ? sample->length - dataset->limit : 0;
    const weft_sample kept = {sample->ids + over, sample->weights ? sample->weights + over : NULL,
                              sample->length - over, sample->group};
    if (weft__sample_targets(&kept) == 0) {
        dataset->info.empty++;
        return WEFT_OK;
    }
    return append(dataset, &kept, over > 0);
}

weft_status weft_dataset_add(weft_dataset *dataset, const int32_t *ids, int64_t n, int64_t prompt)
{
    weft_sample sample = {.ids = ids, .length = n};
    if (prompt <= 1)
        return weft_dataset_add_sample(dataset, &sample);
    float *weights = weft_calloc((size_t)n + 1, sizeof *weights);
    if (weights == NULL)
        return weft__out_of_memory("dataset", NULL);
    for (int64_t i = prompt; i < n; i++)
        weights[i] = 1;
    sample.weights = weights;
    const weft_status status = weft_dataset_add_sample(dataset, &sample);
    weft_free(weights);
    return status;
}

weft_status weft_dataset_add_windows(weft_dataset *dataset, const int32_t *ids, int64_t n,
                                     int64_t stride)
{
    const int64_t length = dataset->limit, step = stride > 0 ? stride : length;
    for (int64_t start = 0; start + 1 < n; start += step) {
        const int64_t left = n - start;
        const weft_status status =
            weft_dataset_add(dataset, ids + start, left < length ? left : length, 0);
        if (status != WEFT_OK || left <= length)
            return status;
    }
    return WEFT_OK;
}

/* ---- orders and parts ----------------------------------------------------------------------- */

uint64_t weft__mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

void weft__shuffle(int64_t *order, int64_t n, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = (int64_t)(weft__mix(state) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

int64_t *weft__dataset_groups(const weft_dataset *dataset, int64_t *n)
{
    const int64_t samples = dataset->info.samples;
    int64_t *starts = weft_calloc((size_t)samples + 1, sizeof *starts);
    if (starts == NULL) {
        weft_fail(WEFT_MEMORY, "dataset: out of memory to group %lld samples", (long long)samples);
        return NULL;
    }
    *n = 0;
    for (int64_t i = 0; i < samples; i++) {
        const int64_t group = dataset->samples[i].group;
        if (i == 0 || group == 0 || group != dataset->samples[i - 1].group)
            starts[(*n)++] = i;
    }
    starts[*n] = samples;
    return starts;
}

static weft_status copy_sample(weft_dataset *to, const weft_dataset *from, int64_t i)
{
    const weft_sample sample = weft_dataset_at(from, i);
    return append(to, &sample, from->samples[i].cut);
}

/* Fills both parts with the first n_chosen groups of an order that the seed draws, and the rest. */
static weft_status fill_parts(const weft_dataset *all, const int64_t *starts, int64_t n,
                              int64_t n_chosen, uint64_t seed, weft_dataset *rest,
                              weft_dataset *chosen)
{
    int64_t *order = weft_calloc((size_t)n, sizeof *order);
    bool *is_chosen = weft_calloc((size_t)n, sizeof *is_chosen);
    weft_status status = WEFT_OK;
    if (order && is_chosen) {
        weft__shuffle(order, n, &seed);
        for (int64_t i = 0; i < n_chosen; i++)
            is_chosen[order[i]] = true;
        for (int64_t g = 0; g < n; g++) {
            for (int64_t i = starts[g]; status == WEFT_OK && i < starts[g + 1]; i++)
                status = copy_sample(is_chosen[g] ? chosen : rest, all, i);
        }
    } else {
        status = weft_fail(WEFT_MEMORY, "out of memory to split %lld samples",
                           (long long)all->info.samples);
    }
    rest->info.empty = all->info.empty;
    weft_free(order);
    weft_free(is_chosen);
    return status;
}

static weft_status split_groups(const weft_dataset *all, const int64_t *starts, int64_t n,
                                double share, uint64_t seed, weft_dataset **rest,
                                weft_dataset **chosen)
{
    if (n < 2)
        return weft_fail(WEFT_INVALID,
                         "expected samples to learn from and some to validate on, "
                         "got %lld",
                         (long long)n);
    int64_t n_chosen = (int64_t)llround(share * (double)n);
    n_chosen = n_chosen < 1 ? 1 : n_chosen > n - 1 ? n - 1 : n_chosen;
    weft_status status = weft_dataset_new(all->limit, rest);
    if (status == WEFT_OK)
        status = weft_dataset_new(all->limit, chosen);
    return status == WEFT_OK ? fill_parts(all, starts, n, n_chosen, seed, *rest, *chosen) : status;
}

weft_status weft__dataset_split(const weft_dataset *all, double share, uint64_t seed,
                                weft_dataset **rest, weft_dataset **chosen)
{
    int64_t n;
    *rest = *chosen = NULL;
    int64_t *starts = weft__dataset_groups(all, &n);
    if (starts == NULL)
        return WEFT_MEMORY;
    const weft_status status = split_groups(all, starts, n, share, seed, rest, chosen);
    weft_free(starts);
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_dataset_free(*rest);
    weft_dataset_free(*chosen);
    *rest = *chosen = NULL;
    return status;
}
