/* tests/train/test_failures.c -- each allocation fails once while a model, its adapter and a
 * trainer are made, while data is read, and while a run is written: no crash, no leak (checked in
 * the sanitizer build), no partial results. A step's own allocations are test_no_memory.c's. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/fail_each.h"
#include "tests/train/recipes.h"

static const recipe *const r = &recipes[1]; /* llama */

static weft_status make(void *context)
{
    (void)context;
    weft_model *model = NULL;
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = recipe_options(r);
    weft_status status = weft_model_load(check_fixture("models/llama"), NULL, &model);
    if (status == WEFT_OK)
        status = weft_adapter_load(model, recipe_path(r, "initial"), NULL);
    if (status == WEFT_OK)
        status = weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches);
    if (status == WEFT_OK)
        status = weft_trainer_new(model, &o, &trainer);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_model_free(model);
    return status;
}

static void making_a_trainer(void)
{
    fail_each("making a trainer", make, NULL, 8);
}

static weft_status read_data(void *context)
{
    static const char lines[] = "{\"text\": \"Once upon a time\"}\n"
                                "{\"prompt\": \"Who lives\", \"completion\": \" here\"}\n"
                                "{\"text\": \"The end\"}\n";
    weft_dataset *data, *validation;
    weft_batches *batches = NULL;
    weft_batch batch = {0};
    weft_status status = weft_dataset_parse(lines, strlen(lines), "lines.jsonl", context, NULL, 0.3,
                                            &data, &validation);
    if (status != WEFT_OK)
        return status;
    status = weft_batches_new(data, 2, 0, &batches);
    if (status == WEFT_OK)
        status = weft_batches_at(batches, 0, &batch);
    weft_batch_free(&batch);
    weft_batches_free(batches);
    weft_dataset_free(data);
    weft_dataset_free(validation);
    return status;
}

static void reading_data(void)
{
    weft_tokenizer *tokenizer;
    if (CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        fail_each("reading data", read_data, tokenizer, 8);
    weft_tokenizer_free(tokenizer);
}

typedef struct saving {
    weft_model *model;
    const char *folder;
} saving;

static weft_status save(void *context)
{
    const saving *s = context;
    return weft_adapter_save(s->model, s->folder, "base");
}

static void saving_an_adapter(void)
{
    saving s = {recipe_model(r, "final"), check_temporary("saved")};
    if (s.model == NULL)
        return;
    fail_each("saving an adapter", save, &s, 8);
    weft_model_free(s.model);
    s.model = recipe_model(r, NULL);
    CHECK_OK(weft_adapter_load(s.model, s.folder, NULL));
    weft_model_free(s.model);
}

/* A run of one update, and the same resumed for a second one. */
static weft_status write_run(void *context)
{
    weft_model *model = NULL;
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_trainer_options o = recipe_options(r);
    o.folder = context;
    weft_status status = weft_model_load(check_fixture("models/llama"), NULL, &model);
    if (status == WEFT_OK)
        status = weft_adapter_load(model, recipe_path(r, "initial"), NULL);
    if (status == WEFT_OK)
        status = weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches);
    for (int k = 0; status == WEFT_OK && k < 2; k++) {
        o.steps = 1 + k;
        o.overwrite = k == 0;
        o.resume = k == 1;
        status = weft_trainer_new(model, &o, &trainer);
        if (status == WEFT_OK)
            status = weft_trainer_run(trainer, batches, NULL, NULL);
        weft_trainer_free(trainer);
    }
    weft_batches_free(batches);
    weft_model_free(model);
    return status;
}

/* A failure may be only a warning, after which the run continues; it always ends, and can be
 * repeated. */
static void writing_and_resuming_a_run(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("run"));
    CHECK_OK(write_run(folder));
    /* With a software driver each run takes long. */
    const uint64_t step = !check_exhaustive() && check_in_software() ? 31 : 5;
    uint64_t nth = 1, failed = 0, made = 0;
    for (; nth < 100000; nth += step) {
        weft_scope_open();
        weft_memory_fail_at(nth);
        failed += write_run(folder) != WEFT_OK;
        made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (made < nth)
            break;
    }
    printf("  writing a run: %llu allocations, %llu failures\n", (unsigned long long)made,
           (unsigned long long)failed);
    CHECK(nth > 1000 && failed * step > 500);
    CHECK_OK(write_run(folder));
}

CHECK_MAIN("train_failures", CHECK_CASE(writing_and_resuming_a_run), CHECK_CASE(making_a_trainer),
           CHECK_CASE(reading_data), CHECK_CASE(saving_an_adapter))
