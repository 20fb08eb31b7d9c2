/* tests/train/runs.c -- short runs of the llama fixture, and reading the files that they write. */
#include "tests/train/runs.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/check.h"

const recipe *const run_base = &recipes[1];

enum { VOCABULARY = 320 };

weft_dataset *run_samples(void)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(RUN_LENGTH, &d));
    for (int i = 0; d && i < RUN_SAMPLES; i++) {
        int32_t ids[RUN_LENGTH];
        for (int j = 0; j < RUN_LENGTH; j++)
            ids[j] = (7 * i + 3 * j) % VOCABULARY;
        CHECK_OK(weft_dataset_add(d, ids, RUN_LENGTH - i % 5, i % 4));
    }
    return d;
}

bool run_keep(void *context, const weft_train_report *report)
{
    history *l = context;
    l->reports[l->n++] = *report;
    return l->n != l->stop_after;
}

weft_status run_recipe(weft_trainer_options o, bool validated, history *l,
                       weft_train_result *result)
{
    weft_model *model = recipe_model(run_base, "initial");
    weft_dataset *d = run_samples();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_status status = WEFT_INVALID;
    o.callback = run_keep;
    o.context = l;
    if (model && d && CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        status = weft_trainer_run(trainer, batches, validated ? d : NULL, result);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
    return status;
}

struct run_shortage run_shortage;
static const weft_objective *met;
static weft_objective demanding;

static weft_array *demanding_loss(weft_model *model, const weft_batch *batch,
                                  const weft_objective_options *options, bool checkpoint,
                                  weft_array **rewards)
{
    weft_array *loss = met->loss(model, batch, options, checkpoint, rewards);
    const int rows = batch->examples == WEFT_EXAMPLES_SINGLE ? 1 : 2; /* per example */
    const int64_t n = weft_dim(batch->tokens, 0) / rows;
    if (model != run_shortage.model || !weft_model_module(model)->training ||
        n <= run_shortage.most)
        return loss;
    weft_array *large = weft_zeros(WEFT_DIMS(2, (int64_t)1 << 45), WEFT_FLOAT32);
    return weft_add(loss, weft_max(weft_sort(large, 0), WEFT_ALL_AXES, false));
}

const weft_objective *run_demanding(const weft_objective *objective)
{
    if (met != objective) {
        demanding = *objective;
        demanding.loss = demanding_loss;
        met = objective;
    }
    return &demanding;
}

const char *run_file(const char *folder, const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

char *run_text(const char *folder, const char *name)
{
    char *text;
    return CHECK_OK(weft_file_read(run_file(folder, name), 0, &text, NULL)) ? text
                                                                            : weft_strdup("");
}

bool run_has(const char *folder, const char *name)
{
    return access(run_file(folder, name), F_OK) == 0;
}
