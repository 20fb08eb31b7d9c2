/* train/examples.c -- examples of several samples: preference pairs, their batches and their
 * reference. */
#include "train/examples.h"

#include <math.h>

#include "core/failure.h"
#include "train/objective.h"

enum { DEFAULT_BATCH = 8 };

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
    weft_dataset *kept = NULL; /* of the two, as the policy leaves them */
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
    const int64_t group = -1 - dataset->info.samples; /* a program's own are positive */
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

/* ---- batches -------------------------------------------------------------------------------- */

weft_status weft__examples_rows(const weft_dataset *d, weft__packing *out)
{
    const size_t n = (size_t)d->info.samples, parts = (size_t)d->n_parts;
    *out = (weft__packing){.n_rows = d->info.samples / 2, .n_parts = d->n_parts};
    out->starts = weft_calloc(n / 2 + 1, sizeof *out->starts);
    out->samples = weft_calloc(n + 1, sizeof *out->samples);
    out->parts = parts > 0 ? weft_calloc(parts, sizeof *out->parts) : NULL;
    if (out->starts == NULL || out->samples == NULL || (parts > 0 && out->parts == NULL)) {
        weft__packing_free(out);
        return weft__out_of_memory("batches", "the pairs");
    }
    for (size_t i = 0; i < n; i++)
        out->samples[i] = (int64_t)i;
    for (size_t i = 0; i <= n / 2; i++)
        out->starts[i] = 2 * (int64_t)i;
    for (size_t i = 0; i < parts; i++)
        out->parts[i] = (weft__dataset_part){d->parts[i].first / 2, d->parts[i].weight};
    return WEFT_OK;
}

weft_status weft__batch_of_examples(const weft_dataset *dataset, const int64_t *examples, int n,
                                    weft_batch *out)
{
    const size_t rows = 2 * (size_t)n;
    weft_sample *samples = weft_calloc(rows + 1, sizeof *samples);
    float *reference = weft_calloc(rows + 1, sizeof *reference);
    weft_status status = WEFT_OK;
    if (samples == NULL || reference == NULL)
        status = weft__out_of_memory("batch", "its pairs");
    for (size_t r = 0; status == WEFT_OK && r < rows; r++) {
        const int64_t i = 2 * examples[r % (size_t)n] + (r >= (size_t)n);
        samples[r] = weft_dataset_at(dataset, i);
        reference[r] = dataset->reference ? dataset->reference[i] : 0;
    }
    if (status == WEFT_OK)
        status = weft_batch_of_samples(samples, 2 * n, out);
    if (status == WEFT_OK) {
        out->pairs = n;
        weft_scope_open_lean();
        if (dataset->reference)
            status = weft_set(&out->reference,
                              weft_from_data(reference, WEFT_FLOAT32, WEFT_DIMS(2 * n)));
        weft_scope_close(NULL);
    }
    if (status != WEFT_OK)
        weft_batch_free(out);
    weft_free(samples);
    weft_free(reference);
    return status;
}

/* ---- the reference -------------------------------------------------------------------------- */

static weft_status read_rows(weft_model *model, const weft_sample *samples, int n, float *out)
{
    weft_batch batch;
    weft_status status = weft_batch_of_samples(samples, n, &batch);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    status = weft_read(weft__row_log_probabilities(model, &batch, false), WEFT_FLOAT32, out, n);
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        if (!isfinite(out[i]))
            status = weft_fail(WEFT_INVALID,
                               "reference: a log-probability is %s: the model's weights are "
                               "damaged, or the computation overflows in its dtype (try float32)",
                               isnan(out[i]) ? "NaN" : "infinite");
    }
    return status;
}

static weft_status fill_reference(const weft_dataset *d, weft_model *model, int64_t B, float *out)
{
    weft_sample *row = weft_calloc((size_t)B, sizeof *row);
    weft_status status = row ? WEFT_OK : weft__out_of_memory("reference", NULL);
    for (int64_t i = 0; status == WEFT_OK && i < d->info.samples; i += B) {
        const int n = (int)(d->info.samples - i < B ? d->info.samples - i : B);
        for (int k = 0; k < n; k++)
            row[k] = weft_dataset_at(d, i + k);
        status = read_rows(model, row, n, out + i);
    }
    weft_free(row);
    return status;
}

weft_status weft_dataset_add_reference(weft_dataset *dataset, weft_model *model, int64_t batch_size)
{
    float *column = weft_calloc((size_t)dataset->info.samples + 1, sizeof *column);
    if (column == NULL)
        return weft__out_of_memory("dataset", "its reference");
    weft_module *tree = weft_model_module(model);
    const bool training = tree->training;
    weft_nn_train(tree, false);
    const weft_status status =
        fill_reference(dataset, model, batch_size > 0 ? batch_size : DEFAULT_BATCH, column);
    weft_nn_train(tree, training);
    if (status != WEFT_OK) {
        weft_free(column);
        return status;
    }
    weft_free(dataset->reference);
    dataset->reference = column;
    return WEFT_OK;
}

const float *weft_dataset_reference(const weft_dataset *dataset)
{
    return dataset->reference;
}
