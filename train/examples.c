/* train/examples.c -- examples (single samples, pairs, labeled samples) and batches of them. */
#include "train/examples.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "train/columns.h"
#include "train/data/builder.h"

/* ---- adding --------------------------------------------------------------------------------- */

static weft_status check_pair(const weft_dataset *d, const weft_sample *const pair[2])
{
    if (d->info.samples > 0 && d->info.examples != WEFT_EXAMPLES_PAIRS)
        return weft_fail(WEFT_INVALID, "dataset: a pair was added to single samples");
    for (int k = 0; k < 2; k++) {
        if (pair[k]->length > d->limit && d->longer == WEFT_LONG_SPLIT)
            return weft_fail(WEFT_INVALID,
                             "the pair has a sample of %lld tokens, more than the %lld allowed, "
                             "and pairs cannot be split",
                             (long long)pair[k]->length, (long long)d->limit);
    }
    return WEFT_OK;
}

weft_status weft_dataset_add_pair(weft_dataset *dataset, const weft_sample *chosen,
                                  const weft_sample *rejected)
{
    const weft_sample *const pair[] = {chosen, rejected};
    weft_dataset *kept = NULL; /* the two samples after the policy for long samples */
    weft_status status = check_pair(dataset, pair);
    if (status == WEFT_OK)
        status = weft_dataset_new(dataset->limit, &kept);
    if (status != WEFT_OK)
        return status;
    weft_dataset_set_longer(kept, dataset->longer);
    for (int k = 0; status == WEFT_OK && k < 2; k++)
        status = weft_dataset_add_sample(kept, pair[k]);
    if (status == WEFT_OK)
        dataset->info.examples = WEFT_EXAMPLES_PAIRS;
    const bool whole = status == WEFT_OK && kept->info.samples == 2;
    const int64_t group = -1 - dataset->info.samples; /* groups set by the caller are positive */
    for (int64_t k = 0; whole && status == WEFT_OK && k < 2; k++) {
        weft_sample sample = weft_dataset_at(kept, k);
        sample.group = group;
        status = weft__dataset_append(dataset, &sample, kept->samples[k].cut);
    }
    if (status == WEFT_OK) {
        dataset->info.cut += kept->info.cut;
        dataset->info.dropped += !whole && kept->info.empty == 0;
        dataset->info.empty += kept->info.empty > 0;
    }
    weft_dataset_free(kept);
    return status;
}

weft_status weft_dataset_add_labeled(weft_dataset *dataset, const weft_sample *sample,
                                     bool desirable)
{
    weft_dataset_info *info = &dataset->info;
    const int64_t n = info->samples;
    if (n > 0 && info->examples != WEFT_EXAMPLES_LABELED)
        return weft_fail(WEFT_INVALID, "dataset: a labeled sample was added to others");
    if (sample->length > dataset->limit && dataset->longer == WEFT_LONG_SPLIT)
        return weft_fail(WEFT_INVALID,
                         "the sample has %lld tokens, more than the %lld allowed, and labeled "
                         "samples cannot be split",
                         (long long)sample->length, (long long)dataset->limit);
    info->examples = WEFT_EXAMPLES_SINGLE;
    const weft_status status = weft_dataset_add_sample(dataset, sample);
    info->examples = WEFT_EXAMPLES_LABELED;
    if (info->samples > n)
        dataset->samples[n].undesirable = !desirable;
    return status;
}

bool weft_dataset_is_desirable(const weft_dataset *dataset, int64_t i)
{
    return dataset->info.examples == WEFT_EXAMPLES_PAIRS ? i % 2 == 0
                                                         : !dataset->samples[i].undesirable;
}

/* Checks that the only target of a text is its last id, with weight 1. */
static weft_status check_mark(const weft_sample *text)
{
    for (int64_t i = 1; i < text->length; i++) {
        const double weight = text->weights ? (double)text->weights[i] : 1;
        const bool last = i == text->length - 1;
        if (weight != (last ? 1 : 0))
            return weft_fail(WEFT_INVALID,
                             "dataset: a text: id %lld: expected weight %d, got %g: only the last "
                             "id is a target, with weight 1",
                             (long long)i, last, weight);
    }
    return WEFT_OK;
}

static weft_status check_texts(const weft_dataset *d, const weft_sample *texts, int n,
                               const float *score)
{
    const weft_dataset_info *info = &d->info;
    if (info->samples > 0 && info->examples != WEFT_EXAMPLES_TEXTS)
        return weft_fail(WEFT_INVALID, "dataset: texts to be compared were added to others");
    if (info->samples > 0 && n != info->texts)
        return weft_fail(WEFT_INVALID, "dataset: expected %lld texts as before, got %d",
                         (long long)info->texts, n);
    if (n < 2 || n > WEFT__MOST_TEXTS)
        return weft_fail(WEFT_INVALID, "dataset: expected 2 to %d texts in an example, got %d",
                         WEFT__MOST_TEXTS, n);
    if (info->samples > 0 && info->scored != (score != NULL))
        return weft_fail(WEFT_INVALID, "dataset: the example has %s score, those before it have %s",
                         score ? "a" : "no", score ? "none" : "one");
    if (score && !isfinite(*score))
        return weft_fail(WEFT_INVALID, "dataset: score: expected a finite number, got %g",
                         (double)*score);
    weft_status status = WEFT_OK;
    for (int k = 0; status == WEFT_OK && k < n; k++) {
        status = weft__dataset_check_sample(d, &texts[k]);
        if (status == WEFT_OK && (texts[k].length < 2 || texts[k].length > d->limit))
            status = weft_fail(WEFT_INVALID, "dataset: a text: expected 1 to %lld tokens, got %lld",
                               (long long)d->limit - 1, (long long)texts[k].length - 1);
        if (status == WEFT_OK)
            status = check_mark(&texts[k]);
    }
    return status;
}

weft_status weft_dataset_add_texts(weft_dataset *dataset, const weft_sample *texts, int n,
                                   const float *score)
{
    weft_dataset_info *info = &dataset->info;
    weft_status status = check_texts(dataset, texts, n, score);
    if (status != WEFT_OK)
        return status;
    info->examples = WEFT_EXAMPLES_TEXTS;
    info->texts = n;
    info->scored = score != NULL;
    const int64_t group = -1 - info->samples; /* groups set by the caller are positive */
    for (int k = 0; status == WEFT_OK && k < n; k++) {
        weft_sample sample = texts[k];
        sample.group = sample.group ? sample.group : group;
        status = weft__dataset_append(dataset, &sample, false);
        if (status == WEFT_OK && score)
            dataset->samples[info->samples - 1].score = *score;
    }
    return status;
}

/* ---- batches -------------------------------------------------------------------------------- */

int64_t weft__example_samples(const weft_dataset *d)
{
    return d->info.examples == WEFT_EXAMPLES_LABELED
               ? 1
               : weft__rows_per_example(d->info.examples, d->info.texts);
}

int64_t weft__examples_count(const weft_dataset *d)
{
    return d->info.samples / weft__example_samples(d);
}

/* The number of ids before a sample's first target. */
static int64_t prompt_length(const weft_sample *s)
{
    int64_t n = 1;
    while (n < s->length && s->weights[n] == 0)
        n++;
    return n;
}

static bool same_prompt(const weft_sample *a, const weft_sample *b)
{
    const int64_t n = prompt_length(a);
    return n == prompt_length(b) && memcmp(a->ids, b->ids, (size_t)n * sizeof *a->ids) == 0;
}

/* The nearest sample whose prompt differs from that of sample i, among up to BACK before it
 * (wrapping around), else after it; the previous sample if all prompts are equal. */
static int64_t with_another_prompt(const weft_dataset *d, int64_t i)
{
    enum { BACK = 64 };
    const int64_t n = d->info.samples;
    const weft_sample own = weft_dataset_at(d, i);
    for (int64_t k = 1; k < n; k++) {
        const int64_t at = k <= BACK ? (i + n - k) % n : (i + k - BACK) % n;
        const weft_sample other = weft_dataset_at(d, at);
        if (!same_prompt(&own, &other))
            return at;
    }
    return (i + n - 1) % n;
}

/* A sample with the prompt of sample i and the completion of a different prompt, cut to the length
 * limit. Its arrays belong to *builder. */
static weft_status mismatch(const weft_dataset *d, int64_t i, weft__builder *builder,
                            weft_sample *out)
{
    const weft_sample own = weft_dataset_at(d, i),
                      other = weft_dataset_at(d, with_another_prompt(d, i));
    const int64_t prompt = prompt_length(&own), begin = prompt_length(&other);
    builder->n = 0;
    weft_status status = weft__builder_add(builder, own.ids, (size_t)prompt, 0);
    if (status == WEFT_OK)
        status = weft__builder_add(builder, other.ids + begin, (size_t)(other.length - begin), 1);
    for (int64_t k = 0; status == WEFT_OK && k < other.length - begin; k++)
        builder->weights[prompt + k] = other.weights[begin + k];
    *out = (weft_sample){builder->ids, builder->weights,
                         builder->n < d->limit ? builder->n : d->limit, 0};
    return status;
}

/* The number of ids that mismatch() gives for sample i. */
static int64_t mismatch_length(const weft_dataset *d, int64_t i)
{
    const weft_sample own = weft_dataset_at(d, i),
                      other = weft_dataset_at(d, with_another_prompt(d, i));
    const int64_t n = prompt_length(&own) + other.length - prompt_length(&other);
    return n < d->limit ? n : d->limit;
}

int64_t weft__example_cells(const weft_dataset *d, int64_t e)
{
    const int64_t n = weft__example_samples(d);
    int64_t own = 0;
    for (int64_t k = 0; k < n; k++)
        own += d->samples[n * e + k].length - 1;
    return d->info.examples == WEFT_EXAMPLES_LABELED ? own + mismatch_length(d, e) - 1 : own;
}

int64_t weft__example_entry(const weft_dataset *d, int64_t e, int64_t k)
{
    return d->info.examples == WEFT_EXAMPLES_LABELED ? e + k * d->info.samples
                                                     : weft__example_samples(d) * e + k;
}

/* Collects the samples of n examples: first ones, then second ones. */
static weft_status gather(const weft_dataset *d, const int64_t *examples, int64_t n, int64_t rows,
                          weft_sample *samples, weft__builder *builders)
{
    weft_status status = WEFT_OK;
    for (int64_t r = 0; status == WEFT_OK && r < rows; r++) {
        const int64_t e = examples[r % n];
        if (d->info.examples == WEFT_EXAMPLES_LABELED && r >= n)
            status = mismatch(d, e, &builders[r - n], &samples[r]);
        else
            samples[r] = weft_dataset_at(d, weft__example_entry(d, e, r / n));
    }
    return status;
}

/* Fills the columns of objectives. */
static void fill_columns(const weft_dataset *d, const int64_t *examples, int64_t n,
                         weft__host_batch *host)
{
    for (int64_t r = 0; host->reference && r < host->sizes.B; r++)
        host->reference[r] = d->reference[weft__example_entry(d, examples[r % n], r / n)];
    for (int64_t e = 0; host->labels && e < n; e++) {
        const weft__dataset_sample *s = &d->samples[weft__example_entry(d, examples[e], 0)];
        host->labels[e] = d->info.scored ? s->score : (float)!s->undesirable;
    }
    for (int64_t e = 0; host->advantages && e < n; e++)
        host->advantages[e] = (float)d->rewards[examples[e]];
    for (int64_t e = 0; host->ref && e < n; e++) {
        const weft__dataset_sample *s = &d->samples[examples[e]];
        memcpy(host->ref + e * host->sizes.L, d->reference + s->start,
               (size_t)(s->length - 1) * sizeof *host->ref);
    }
    for (int64_t e = 0; host->teacher_tokens && e < n; e++) {
        const weft_sample s = weft_dataset_at(d->taught, examples[e]);
        for (int64_t k = 0; k + 1 < s.length; k++) {
            host->teacher_tokens[e * host->sizes.M + k] = s.ids[k];
            host->teacher_targets[e * host->sizes.M + k] =
                s.weights[k + 1] != 0 ? s.ids[k + 1] : -1;
        }
    }
    const int64_t row = host->sizes.L * WEFT_TEACHER_TOP;
    for (int64_t e = 0; host->top && e < n; e++)
        weft__top_put(d, examples[e], host->top + e * row, host->top_logprobs + e * row);
    for (int64_t e = 0; host->sampled && e < n; e++) {
        const weft__dataset_sample *s = &d->samples[examples[e]];
        memcpy(host->sampled + e * host->sizes.L, d->sampled + s->start + 1,
               (size_t)(s->length - 1) * sizeof *host->sampled);
    }
}

weft_status weft__batch_of_examples(const weft_dataset *dataset, const int64_t *examples,
                                    const int64_t *starts, int n, weft_batch *out)
{
    const weft_examples kind = dataset->info.examples;
    const int64_t count = starts ? starts[n] : n;
    const int64_t rows = count * weft__rows_per_example(kind, dataset->info.texts);
    if (starts && (dataset->top || dataset->taught)) /* added after the batches were made */
        return weft_fail(WEFT_UNSUPPORTED, "batch: packed rows with a %s are unsupported",
                         dataset->top ? "stored teacher" : "teacher that reads others");
    weft__host_batch host = {0};
    int64_t M = 0;
    for (int64_t i = 0; dataset->taught && i < count; i++) {
        const int64_t length = dataset->taught->samples[examples[i]].length - 1;
        M = length > M ? length : M;
    }
    weft_sample *samples = weft_calloc((size_t)rows + 1, sizeof *samples);
    weft__builder *builders = weft_calloc((size_t)count + 1, sizeof *builders);
    weft_status status = samples && builders
                             ? gather(dataset, examples, count, rows, samples, builders)
                             : weft__out_of_memory("batch", "its examples");
    if (status == WEFT_OK)
        status = weft__host_fill(samples, kind, dataset->info.texts, starts, n,
                                 weft__dataset_columns(dataset), M, &host);
    if (status == WEFT_OK)
        fill_columns(dataset, examples, count, &host);
    status = weft__host_finish(&host, status, out);
    for (int64_t i = 0; builders && i < count; i++)
        weft__builder_free(&builders[i]);
    weft_free(builders);
    weft_free(samples);
    return status;
}
