/* train/data/dataset.c -- stores samples of token ids. */
#include "train/data/dataset.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"

enum { DEFAULT_LENGTH = 512 };

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

void weft_dataset_set_longer(weft_dataset *dataset, weft_long_samples policy)
{
    dataset->longer = policy;
}

void weft_dataset_free(weft_dataset *dataset)
{
    if (dataset == NULL)
        return;
    weft_free(dataset->ids);
    weft_free(dataset->weights);
    weft_free(dataset->samples);
    weft_free(dataset->parts);
    weft_free(dataset->reference);
    weft_free(dataset->rewards);
    weft_free(dataset->sampled);
    weft__top_free(dataset->top);
    weft_dataset_free(dataset->taught);
    weft_task_rows_free(&dataset->rows);
    weft_free(dataset);
}

weft_dataset_info weft_dataset_info_of(const weft_dataset *dataset)
{
    return dataset->info;
}

weft_sample weft_dataset_at(const weft_dataset *dataset, int64_t i)
{
    const weft__dataset_sample *s = &dataset->samples[i];
    return (weft_sample){dataset->ids + s->start, dataset->weights + s->start, s->length, s->group};
}

/* ---- adding --------------------------------------------------------------------------------- */

bool weft__dataset_grow(void **list, int64_t n, int64_t more, int64_t *capacity, size_t size)
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

weft_status weft__dataset_check_sample(const weft_dataset *d, const weft_sample *s)
{
    for (int64_t i = 0; i < s->length; i++) {
        if (s->ids[i] < 0)
            return weft_fail(WEFT_INVALID, "dataset: id %lld of a sample is negative: %d",
                             (long long)i, (int)s->ids[i]);
        if (d->vocabulary > 0 && s->ids[i] >= d->vocabulary)
            return weft_fail(WEFT_INVALID,
                             "token %lld has the id %d, and the model's vocabulary has %lld tokens",
                             (long long)i + 1, (int)s->ids[i], (long long)d->vocabulary);
        if (s->weights && !(s->weights[i] >= 0 && isfinite(s->weights[i])))
            return weft_fail(WEFT_INVALID,
                             "dataset: weight %lld of a sample: expected a finite number of at "
                             "least 0, got %g",
                             (long long)i, (double)s->weights[i]);
    }
    return WEFT_OK;
}

/* A classifier's samples have one target, which is a label. */
static weft_status check_label(const weft_dataset *d, int64_t i, int64_t n_labels)
{
    const weft_sample s = weft_dataset_at(d, i);
    const int64_t last = s.length - 1;
    if (weft__sample_targets(&s) == 1 && (s.weights == NULL || s.weights[last] > 0) &&
        s.ids[last] < n_labels)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "dataset: sample %lld: expected one of the %lld labels of the model, a "
                     "classifier, as its only target",
                     (long long)i + 1, (long long)n_labels);
}

weft_status weft__dataset_check_ids(const weft_dataset *d, const weft_model_info *info)
{
    const int64_t vocabulary = info->vocab_size;
    for (int64_t i = 0; i < d->info.samples; i++) {
        const weft__dataset_sample *s = &d->samples[i];
        const weft_status status = info->n_labels > 0 ? check_label(d, i, info->n_labels) : WEFT_OK;
        if (status != WEFT_OK)
            return status;
        for (int64_t k = s->start; k < s->start + s->length; k++) {
            if (d->ids[k] >= vocabulary)
                return weft_fail(WEFT_INVALID,
                                 "dataset: sample %lld: token %lld has the id %d, and the model's "
                                 "vocabulary has %lld tokens",
                                 (long long)i + 1, (long long)(k - s->start) + 1, (int)d->ids[k],
                                 (long long)vocabulary);
        }
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

weft_status weft__dataset_append(weft_dataset *d, const weft_sample *s, bool cut)
{
    const int64_t n = s->length;
    if (d->info.cached)
        return weft_fail(WEFT_INVALID, "dataset: no sample can be added to one from the cache");
    if (d->top || d->taught || d->reference)
        return weft_fail(WEFT_INVALID, "dataset: no sample can be added after its %s",
                         d->reference ? "reference" : "teacher");
    if (!weft__dataset_grow((void **)&d->ids, d->n_ids, n, &d->ids_capacity, sizeof *d->ids) ||
        !weft__dataset_grow((void **)&d->weights, d->n_ids, n, &d->weights_capacity,
                            sizeof *d->weights) ||
        !weft__dataset_grow((void **)&d->samples, d->info.samples, 1, &d->samples_capacity,
                            sizeof *d->samples))
        return weft_fail(WEFT_MEMORY, "dataset: out of memory after %lld samples",
                         (long long)d->info.samples);
    memcpy(d->ids + d->n_ids, s->ids, (size_t)n * sizeof *s->ids);
    float *weights = d->weights + d->n_ids;
    weights[0] = 0;
    for (int64_t i = 1; i < n; i++)
        weights[i] = s->weights ? s->weights[i] : 1;
    d->samples[d->info.samples++] =
        (weft__dataset_sample){.start = d->n_ids, .length = n, .group = s->group, .cut = cut};
    d->n_ids += n;
    d->info.tokens += n;
    d->info.targets += weft__sample_targets(s);
    d->info.truncated += cut;
    if (n > d->info.longest)
        d->info.longest = n;
    return WEFT_OK;
}

/* ids[begin, end) of a sample. */
static weft_sample piece_of(const weft_sample *s, int64_t begin, int64_t end)
{
    return (weft_sample){s->ids + begin, s->weights ? s->weights + begin : NULL, end - begin,
                         s->group};
}

/* Adds a sample as pieces of up to `limit` ids, where the last id of a piece is the first id of the
 * next. Pieces without a target are dropped. */
static weft_status add_pieces(weft_dataset *d, const weft_sample *s)
{
    weft_sample whole = *s;
    if (whole.group == 0)
        whole.group = -1 - d->info.samples; /* groups set by the caller are positive */
    weft_status status = WEFT_OK;
    for (int64_t at = 0; status == WEFT_OK && at + 1 < s->length; at += d->limit - 1) {
        const int64_t end = at + d->limit < s->length ? at + d->limit : s->length;
        const weft_sample piece = piece_of(&whole, at, end);
        if (weft__sample_targets(&piece) > 0)
            status = weft__dataset_append(d, &piece, false);
        else
            d->info.cut += end - at - 1;
    }
    d->info.split++;
    return status;
}

static weft_status add_longer(weft_dataset *d, const weft_sample *s)
{
    const int64_t over = s->length - d->limit;
    weft_sample kept = {.ids = s->ids};
    if (d->longer == WEFT_LONG_REFUSE)
        return weft_fail(WEFT_INVALID, "the sample has %lld tokens, more than the %lld allowed",
                         (long long)s->length, (long long)d->limit);
    if (d->longer == WEFT_LONG_SPLIT)
        return add_pieces(d, s);
    if (d->longer == WEFT_LONG_KEEP_HEAD)
        kept = piece_of(s, 0, d->limit);
    else if (d->longer == WEFT_LONG_KEEP_TAIL)
        kept = piece_of(s, over, s->length);
    if (weft__sample_targets(&kept) == 0) {
        d->info.dropped++;
        d->info.cut += s->length;
        return WEFT_OK;
    }
    d->info.cut += over;
    return weft__dataset_append(d, &kept, true);
}

weft_status weft_dataset_add_sample(weft_dataset *dataset, const weft_sample *sample)
{
    const weft_status status = weft__dataset_check_sample(dataset, sample);
    if (status != WEFT_OK)
        return status;
    if (dataset->info.examples != WEFT_EXAMPLES_SINGLE)
        return weft_fail(WEFT_INVALID, "dataset: a single sample was added to pairs");
    if (weft__sample_targets(sample) == 0) {
        dataset->info.empty++;
        return WEFT_OK;
    }
    return sample->length > dataset->limit ? add_longer(dataset, sample)
                                           : weft__dataset_append(dataset, sample, false);
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
    const int64_t length = dataset->limit, step = stride > 0 ? stride : length - 1;
    for (int64_t start = 0; start + 1 < n; start += step) {
        const int64_t left = n - start;
        const weft_status status =
            weft_dataset_add(dataset, ids + start, left < length ? left : length, 0);
        if (status != WEFT_OK || left <= length)
            return status;
    }
    return WEFT_OK;
}
