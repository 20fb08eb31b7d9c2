/* train/teacher.c -- stored teachers: a teacher's most probable ids for each target of a dataset,
 * computed, saved and loaded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/folder.h"
#include "generate/rows.h"
#include "train/examples.h"
#include "train/objective/objective.h"
#include "train/run/identity.h"

enum { DEFAULT_BATCH = 8, MOST_ROWS = 64, CHUNK = 64, S = WEFT_TEACHER_TOP };

/* ---- samples of the teacher's own ----------------------------------------------------------- */

/* Whether two samples have the same targets with the same weights. */
static bool same_targets(const weft_sample *a, const weft_sample *b)
{
    int64_t i = 1, k = 1;
    for (;; i++, k++) {
        while (i < a->length && a->weights[i] == 0)
            i++;
        while (k < b->length && b->weights[k] == 0)
            k++;
        if (i == a->length || k == b->length)
            return i == a->length && k == b->length;
        if (a->ids[i] != b->ids[k] || a->weights[i] != b->weights[k])
            return false;
    }
}

weft_status weft_dataset_take_teacher_samples(weft_dataset *dataset, weft_dataset *theirs)
{
    const int64_t n = dataset->info.samples;
    weft_status status = WEFT_OK;
    if (dataset->info.examples != WEFT_EXAMPLES_SINGLE || theirs->info.samples != n)
        status = weft_fail(WEFT_INVALID, "teacher: expected %lld single samples, got %lld",
                           (long long)n, (long long)theirs->info.samples);
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        const weft_sample a = weft_dataset_at(dataset, i), b = weft_dataset_at(theirs, i);
        if (!same_targets(&a, &b))
            status = weft_fail(WEFT_INVALID,
                               "teacher: sample %lld: expected the targets of the dataset's, got "
                               "others (a larger length may help)",
                               (long long)i + 1);
    }
    weft_dataset_free(status == WEFT_OK ? dataset->taught : theirs);
    dataset->taught = status == WEFT_OK ? theirs : dataset->taught;
    return status;
}

/* ---- stored teachers ------------------------------------------------------------------------ */

void weft__top_free(weft__top *top)
{
    if (top == NULL)
        return;
    weft_free(top->first);
    weft_free(top->ids);
    weft_free(top->logprobs);
    weft_free(top);
}

void weft__top_put(const weft_dataset *d, int64_t i, int32_t *ids, float *logprobs)
{
    const weft_sample s = weft_dataset_at(d, i);
    int64_t from = d->top->first[i];
    for (int64_t k = 0; k + 1 < s.length; k++) {
        if (s.weights[k + 1] == 0)
            continue;
        memcpy(ids + k * S, d->top->ids + from * S, S * sizeof *ids);
        memcpy(logprobs + k * S, d->top->logprobs + from * S, S * sizeof *logprobs);
        from++;
    }
}

/* Makes room for all targets of a dataset. */
static weft_status new_top(const weft_dataset *d, double temperature, weft__top **out)
{
    weft__top *top = weft_calloc(1, sizeof *top);
    const int64_t samples = d->info.samples;
    *out = top;
    if (top == NULL)
        return weft__out_of_memory("dataset", "its teacher");
    top->temperature = temperature > 0 ? temperature : weft_objective_distill.defaults.temperature;
    top->first = weft_calloc((size_t)samples + 1, sizeof *top->first);
    for (int64_t i = 0; top->first && i < samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        top->first[i] = top->n;
        top->n += weft__sample_targets(&s);
    }
    top->ids = weft_calloc((size_t)top->n * S + 1, sizeof *top->ids);
    top->logprobs = weft_calloc((size_t)top->n * S + 1, sizeof *top->logprobs);
    return top->first && top->ids && top->logprobs ? WEFT_OK
                                                   : weft__out_of_memory("dataset", "its teacher");
}

static weft_status check_vocabulary(int64_t V)
{
    return V > S ? WEFT_OK
                 : weft_fail(WEFT_UNSUPPORTED,
                             "teacher: expected a vocabulary of more than %d ids, got %lld", S,
                             (long long)V);
}

weft_status weft__top_check(const weft_dataset *d, int64_t vocabulary, double temperature)
{
    const weft__top *top = d->top;
    if (top == NULL)
        return WEFT_OK;
    if (!(fabs(temperature - top->temperature) < 1e-9))
        return weft_fail(WEFT_INVALID,
                         "objective distill: temperature: expected that of the stored teacher, %g, "
                         "got %g",
                         top->temperature, temperature);
    for (int64_t i = 0; i < top->n * S; i++) {
        if (top->ids[i] >= vocabulary)
            return weft_fail(WEFT_INVALID,
                             "objective distill: the stored teacher has the id %d, and the model's "
                             "vocabulary has %lld tokens: store it with the model's vocabulary",
                             (int)top->ids[i], (long long)vocabulary);
    }
    return check_vocabulary(vocabulary);
}

/* Makes it that of the dataset, or frees it after a failure. */
static weft_status take(weft_dataset *d, weft__top *top, weft_status status)
{
    weft__top_free(status == WEFT_OK ? d->top : top);
    d->top = status == WEFT_OK ? top : d->top;
    return status;
}

uint64_t weft__top_hash(const weft__top *top)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < top->n * S; i++) {
        uint32_t bits;
        memcpy(&bits, &top->logprobs[i], sizeof bits);
        hash = weft__mix(hash, (uint64_t)(uint32_t)top->ids[i] << 32 | bits);
    }
    return hash;
}

/* ---- computing ------------------------------------------------------------------------------ */

/* What the entries are computed with: the teacher's logits of the ids below `vocabulary`. */
typedef struct source {
    weft_model *teacher;
    int64_t vocabulary;
} source;

/* Reads the n entries of hidden states (n, T) into the table, from entry `at` on. */
static weft_status read_entries(const source *from, weft_array *hidden, weft__top *top, int64_t at)
{
    const int64_t n = weft_dim(hidden, 0) * S;
    weft_array *logits =
        weft_squeeze(weft_model_head(from->teacher, weft_expand_dims(hidden, 0)), 0);
    if (weft_dim(logits, -1) > from->vocabulary)
        logits = weft_slice_axis(logits, -1, 0, from->vocabulary);
    logits = weft_scale(weft_astype(logits, WEFT_FLOAT32), 1 / top->temperature);
    weft_array *all = weft_log_softmax(logits, -1);                      /* (n, V) */
    weft_array *ids = weft_astype(weft_argtopk(all, S, -1), WEFT_INT32); /* (n, S) */
    weft_array *both[] = {ids, weft_take_along_axis(all, ids, -1)};
    weft_status status = weft_eval_n(both, 2);
    if (status == WEFT_OK)
        status = weft_read(both[0], WEFT_INT32, top->ids + at * S, n);
    if (status == WEFT_OK)
        status = weft_read(both[1], WEFT_FLOAT32, top->logprobs + at * S, n);
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        if (!isfinite(top->logprobs[at * S + i]))
            return weft_fail(WEFT_INVALID,
                             "teacher: a log-probability is not finite: the model's weights are "
                             "damaged, or the computation overflows in its dtype (try float32)");
    }
    return status;
}

/* Computes the entries of n examples, whose first target is entry `at`. */
static weft_status read_examples(const weft_dataset *d, const source *from, int64_t first, int n,
                                 weft__top *top)
{
    int64_t examples[MOST_ROWS];
    const int64_t begin = top->first[first],
                  end = first + n < d->info.samples ? top->first[first + n] : top->n;
    for (int i = 0; i < n; i++)
        examples[i] = first + i;
    weft_batch batch = {0};
    weft_status status = weft__batch_of_examples(d, examples, NULL, n, &batch);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    weft_batch own = batch;
    status = weft__teacher_fill(&weft_objective_distill,
                                &(weft_objective_options){.teacher = from->teacher}, &own);
    for (int64_t at = begin, to; status == WEFT_OK && at < end; at = to) {
        to = at + CHUNK < end ? at + CHUNK : end;
        weft_scope_open_lean();
        status =
            read_entries(from, weft_slice_axis(own.teacher, 0, at - begin, to - begin), top, at);
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    return status;
}

weft_status weft_dataset_add_teacher(weft_dataset *dataset, weft_model *teacher, int64_t vocabulary,
                                     double temperature, int64_t batch_size)
{
    const int64_t own = teacher ? weft_model_info_of(teacher)->vocab_size : INT64_MAX,
                  n = dataset->info.samples;
    const source from = {teacher, vocabulary > 0 && vocabulary < own ? vocabulary : own};
    int64_t B = batch_size > 0 ? batch_size : DEFAULT_BATCH;
    B = B < MOST_ROWS ? B : MOST_ROWS;
    if (dataset->info.examples != WEFT_EXAMPLES_SINGLE)
        return weft_fail(WEFT_INVALID, "teacher: expected single samples");
    weft_status status = teacher ? weft__rows_expect_logits(teacher, "teacher", false) : WEFT_OK;
    if (status == WEFT_OK)
        status = check_vocabulary(from.vocabulary);
    if (status != WEFT_OK)
        return status;
    weft__top *top, *before = dataset->top;
    status = new_top(dataset, temperature, &top);
    dataset->top = NULL; /* its columns are not needed */
    for (int64_t i = 0; teacher && status == WEFT_OK && i < n; i += B)
        status = read_examples(dataset, &from, i, (int)(n - i < B ? n - i : B), top);
    dataset->top = before;
    return take(dataset, top, status);
}

/* ---- saving and loading --------------------------------------------------------------------- */

#define SAMPLES "weft.samples"
#define TEMPERATURE "weft.temperature"

weft_status weft_teacher_check_file(const char *path)
{
    weft_safetensors *file = NULL;
    if (!weft__exists(path))
        return WEFT_OK;
    const weft_status opened = weft_safetensors_open(path, &file);
    const bool own = opened == WEFT_OK && weft_safetensors_metadata(file, SAMPLES) &&
                     weft_safetensors_metadata(file, TEMPERATURE);
    weft_safetensors_close(file);
    return own || opened == WEFT_MEMORY
               ? opened
               : weft_fail(WEFT_INVALID,
                           "%s: it is another file than a stored teacher, and would be overwritten",
                           path);
}

weft_status weft_dataset_save_teacher(const weft_dataset *dataset, const char *path)
{
    const weft__top *top = dataset->top;
    char hash[WEFT__HASH_TEXT], number[64];
    if (top == NULL)
        return weft_fail(WEFT_INVALID, "%s: the dataset has no stored teacher", path);
    weft_status status = weft_teacher_check_file(path);
    if (status != WEFT_OK)
        return status;
    const char *const names[] = {"ids", "logprobs"};
    const weft_metadata metadata[] = {{SAMPLES, hash}, {TEMPERATURE, number}};
    weft__write_hash(hash, weft__dataset_hash(0, dataset));
    snprintf(number, sizeof number, "%.17g", top->temperature);
    weft_scope_open_lean();
    weft_array *const columns[] = {
        weft_from_data(top->ids, WEFT_INT32, WEFT_DIMS(top->n, S)),
        weft_from_data(top->logprobs, WEFT_FLOAT32, WEFT_DIMS(top->n, S))};
    status = weft_safetensors_save(path, names, columns, 2, metadata, 2);
    weft_scope_close(NULL);
    return status;
}

static weft_status read_table(const weft_safetensors *file, const char *path, const char *name,
                              weft_dtype dtype, int64_t n, void *out)
{
    weft_array *a = weft_safetensors_get(file, name);
    if (!weft_ok(a))
        return weft__report(a);
    if (weft_dtype_of(a) != dtype || weft_ndim(a) != 2 || weft_dim(a, 0) != n ||
        weft_dim(a, 1) != S)
        return weft_fail(WEFT_INVALID, "%s: %s: expected %s (%lld, %d), got %s of rank %d", path,
                         name, weft_dtype_name(dtype), (long long)n, S,
                         weft_dtype_name(weft_dtype_of(a)), weft_ndim(a));
    return weft_read(a, dtype, out, n * S);
}

/* Checks the entries: ids that are not negative, and log-probabilities. */
static weft_status check_entries(const weft__top *top, const char *path)
{
    for (int64_t i = 0; i < top->n * S; i++) {
        if (top->ids[i] < 0 || !isfinite(top->logprobs[i]) || top->logprobs[i] > 1e-3f)
            return weft_fail(WEFT_INVALID,
                             "%s: entry %lld: expected an id and its log-probability, got %d and "
                             "%g",
                             path, (long long)(i / S), (int)top->ids[i], (double)top->logprobs[i]);
    }
    return WEFT_OK;
}

static weft_status read_top(const weft_dataset *d, const weft_safetensors *file, const char *path,
                            weft__top *top)
{
    char hash[WEFT__HASH_TEXT];
    const char *of = weft_safetensors_metadata(file, SAMPLES),
               *at = weft_safetensors_metadata(file, TEMPERATURE);
    const double temperature = at ? strtod(at, NULL) : 0;
    weft__write_hash(hash, weft__dataset_hash(0, d));
    if (of == NULL || strcmp(of, hash) != 0)
        return weft_fail(WEFT_INVALID,
                         "%s: the stored teacher is of other samples (hash %s, expected %s)", path,
                         weft_printable(of ? of : "absent"), hash);
    if (!(fabs(temperature - top->temperature) < 1e-9))
        return weft_fail(WEFT_INVALID, "%s: the stored teacher has temperature %g, expected %g",
                         path, temperature, top->temperature);
    weft_status status = read_table(file, path, "ids", WEFT_INT32, top->n, top->ids);
    if (status == WEFT_OK)
        status = read_table(file, path, "logprobs", WEFT_FLOAT32, top->n, top->logprobs);
    return status == WEFT_OK ? check_entries(top, path) : status;
}

weft_status weft_dataset_load_teacher(weft_dataset *dataset, const char *path, double temperature)
{
    weft_safetensors *file;
    weft__top *top = NULL;
    weft_status status = weft__safetensors_read(path, &file);
    if (status != WEFT_OK)
        return status;
    status = new_top(dataset, temperature, &top);
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = read_top(dataset, file, path, top);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return take(dataset, top, status);
}
