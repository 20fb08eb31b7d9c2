/* train/reference.c -- reference log-probabilities of a dataset: computes them with the initial
 * weights, saves and loads them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/folder.h"
#include "generate/rows.h"
#include "train/examples.h"
#include "train/objective/objective.h"
#include "train/run/identity.h"

enum { DEFAULT_BATCH = 8, MOST_ROWS = 64, SAVE_SECONDS = 60 };

/* ---- computing ------------------------------------------------------------------------------ */

static weft_status check_value(float value)
{
    return isfinite(value)
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "reference: a log-probability is %s: the model's weights are damaged, "
                           "or the computation overflows in its dtype (try float32)",
                           isnan(value) ? "NaN" : "infinite");
}

/* Computes the entries of the tokens of n completions. */
static weft_status read_tokens(const weft_dataset *d, weft_model *model, const int64_t *examples,
                               int n, float *column)
{
    weft_batch batch = {0};
    weft_status status = weft__batch_of_examples(d, examples, NULL, n, &batch);
    if (status != WEFT_OK)
        return status;
    const int64_t L = weft_dim(batch.tokens, 1);
    float *losses = weft_calloc((size_t)(n * L) + 1, sizeof *losses);
    batch.temperature = d->temperature;
    weft_scope_open_lean();
    status = losses ? weft_read(weft__token_losses(model, &batch, batch.targets, false),
                                WEFT_FLOAT32, losses, n * L)
                    : weft__out_of_memory("dataset", "its reference");
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    for (int r = 0; status == WEFT_OK && r < n; r++) {
        const weft__dataset_sample *s = &d->samples[examples[r]];
        for (int64_t k = 0; status == WEFT_OK && k < s->length - 1; k++) {
            column[s->start + k] = -losses[r * L + k];
            status = check_value(losses[r * L + k]);
        }
    }
    weft_free(losses);
    return status;
}

/* Computes the entries of n examples. */
static weft_status read_entries(const weft_dataset *d, weft_model *model, const int64_t *examples,
                                int n, float *column)
{
    if (d->info.examples == WEFT_EXAMPLES_SCORED)
        return read_tokens(d, model, examples, n, column);
    weft_batch batch = {0};
    float values[2 * MOST_ROWS];
    weft_status status = weft__batch_of_examples(d, examples, NULL, n, &batch);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    status =
        weft_read(weft__row_log_probabilities(model, &batch, false), WEFT_FLOAT32, values, 2 * n);
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    for (int r = 0; status == WEFT_OK && r < 2 * n; r++) {
        column[weft__example_entry(d, examples[r % n], r >= n)] = values[r];
        status = check_value(values[r]);
    }
    return status;
}

/* Makes the column that of the dataset, or frees it after a failure. */
static weft_status take(weft_dataset *d, float *column, weft_status status)
{
    weft_free(status == WEFT_OK ? d->reference : column);
    d->reference = status == WEFT_OK ? column : d->reference;
    return status;
}

/* The number of values in the column. */
static int64_t entries_of(const weft_dataset *d)
{
    return d->info.examples == WEFT_EXAMPLES_SCORED ? d->n_ids : 2 * weft__examples_count(d);
}

const float *weft_dataset_reference(const weft_dataset *dataset)
{
    return dataset->reference;
}

/* ---- saving and loading --------------------------------------------------------------------- */

#define COLUMN "reference"
#define METADATA "weft.samples"
#define KNOWN "weft.examples" /* the first ones, whose entries are there; absent: all */

static weft_status write_column(const weft_dataset *d, const float *column, int64_t known,
                                const char *path)
{
    char hash[WEFT__HASH_TEXT], count[24];
    const char *const names[] = {COLUMN};
    const weft_metadata metadata[] = {{METADATA, hash}, {KNOWN, count}};
    weft__write_hash(hash, weft__dataset_hash(0, d));
    snprintf(count, sizeof count, "%lld", (long long)known);
    weft_scope_open_lean();
    weft_array *const columns[] = {weft_from_data(column, WEFT_FLOAT32, WEFT_DIMS(entries_of(d)))};
    const weft_status status = weft_safetensors_save(path, names, columns, 1, metadata,
                                                     known < weft__examples_count(d) ? 2 : 1);
    weft_scope_close(NULL);
    return status;
}

weft_status weft_dataset_save_reference(const weft_dataset *dataset, const char *path)
{
    return dataset->reference
               ? write_column(dataset, dataset->reference, weft__examples_count(dataset), path)
               : weft_fail(WEFT_INVALID, "%s: the dataset has no reference log-probabilities",
                           path);
}

/* Reads the column of a file, of the first *known examples. */
static weft_status read_column(const weft_dataset *d, const weft_safetensors *file,
                               const char *path, float *out, int64_t *known)
{
    char hash[WEFT__HASH_TEXT];
    const int64_t n = entries_of(d);
    const char *of = weft_safetensors_metadata(file, METADATA),
               *count = weft_safetensors_metadata(file, KNOWN);
    *known = count ? strtoll(count, NULL, 10) : weft__examples_count(d);
    weft__write_hash(hash, weft__dataset_hash(0, d));
    if (of == NULL || strcmp(of, hash) != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: the reference log-probabilities are of other samples (hash %s, "
                         "expected %s)",
                         path, weft_printable(of ? of : "absent"), hash);
    weft_array *column = weft_safetensors_get(file, COLUMN);
    if (!weft_ok(column))
        return weft__report(column);
    if (weft_dtype_of(column) != WEFT_FLOAT32 || weft_ndim(column) != 1 || weft_dim(column, 0) != n)
        return weft_fail(WEFT_INVALID, "%s: " COLUMN ": expected float32 (%lld), got %s of rank %d",
                         path, (long long)n, weft_dtype_name(weft_dtype_of(column)),
                         weft_ndim(column));
    if (*known < 0 || *known > weft__examples_count(d))
        return weft_fail(WEFT_INVALID, "%s: " KNOWN ": expected at most %lld examples, got %s",
                         path, (long long)weft__examples_count(d), weft_printable(count));
    const weft_status status = weft_read(column, WEFT_FLOAT32, out, n);
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        if (!isfinite(out[i]))
            return weft_fail(WEFT_INVALID, "%s: " COLUMN ": value %lld is not finite", path,
                             (long long)i);
    }
    return status;
}

static weft_status load_column(const weft_dataset *d, const char *path, float *out, int64_t *known)
{
    weft_safetensors *file;
    weft_status status = weft__safetensors_read(path, &file);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    status = read_column(d, file, path, out, known);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return status;
}

weft_status weft_dataset_load_reference(weft_dataset *dataset, const char *path)
{
    int64_t known = 0;
    float *column = weft_calloc((size_t)entries_of(dataset) + 1, sizeof *column);
    weft_status status = column ? load_column(dataset, path, column, &known)
                                : weft__out_of_memory("dataset", "its reference");
    if (status == WEFT_OK && known < weft__examples_count(dataset))
        status = weft_fail(WEFT_INVALID,
                           "%s: it has the reference log-probabilities of %lld of %lld examples",
                           path, (long long)known, (long long)weft__examples_count(dataset));
    return take(dataset, column, status);
}

/* ---- all entries ---------------------------------------------------------------------------- */

/* Loads what an earlier call has computed: the entries of so many examples. */
static int64_t load_progress(const weft_dataset *d, const char *path, float *column)
{
    int64_t known = 0;
    if (path == NULL || !weft__exists(path))
        return 0;
    if (load_column(d, path, column, &known) == WEFT_OK)
        return known;
    weft_log_message(WEFT_LOG_WARNING, "%s; they are computed again", weft_error_message());
    memset(column, 0, (size_t)entries_of(d) * sizeof *column);
    return 0;
}

/* Keeps the entries of the first examples. A failure is not that of the computation. */
static void save_progress(const weft_dataset *d, const weft_reference_options *o,
                          const float *column, int64_t known)
{
    if (o->progress != NULL && write_column(d, column, known, o->progress) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "%s", weft_error_message());
}

/* Computes the entries of this rank's examples from a number on; the other entries stay. */
static weft_status fill_reference(const weft_dataset *d, weft_model *model,
                                  const weft_reference_options *o, int64_t from, float *out)
{
    const weft_group_info place = weft_group_info_of(o->group);
    const int64_t all = weft__examples_count(d);
    const int64_t wanted = o->batch_size > 0 ? o->batch_size : DEFAULT_BATCH,
                  B = wanted < MOST_ROWS ? wanted : MOST_ROWS;
    double saved = weft__seconds();
    weft_status status = WEFT_OK;
    for (int64_t i = from + B * place.rank; status == WEFT_OK && i < all; i += B * place.size) {
        int64_t examples[MOST_ROWS];
        int n = 0;
        const bool stop = o->cancel != NULL && weft_cancel_is_set(o->cancel);
        if (stop || weft__seconds() - saved > SAVE_SECONDS) {
            save_progress(d, o, out, i);
            saved = weft__seconds();
        }
        if (stop)
            return weft_fail(WEFT_CANCELLED, "reference: stopped after %lld of %lld examples",
                             (long long)i, (long long)all);
        for (; n < B && i + n < all; n++)
            examples[n] = i + n;
        status = read_entries(d, model, examples, n, out);
    }
    return status;
}

weft_status weft_dataset_add_reference(weft_dataset *dataset, weft_model *model,
                                       const weft_reference_options *options)
{
    weft_reference_options o = options ? *options : (weft_reference_options){0};
    if (dataset->info.examples == WEFT_EXAMPLES_SINGLE)
        return weft_fail(WEFT_INVALID,
                         "reference: expected preference data or completions with rewards, got "
                         "single samples");
    if (weft_group_info_of(o.group).size > 1)
        o.progress = NULL;
    const int64_t n = entries_of(dataset);
    float *column = weft_calloc((size_t)n + 1, sizeof *column);
    weft_status status = column ? weft__rows_expect_logits(model, "reference", false)
                                : weft__out_of_memory("dataset", "its reference");
    weft_module *tree = weft_model_module(model);
    const bool training = tree->training;
    weft_nn_train(tree, false);
    if (status == WEFT_OK)
        status =
            fill_reference(dataset, model, &o, load_progress(dataset, o.progress, column), column);
    weft_nn_train(tree, training);
    status = weft_group_agree(o.group, status, NULL); /* each entry is 0 on all ranks but one */
    if (status == WEFT_OK)
        status = weft_group_sum(o.group, column, n);
    return take(dataset, column, status);
}
