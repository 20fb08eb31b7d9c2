/* tests/train/test_columns.c -- the columns of batches: messages name a missing, surplus or
 * malformed column, for every objective and column; parts of a batch have its rows; a program's own
 * objective reads the same column in plain, compiled and split updates. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "train/columns.h"
#include "train/trainer.h"
#include "weft/tool/data.h"

enum { EXAMPLES = 5, LONGEST = 9 };

static weft_model *load(void)
{
    weft_model *model = NULL;
    CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model));
    return model;
}

/* A group of completions of different lengths. */
static weft_dataset *completions(void)
{
    char text[EXAMPLES * 160] = "", path[512];
    const weft_objective_options o = {.num_generations = EXAMPLES};
    weft_dataset *d = NULL;
    for (int i = 0; i < EXAMPLES; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n,
                 "{\"prompt_ids\": [1, 2], \"completion_ids\": [%d%s], \"reward\": %d}\n", 3 + i,
                 ", 7, 9, 11" + (i < 3 ? 3 * i : 10), i % 3);
    }
    snprintf(path, sizeof path, "%s", check_temporary("completions.jsonl"));
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    CHECK_OK(weft_dataset_load_completions(path, &weft_objective_grpo, &o, &d));
    return d;
}

/* Examples of different lengths, some with fractional weights. */
static weft_dataset *examples_of(weft_examples kind, int texts, bool scored)
{
    weft_dataset *d = NULL;
    if (kind == WEFT_EXAMPLES_SCORED)
        return completions();
    CHECK_OK(weft_dataset_new(LONGEST, &d));
    for (int i = 0; d && i < EXAMPLES; i++) {
        int32_t ids[2][LONGEST];
        float weights[2][LONGEST];
        weft_sample pair[2];
        for (int side = 0; side < 2; side++) {
            const int n = LONGEST - i + side - 1;
            for (int k = 0; k < LONGEST; k++) {
                ids[side][k] = 1 + (7 * i + 3 * k + (k > 2 ? 5 * side : 0)) % 50;
                weights[side][k] = k < (kind == WEFT_EXAMPLES_TEXTS ? n - 1 : 2) ? 0
                                   : i == 1 && kind != WEFT_EXAMPLES_TEXTS       ? 0.5f
                                                                                 : 1;
            }
            pair[side] = (weft_sample){ids[side], weights[side], n, 0};
        }
        if (kind == WEFT_EXAMPLES_PAIRS)
            CHECK_OK(weft_dataset_add_pair(d, &pair[0], &pair[1]));
        else if (kind == WEFT_EXAMPLES_LABELED)
            CHECK_OK(weft_dataset_add_labeled(d, &pair[0], i % 2));
        else if (kind == WEFT_EXAMPLES_TEXTS)
            CHECK_OK(weft_dataset_add_texts(d, (weft_sample[]){pair[0], pair[1], pair[0]}, texts,
                                            scored ? &(float){(float)i} : NULL));
        else
            CHECK_OK(weft_dataset_add_sample(d, &pair[0]));
    }
    return d;
}

/* All examples in one batch, with zeros in the columns that data does not have. */
static bool batch_of(const weft_objective *o, bool packed, weft_batch *out)
{
    if (o->examples == WEFT_EXAMPLES_TEXTS && packed)
        return false; /* unsupported */
    weft_dataset *d = examples_of(o->examples, o->texts ? (int)o->texts : 3,
                                  (o->columns & WEFT_COLUMN_LABELS) != 0);
    weft_batches *b = NULL;
    const bool made = d &&
                      CHECK_OK(packed ? weft_batches_new_packed(d, EXAMPLES, 4 * LONGEST, 0, &b)
                                      : weft_batches_new(d, EXAMPLES, 0, &b)) &&
                      CHECK_OK(weft_batches_at(b, 0, out)) && CHECK_OK(weft_batch_complete(out, o));
    weft_batches_free(b);
    weft_dataset_free(d);
    return made;
}

/* ---- messages ------------------------------------------------------------------------------- */

static void expect(const weft_trainer *t, const weft_batch *batch, bool good, const char *what,
                   const char *column)
{
    char text[200];
    snprintf(text, sizeof text, "objective %s: batch: %s %s", t->o.objective->name, what, column);
    const weft_status status = weft_trainer_step((weft_trainer *)t, batch, 1, 1, NULL);
    if (good)
        CHECK_OK(status);
    else if (CHECK_EQ_INT(status, WEFT_INVALID))
        CHECK_CONTAINS(weft_error_message(), text);
}

/* Tries an update of the batch with `array` as column c. */
static void replace(const weft_trainer *t, const weft_batch *batch, int c, weft_array *array,
                    bool good, const char *what)
{
    weft_batch changed = *batch;
    *weft__batch_slot(&changed, c) = array;
    expect(t, &changed, good, what, weft__columns[c].name);
}

static void check_columns(const weft_trainer *t, const weft_batch *batch)
{
    const weft_objective *o = t->o.objective;
    weft_scope_open();
    expect(t, batch, true, "", "");
    for (int c = 1; c < WEFT__COLUMNS; c++) { /* 0: tokens, of which the other shapes follow */
        const weft__column *column = &weft__columns[c];
        const weft_array *own = *weft__batch_slot(batch, c);
        const bool optional = column->rule == WEFT__ONES || (column->bit & o->accepts) != 0;
        const int64_t rows = weft_dim(batch->tokens, 0);
        if (own) {
            weft_dims larger = weft_shape(own);
            larger.at[0]++;
            replace(t, batch, c, NULL, optional, "missing column");
            if (own != batch->pack) /* of which the shapes of `first` and `positions` follow */
                replace(t, batch, c, weft_zeros(larger, column->dtype), false, "column");
            replace(t, batch, c, weft_zeros(weft_shape(own), WEFT_FLOAT64), false, "column");
        } else if (column->rule == WEFT__OBJECTIVE) {
            weft_array *vector = weft_zeros(WEFT_DIMS(rows), column->dtype);
            const bool shaped = optional && strchr(column->axes, 'M'); /* of a teacher's samples */
            replace(t, batch, c, vector, optional && !shaped, shaped ? "column" : "surplus column");
        }
    }
    replace(t, batch, 0, NULL, false, "missing column");
    replace(t, batch, 0, weft_zeros(WEFT_DIMS(8), WEFT_INT32), false, "column");
    weft_scope_close(NULL);
}

static void wrong_columns_are_named(void)
{
    for (int i = 0; weft_objectives[i]; i++) {
        const bool scored = weft_objectives[i]->examples == WEFT_EXAMPLES_SCORED;
        for (int packed = 0; packed < (scored ? 1 : 2); packed++) {
            /* Without the penalty of rloo, `ref` is optional. */
            const double beta = scored && weft_objectives[i]->defaults.beta > 0 ? -1 : 0;
            weft_model *model = load();
            const bool taught = weft_objectives[i] == &weft_objective_distill;
            const weft_trainer_options o = {
                .objective = weft_objectives[i],
                .objective_options = {.beta = beta, .teacher = taught ? model : NULL}};
            weft_trainer *t = NULL;
            weft_batch batch = {0};
            if (model && batch_of(weft_objectives[i], packed, &batch) &&
                CHECK_OK(weft_trainer_new(model, &o, &t)))
                check_columns(t, &batch);
            weft_trainer_free(t);
            weft_batch_free(&batch);
            weft_model_free(model);
        }
    }
}

/* The number of texts is that of arrays on the stack. */
static void numbers_of_texts_are_checked(void)
{
    static const int64_t wrong[] = {-1, 0, 1, 65, 1 << 20};
    weft_batch batch = {0};
    if (!batch_of(&weft_objective_ranking, false, &batch))
        return;
    CHECK_OK(weft__objective_check_batch(&weft_objective_ranking, &batch));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_batch changed = batch;
        changed.texts = wrong[i];
        CHECK_STATUS(weft__objective_check_batch(&weft_objective_ranking, &changed), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(),
                       "objective ranking: batch: texts: expected 2 to 64, got");
    }
    weft_batch_free(&batch);
}

/* Data with a column that an objective does not accept, and without one that it requires. */
static void columns_of_data_are_checked(void)
{
    weft_model *model = load();
    weft_dataset *d = examples_of(WEFT_EXAMPLES_PAIRS, 0, false);
    weft_objective strict = weft_objective_simpo;
    strict.accepts = 0;
    weft_evaluate_options o = {.objective = &weft_objective_dpo};
    weft_evaluation result;
    CHECK_EQ_INT(weft_evaluate(model, d, &o, &result), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "objective dpo: data: missing column reference");
    CHECK_OK(weft_dataset_add_reference(d, model, NULL));
    CHECK_OK(weft_evaluate(model, d, &o, &result));
    o.objective = &weft_objective_simpo;
    CHECK_OK(weft_evaluate(model, d, &o, &result));
    o.objective = &strict;
    CHECK_EQ_INT(weft_evaluate(model, d, &o, &result), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "objective simpo: data: surplus column reference");
    weft_dataset_free(d);
    weft_model_free(model);
}

/* Writes a file of reference log-probabilities of the first examples. */
static void write_progress(const weft_dataset *d, const char *path, const float *values, int n)
{
    const char *const names[] = {"reference"};
    weft_safetensors *file = NULL;
    char hash[64] = "", count[16];
    CHECK_OK(weft_dataset_save_reference(d, path));
    if (CHECK_OK(weft_safetensors_open(path, &file)))
        snprintf(hash, sizeof hash, "%s", weft_safetensors_metadata(file, "weft.samples"));
    weft_safetensors_close(file);
    snprintf(count, sizeof count, "%d", n);
    weft_array *const column[] = {weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(2 * EXAMPLES))};
    CHECK_OK(weft_safetensors_save(
        path, names, column, 1,
        (const weft_metadata[]){{"weft.samples", hash}, {"weft.examples", count}}, 2));
}

/* weft_pause_fn: counts waits for the disk. */
static void count_disk(void *context, weft_pause_point point)
{
    *(int *)context += point == WEFT_PAUSE_DISK;
}

/* The computed part of a reference is kept, and not computed again. */
static void an_unfinished_reference_continues(void)
{
    char path[512];
    float all[2 * EXAMPLES], begun[2 * EXAMPLES] = {0};
    weft_model *model = load();
    weft_dataset *d = examples_of(WEFT_EXAMPLES_PAIRS, 0, false);
    weft_cancel *cancel = weft_cancel_new();
    snprintf(path, sizeof path, "%s", check_temporary("progress.safetensors"));
    weft_reference_options o = {.batch_size = 2, .cancel = cancel, .progress = path};
    CHECK_OK(weft_dataset_add_reference(d, model, &o));
    CHECK(access(path, F_OK) != 0);
    memcpy(all, weft_dataset_reference(d), sizeof all);
    /* The entries of an example are side by side. */
    for (int i = 0; i < 2; i++) {
        begun[2 * i] = 100;
        begun[2 * i + 1] = 100;
    }
    write_progress(d, path, begun, 2);
    CHECK_STATUS(weft_dataset_load_reference(d, path), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "2 of 5 examples");
    CHECK_OK(weft_dataset_add_reference(d, model, &o));
    for (int i = 0; i < 2 * EXAMPLES; i++)
        CHECK(weft_dataset_reference(d)[i] == (i < 4 ? 100 : all[i]));
    /* A cancelled one keeps them, too, and leaves the dataset unchanged. */
    int disks = 0;
    weft_cancel_set(cancel);
    weft_set_pause(count_disk, &disks);
    CHECK_STATUS(weft_dataset_add_reference(d, model, &o), WEFT_CANCELLED);
    weft_set_pause(NULL, NULL);
    CHECK_CONTAINS(weft_error_message(), "after 2 of 5 examples");
    CHECK_EQ_INT(disks, 1);
    CHECK(weft_dataset_reference(d)[0] == 100);
    weft_cancel_clear(cancel);
    write_progress(d, path, begun, 6); /* more than there are: computed again */
    CHECK_OK(weft_dataset_add_reference(d, model, &o));
    CHECK_BYTES(weft_dataset_reference(d), all, sizeof all);
    weft_cancel_free(cancel);
    weft_dataset_free(d);
    weft_model_free(model);
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The losses of tokens in the samples from .. to of a batch: their sum. */
static double loss_of_part(weft_model *model, const weft_batch *batch, int64_t from, int64_t to)
{
    weft_batch part;
    weft_scope_open();
    CHECK_OK(weft__batch_part(batch, from, to, &part));
    weft_objective any = {.name = "any", .examples = batch->examples, .accepts = ~0U};
    CHECK_OK(weft__objective_check_batch(&any, &part));
    const double loss = weft_item(weft_next_token_loss(model, &part, 1, false));
    weft_scope_close(NULL);
    return loss;
}

/* Sets the columns `first` and `positions` of a padded batch to the values that their absence
 * means. */
static void place(weft_batch *batch)
{
    const weft_dims shape = weft_shape(batch->tokens);
    weft_scope_open();
    CHECK_OK(weft_set(&batch->first, weft_zeros(shape, WEFT_INT32)));
    weft_array *positions = weft_arange_int(0, shape.at[1], 1, WEFT_INT32);
    CHECK_OK(weft_set(&batch->positions, weft_contiguous(weft_broadcast_to(positions, shape))));
    weft_scope_close(NULL);
}

/* Every part is a batch with columns of the right shapes, and the losses add up to the batch's. */
static void parts_are_batches(void)
{
    weft_model *model = load();
    for (int i = 0; model && weft_objectives[i]; i++) {
        for (int layout = 0; layout < 3; layout++) {
            weft_batch batch = {0};
            if (layout == 1 && weft_objectives[i]->examples == WEFT_EXAMPLES_SCORED)
                continue; /* never packed */
            if (!batch_of(weft_objectives[i], layout == 1, &batch))
                continue;
            if (layout == 2)
                place(&batch);
            const int64_t n = weft__batch_samples(&batch);
            const double whole = loss_of_part(model, &batch, 0, n);
            for (int64_t cut = 1; cut < n; cut++)
                CHECK_CLOSE(loss_of_part(model, &batch, 0, cut) +
                                loss_of_part(model, &batch, cut, n),
                            whole, 2e-6 * whole); /* float32 sums of about 70 losses */
            weft_batch_free(&batch);
        }
    }
    weft_model_free(model);
}

/* ---- an objective of a program -------------------------------------------------------------- */

static double n_rows(const weft_batch *batch, const weft_objective_options *options)
{
    (void)options;
    return (double)weft_dim(batch->tokens, 0);
}

/* The sum over rows of the column `reference` times the negative log-probability. */
static weft_array *scaled_loss(weft_model *model, const weft_batch *batch,
                               const weft_objective_options *options, bool checkpoint,
                               weft_array **rewards)
{
    (void)options;
    weft_array *rows = weft__row_log_probabilities(model, batch, checkpoint);
    *rewards = weft_stop_gradient(rows);
    return weft_negative(weft_sum(weft_multiply(rows, batch->reference), WEFT_ALL_AXES, false));
}

static const weft_objective scaled = {
    .name = "scaled", .columns = WEFT_COLUMN_REFERENCE, .weight = n_rows, .loss = scaled_loss};

/* The loss of an update of n copies of the batch. */
static double update(weft_trainer_options o, const weft_batch *batch, int n)
{
    weft_model *model = load();
    weft_trainer *t = NULL;
    weft_train_report report = {0};
    const weft_batch batches[] = {*batch, *batch};
    o.objective = &scaled;
    if (model && CHECK_OK(weft_trainer_new(model, &o, &t)))
        CHECK_OK(weft_trainer_step(t, batches, n, 1, &report));
    CHECK_EQ_INT(report.rewards.pairs, n * EXAMPLES);
    weft_trainer_free(t);
    weft_model_free(model);
    return report.loss;
}

/* A column for single samples, which no objective of the library has. */
static void own_objective_reads_its_column(void)
{
    static const float factors[EXAMPLES] = {1, -2, 0.5f, 3, 0.25f};
    float rows[EXAMPLES];
    double expected = 0;
    weft_model *model = load();
    weft_batch batch = {0};
    if (!model || !batch_of(&weft_objective_supervised, false, &batch))
        return;
    weft_scope_open();
    CHECK_OK(
        weft_set(&batch.reference, weft_from_data(factors, WEFT_FLOAT32, WEFT_DIMS(EXAMPLES))));
    CHECK_OK(
        weft_read(weft__row_log_probabilities(model, &batch, false), WEFT_FLOAT32, rows, EXAMPLES));
    weft_scope_close(NULL);
    for (int i = 0; i < EXAMPLES; i++)
        expected -= (double)factors[i] * (double)rows[i] / EXAMPLES;
    const double tolerance = 1e-5 * fabs(expected); /* float32 */
    CHECK_CLOSE(update((weft_trainer_options){0}, &batch, 1), expected, tolerance);
    CHECK_CLOSE(update((weft_trainer_options){.compile = true}, &batch, 1), expected, tolerance);
    CHECK_CLOSE(update((weft_trainer_options){.micro_batch = 2}, &batch, 1), expected, tolerance);
    CHECK_CLOSE(update((weft_trainer_options){.compile = true}, &batch, 2), expected, tolerance);
    weft_batch_free(&batch);
    weft_model_free(model);
}

CHECK_MAIN("columns", CHECK_CASE(wrong_columns_are_named), CHECK_CASE(numbers_of_texts_are_checked),
           CHECK_CASE(columns_of_data_are_checked), CHECK_CASE(an_unfinished_reference_continues),
           CHECK_CASE(parts_are_batches), CHECK_CASE(own_objective_reads_its_column))
