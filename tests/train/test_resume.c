/* tests/train/test_resume.c -- stopped and resumed runs end with the same bytes; they continue from
 * the newest readable checkpoint, and only with the same data and options. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/train/runs.h"

enum { STEPS = 8 };

/* The settings of a run besides the trainer's options. */
typedef struct setup {
    double dropout;
    int64_t batch_size, rank;
    uint64_t order;
    int samples; /* fewer than all; 0: all */
    bool whole;  /* no adapter: some parameters of the model, in bfloat16, are trained */
    bool validated;
    bool dora, pissa;
    int stop_after; /* reports */
} setup;

static weft_dataset *data_of(const setup *s)
{
    weft_dataset *all = run_samples(), *some = NULL;
    if (s->samples == 0)
        return all;
    CHECK_OK(weft_dataset_new(RUN_LENGTH, &some));
    for (int i = 0; i < s->samples; i++) {
        const weft_sample at = weft_dataset_at(all, i);
        CHECK_OK(weft_dataset_add_sample(some, &at));
    }
    weft_dataset_free(all);
    return some;
}

static weft_model *model_of(const setup *s)
{
    weft_model *model = recipe_model(run_base, NULL);
    const weft_nn_lora_options lora = {
        .rank = s->rank, .dropout = s->dropout, .dora = s->dora, .pissa = s->pissa};
    weft_random_seed(5);
    if (model)
        CHECK_OK(s->whole ? weft_nn_cast(weft_model_module(model), WEFT_BFLOAT16)
                          : weft_nn_lora_inject(weft_model_module(model), &lora));
    return model;
}

static weft_status train(const setup *s, weft_trainer_options o, weft_train_result *result)
{
    history l = {.stop_after = s->stop_after};
    weft_model *model = model_of(s);
    weft_dataset *d = data_of(s);
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_status status = WEFT_INVALID;
    o.steps = o.steps ? o.steps : STEPS;
    o.lr = 1e-2;
    o.clip = 1;
    o.schedule = "cosine";
    o.save_minutes = -1;
    o.callback = run_keep;
    o.context = &l;
    if (model && d && CHECK_OK(weft_batches_new(d, s->batch_size, s->order, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        status = weft_trainer_run(trainer, batches, s->validated ? d : NULL, result);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
    return status;
}

static void check_same_file(const char *folder_a, const char *folder_b, const char *name)
{
    char *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    if (CHECK_OK(weft_file_read(run_file(folder_a, name), 0, &a, &n_a)) &&
        CHECK_OK(weft_file_read(run_file(folder_b, name), 0, &b, &n_b)) && CHECK(n_a == n_b))
        CHECK(memcmp(a, b, n_a) == 0);
    weft_free(a);
    weft_free(b);
}

/* metrics.jsonl has each update once, in order, from `first` on. */
static void check_metrics(const char *folder, int first, int last)
{
    char *text = run_text(folder, "metrics.jsonl"), *line = text;
    for (int s = first; s <= last; s++) {
        int step = -1;
        sscanf(line, "{\"step\": %d", &step);
        CHECK_EQ_INT(step, s);
        line = strchr(line, '\n');
        if (!CHECK(line != NULL))
            break;
        line++;
    }
    CHECK(line == NULL || *line == '\0');
    weft_free(text);
}

static const char *folder_of(const char *name)
{
    static char folders[4][512];
    static int next;
    char *folder = folders[next++ % 4];
    snprintf(folder, sizeof folders[0], "%s", check_temporary(name));
    return folder;
}

/* ---- the same bytes ------------------------------------------------------------------------- */

static void compare(const char *name, setup s, weft_trainer_options o)
{
    const char *whole = folder_of("whole"), *parted = folder_of(name);
    const char *weights = s.whole ? "last/model.safetensors" : "last/adapter_model.safetensors";
    weft_train_result one = {0}, two = {0};
    o.folder = whole;
    o.overwrite = true;
    CHECK_OK(train(&s, o, &one));
    o.folder = parted;
    o.overwrite = false;
    o.resume = true;
    s.stop_after = 3 + s.validated;
    CHECK_STATUS(train(&s, o, &two), WEFT_CANCELLED);
    CHECK_EQ_INT(two.steps, 3);
    s.stop_after = 4;
    CHECK_STATUS(train(&s, o, &two), WEFT_CANCELLED);
    CHECK_EQ_INT(two.steps, 7);
    s.stop_after = 0;
    CHECK_OK(train(&s, o, &two));
    check_same_file(whole, parted, weights);
    check_metrics(parted, s.validated ? 0 : 1, STEPS);
    CHECK_EQ_INT(two.steps, STEPS);
    CHECK_EQ_INT(two.tokens, one.tokens);
    CHECK(two.loss == one.loss);
    CHECK(two.best_step == one.best_step);
    CHECK(two.seconds > 0);
    if (s.validated) {
        CHECK(two.best_validation == one.best_validation);
        check_same_file(whole, parted, "best/adapter_model.safetensors");
    }
}

static void resumed_runs_end_with_the_same_bytes(void)
{
    compare("plain", (setup){.batch_size = 4}, (weft_trainer_options){0});
    compare("dropout", (setup){.dropout = 0.3}, (weft_trainer_options){.seed = 9});
    compare("accumulated", (setup){.dropout = 0.3, .batch_size = 2},
            (weft_trainer_options){.accumulate = 3});
    compare("compiled", (setup){.dropout = 0.3}, (weft_trainer_options){.compile = true});
    compare("noise", (setup){.validated = true},
            (weft_trainer_options){.seed = 9, .neftune = 5, .validate_every = 2});
    compare("noise_compiled", (setup){.dropout = 0.3, .batch_size = 2},
            (weft_trainer_options){.neftune = 5, .compile = true, .accumulate = 3});
    compare("coded_moments", (setup){.rank = 64, .batch_size = 4},
            (weft_trainer_options){.optimizer = &weft_optim_adamw8bit});
    compare("coded_moments_compiled", (setup){.rank = 64},
            (weft_trainer_options){.optimizer = &weft_optim_adamw8bit, .compile = true});
    compare("validated", (setup){.validated = true}, (weft_trainer_options){.validate_every = 2});
    compare("every", (setup){.batch_size = 3}, (weft_trainer_options){.save_every = 1, .keep = 3});
    compare("dora", (setup){.dora = true}, (weft_trainer_options){0});
    compare("pissa", (setup){.pissa = true}, (weft_trainer_options){0});
    compare("parameters", (setup){.whole = true}, (weft_trainer_options){0});
}

/* An optimizer that cancels the run in the update after `armed` was set: before its validation. */
static weft_cancel *cancel;
static bool armed;

static weft_array *cancelling_update(weft_optim_step *s)
{
    if (armed)
        weft_cancel_set(cancel);
    return weft_subtract(s->parameter, weft_optim_multiply(s->gradient, s->learning_rate));
}

static const weft_optim_type cancelling = {
    .name = "cancelling", .defaults = NULL, .update = cancelling_update};

static bool arm_at_3(void *context, const weft_train_report *report)
{
    armed = *(bool *)context && report->step == 3;
    return true;
}

/* A validation that was cancelled with the run is repeated when the run is resumed. */
static void a_cancelled_validation_is_made_later(void)
{
    const setup s = {.batch_size = 4};
    const char *folders[] = {folder_of("validations"), folder_of("cancelled")};
    weft_dataset *d = data_of(&s);
    cancel = weft_cancel_new();
    for (int k = 0; k < 3; k++) { /* uninterrupted; up to the cancellation; resumed */
        bool stops = k == 1;
        weft_model *model = model_of(&s);
        weft_batches *batches = NULL;
        weft_trainer *trainer = NULL;
        const weft_trainer_options o = {.steps = STEPS,
                                        .lr = 0.1,
                                        .optimizer = &cancelling,
                                        .validate_every = 4,
                                        .folder = folders[k > 0],
                                        .resume = true,
                                        .callback = arm_at_3,
                                        .context = &stops,
                                        .cancel = cancel};
        CHECK_OK(weft_batches_new(d, 4, 0, &batches));
        if (CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
            const weft_status status = weft_trainer_run(trainer, batches, d, NULL);
            CHECK_EQ_INT(status, stops ? WEFT_CANCELLED : WEFT_OK);
        }
        weft_cancel_clear(cancel);
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        weft_model_free(model);
    }
    check_metrics(folders[1], 0, STEPS);
    for (int k = 0; k < 2; k++) {
        char *text = run_text(folders[k], "metrics.jsonl");
        int n = 0;
        for (char *at = text; (at = strstr(at, "\"validation_loss\": ")) != NULL; at++)
            n++;
        CHECK_EQ_INT(n, 3);
        weft_free(text);
    }
    check_same_file(folders[0], folders[1], "best/adapter_model.safetensors");
    check_same_file(folders[0], folders[1], "last/adapter_model.safetensors");
    weft_cancel_free(cancel);
    weft_dataset_free(d);
}

static void every_optimizer_is_resumed(void)
{
    for (int i = 0; weft_optim_type_at(i) != NULL; i++) {
        const weft_trainer_options o = {.optimizer = weft_optim_type_at(i)};
        compare(o.optimizer->name,
                (setup){.rank = 4, .whole = o.optimizer == &weft_optim_adamw16bit}, o);
    }
}

/* Dropout does not depend on what was drawn before. */
static void dropout_is_a_function_of_the_update(void)
{
    weft_batch batch;
    weft_dataset *d = run_samples();
    const weft_sample first = weft_dataset_at(d, 0);
    CHECK_OK(weft_batch_of_samples(&first, 1, &batch));
    double losses[2][3];
    for (int k = 0; k < 2; k++) {
        weft_model *model = model_of(&(setup){.dropout = 0.5});
        weft_trainer *trainer = NULL;
        weft_train_report report;
        const weft_trainer_options o = {.lr = 0.1, .seed = 4};
        if (CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
            for (int s = 0; s < 3; s++) {
                weft_random_seed((uint64_t)(100 * k + s));
                CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &report));
                losses[k][s] = report.loss;
            }
        }
        weft_trainer_free(trainer);
        weft_model_free(model);
    }
    for (int s = 0; s < 3; s++)
        CHECK(losses[0][s] == losses[1][s]);
    weft_batch_free(&batch);
    weft_dataset_free(d);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static void checkpoints_are_kept_and_last_points_to_the_newest(void)
{
    const char *folder = folder_of("kept");
    const setup s = {.batch_size = 4};
    CHECK_OK(train(&s, (weft_trainer_options){.folder = folder, .save_every = 2, .keep = 3}, NULL));
    CHECK(!run_has(folder, "step-2"));
    CHECK(run_has(folder, "step-4/training.safetensors"));
    CHECK(run_has(folder, "step-6/adapter_config.json"));
    char target[64] = "";
    CHECK(readlink(run_file(folder, "last"), target, sizeof target - 1) > 0);
    CHECK_STR(target, "step-8");
    weft_safetensors *file;
    if (CHECK_OK(weft_safetensors_open(run_file(folder, "step-8/training.safetensors"), &file))) {
        const char *state = weft_safetensors_metadata(file, "weft.run");
        if (CHECK(state != NULL)) {
            CHECK_CONTAINS(state, "\"version\": 2");
            CHECK_CONTAINS(state, "\"step\": 8");
            CHECK_CONTAINS(state, "\"batch\": 8");
            CHECK_CONTAINS(state, "\"data\": \"");
        }
        weft_safetensors_close(file);
    }
}

static void cut_file(const char *folder, const char *name)
{
    struct stat info;
    const char *path = run_file(folder, name);
    if (CHECK(stat(path, &info) == 0))
        CHECK(truncate(path, info.st_size / 2) == 0);
}

/* As after a run that was killed between a checkpoint and the link to it. */
static void last_points_to_the_checkpoint_that_was_resumed(void)
{
    const char *folder = folder_of("unlinked");
    const setup s = {.batch_size = 4};
    weft_trainer_options o = {.folder = folder, .save_every = 7};
    CHECK_OK(train(&s, o, NULL));
    CHECK(unlink(run_file(folder, "last")) == 0);
    CHECK(symlink("step-7", run_file(folder, "last")) == 0);
    o.resume = true;
    CHECK_OK(train(&s, o, NULL));
    char target[64] = "";
    CHECK(readlink(run_file(folder, "last"), target, sizeof target - 1) > 0);
    CHECK_STR(target, "step-8");
}

/* As after a run that was killed, with a damaged newest checkpoint: the previous one is used, and
 * later lines of metrics.jsonl and partial files are deleted. */
static void a_damaged_checkpoint_is_skipped(void)
{
    const char *folder = folder_of("damaged"), *whole = folder_of("undamaged");
    setup s = {.batch_size = 4, .stop_after = 6};
    weft_trainer_options o = {.folder = folder, .save_every = 2, .keep = 9};
    CHECK_STATUS(train(&s, o, NULL), WEFT_CANCELLED);
    cut_file(folder, "step-6/training.safetensors");
    CHECK(mkdir(run_file(folder, "step-7.part-1"), 0777) == 0);
    CHECK_OK(weft_file_write(run_file(folder, "step-7.part-1/x"), "x", 1));
    CHECK_OK(weft_file_write(run_file(folder, "run.json.part-1-1"), "x", 1));
    CHECK_OK(weft_file_write(run_file(folder, "book.part-1"), "x", 1)); /* not a file of the run */
    FILE *metrics = fopen(run_file(folder, "metrics.jsonl"), "a");
    if (CHECK(metrics != NULL)) {
        fputs("{\"step\": 7, \"lo", metrics);
        fclose(metrics);
    }
    s.stop_after = 0;
    o.resume = true;
    CHECK_OK(train(&s, o, NULL));
    check_metrics(folder, 1, STEPS);
    CHECK(!run_has(folder, "step-7.part-1") && !run_has(folder, "run.json.part-1-1"));
    CHECK(run_has(folder, "book.part-1"));
    o.folder = whole;
    CHECK_OK(train(&s, o, NULL));
    check_same_file(whole, folder, "last/adapter_model.safetensors");
    check_same_file(whole, folder, "step-6/adapter_model.safetensors");
}

/* Killed before its first checkpoint. */
static void a_run_without_checkpoints_begins_again(void)
{
    const char *folder = folder_of("unsaved"), *whole = folder_of("saved");
    setup s = {.validated = true};
    weft_trainer_options o = {.folder = folder};
    CHECK_OK(train(&s, o, NULL));
    CHECK(unlink(run_file(folder, "last")) == 0);
    CHECK(rename(run_file(folder, "step-8"), check_temporary("elsewhere")) == 0);
    o.resume = true;
    CHECK_OK(train(&s, o, NULL));
    check_metrics(folder, 0, STEPS);
    o.folder = whole;
    CHECK_OK(train(&s, o, NULL));
    check_same_file(whole, folder, "last/adapter_model.safetensors");
    /* Trained weights without a checkpoint are not overwritten. */
    CHECK(unlink(run_file(whole, "step-8/training.safetensors")) == 0);
    CHECK_STATUS(train(&s, o, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no checkpoint that can be read");
    /* Neither does a run begin in a folder with checkpoints of another run. */
    CHECK(unlink(run_file(whole, "run.json")) == 0 && !weft_run_exists(whole));
    CHECK_STATUS(train(&s, o, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "step-8");
}

static void a_finished_run_stays_and_can_be_prolonged(void)
{
    const char *folder = folder_of("finished");
    setup s = {.batch_size = 4};
    weft_train_result result;
    weft_trainer_options o = {.folder = folder, .resume = true};
    CHECK_OK(train(&s, o, NULL));
    char *before = run_text(folder, "metrics.jsonl");
    CHECK_OK(train(&s, o, &result));
    CHECK_EQ_INT(result.steps, STEPS);
    char *after = run_text(folder, "metrics.jsonl");
    CHECK_STR(after, before);
    o.steps = STEPS + 2;
    CHECK_OK(train(&s, o, &result));
    CHECK_EQ_INT(result.steps, STEPS + 2);
    check_metrics(folder, 1, STEPS + 2);
    weft_free(before);
    weft_free(after);
}

/* ---- one run at a time ---------------------------------------------------------------------- */

static bool train_there_too(void *context, const weft_train_report *report)
{
    const setup s = {.batch_size = 4};
    (void)report;
    weft_train_result result = {0};
    const weft_trainer_options o = {.folder = context, .resume = true};
    CHECK_STATUS(train(&s, o, &result), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "another run is writing there");
    return true;
}

static void two_runs_do_not_share_a_folder(void)
{
    const setup s = {.batch_size = 4};
    weft_model *model = model_of(&s);
    weft_dataset *d = data_of(&s);
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("shared"));
    const weft_trainer_options o = {
        .steps = 2, .folder = folder, .callback = train_there_too, .context = folder};
    if (model && d && CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, NULL));
    check_metrics(folder, 1, 2);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
}

/* ---- what must be the same ------------------------------------------------------------------ */

static void expect_refused(const char *says, setup s, weft_trainer_options o)
{
    weft_train_result result = {0};
    CHECK_STATUS(train(&s, o, &result), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), says);
    CHECK_EQ_INT(result.steps, 0);
}

static void other_data_options_and_targets_are_refused(void)
{
    const char *folder = folder_of("same");
    setup s = {.batch_size = 4, .stop_after = 3};
    weft_trainer_options o = {.folder = folder};
    CHECK_STATUS(train(&s, o, NULL), WEFT_CANCELLED);
    o.resume = true;
    s.stop_after = 0;
    setup t = s;
    t.samples = 11;
    expect_refused("the data has changed", t, o);
    t = s;
    t.batch_size = 3;
    expect_refused("batch size: expected the run's 4, got 3", t, o);
    t = s;
    t.order = 1;
    expect_refused("seed of the batches", t, o);
    t = s;
    t.rank = 2;
    expect_refused("lora_A: expected float32", t, o);
    t = s;
    t.whole = true;
    expect_refused("is missing", t, o);
    weft_trainer_options p = o;
    p.optimizer = &weft_optim_lion;
    expect_refused("optimizer: expected the run's adamw, got lion", s, p);
    p = o;
    p.seed = 3;
    expect_refused("seed: expected the run's 0, got 3", s, p);
    p = o;
    p.accumulate = 2;
    expect_refused("accumulate: expected the run's 1, got 2", s, p);
    CHECK_OK(train(&s, o, NULL)); /* none of them changed anything */
    CHECK(run_has(folder, "step-8"));
}

/* A base model is identified by the files of its folder. */
static void another_base_is_refused(void)
{
    const char *folder = folder_of("based"), *base = folder_of("base");
    CHECK(mkdir(base, 0777) == 0);
    CHECK_OK(weft_file_write(run_file(base, "config.json"), "{}", 2));
    CHECK_OK(weft_file_write(run_file(base, "model.safetensors"), "one", 3));
    CHECK_OK(weft_file_write(run_file(base, "tokenizer.json"), "{}", 2));
    setup s = {.stop_after = 2};
    weft_trainer_options o = {.folder = folder, .base_name = base};
    CHECK_STATUS(train(&s, o, NULL), WEFT_CANCELLED);
    o.resume = true;
    s.stop_after = 0;
    CHECK_OK(weft_file_write(run_file(base, "model.safetensors"), "two", 3));
    expect_refused("the base model has changed", s, o);
    CHECK_OK(weft_file_write(run_file(base, "model.safetensors"), "one", 3));
    CHECK_OK(weft_file_write(run_file(base, "tokenizer.json"), "[]", 2));
    expect_refused("the tokenizer has changed", s, o);
    CHECK_OK(weft_file_write(run_file(base, "tokenizer.json"), "{}", 2));
    CHECK_OK(train(&s, o, NULL));
}

static void the_command_line_is_kept(void)
{
    const char *folder = folder_of("words");
    const char *const words[] = {"MODEL", "--data", "a \"b\"\n"};
    const setup s = {.batch_size = 4};
    weft_run_words found;
    CHECK_OK(train(&s, (weft_trainer_options){.folder = folder, .command = words, .n_command = 3},
                   NULL));
    if (CHECK_OK(weft_run_command(folder, &found)) && CHECK_EQ_INT(found.n, 3)) {
        for (int i = 0; i < 3; i++)
            CHECK_STR(found.at[i], words[i]);
    }
    weft_run_words_free(&found);
    CHECK_STATUS(weft_run_command(check_temporary("no_run"), &found), WEFT_IO);
    CHECK_EQ_INT(found.n, 0);
}

/* ---- a full disk ---------------------------------------------------------------------------- */

/* A limit on the size of files that only training.safetensors exceeds. */
static void a_full_disk_loses_nothing_that_was_saved(void)
{
    const char *folder = folder_of("full"), *whole = folder_of("roomy");
    setup s = {.batch_size = 4, .stop_after = 3};
    weft_trainer_options o = {.folder = folder};
    CHECK_STATUS(train(&s, o, NULL), WEFT_CANCELLED);
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 8192;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    o.resume = true;
    s.stop_after = 0;
    o.save_every = 1;
    const weft_status status = train(&s, o, NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_EQ_INT(status, WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "kept: update 3 in");
    char *text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "\"state\": \"failed\"");
    weft_free(text);
    CHECK(run_has(folder, "last/adapter_config.json"));
    CHECK(!run_has(folder, "step-8"));
    CHECK_OK(train(&s, o, NULL)); /* with free space again */
    o.folder = whole;
    CHECK_OK(train(&s, o, NULL));
    check_same_file(whole, folder, "last/adapter_model.safetensors");
    check_metrics(folder, 1, STEPS);
}

/* There is space for the adapter, but not for a checkpoint. */
static void the_last_weights_are_saved_without_a_checkpoint(void)
{
    const char *whole = folder_of("room"), *folder = folder_of("no_room");
    const setup s = {.batch_size = 4};
    weft_trainer_options o = {.folder = whole};
    CHECK_OK(train(&s, o, NULL));
    struct stat adapter, training;
    CHECK(stat(run_file(whole, "step-8/adapter_model.safetensors"), &adapter) == 0);
    CHECK(stat(run_file(whole, "step-8/training.safetensors"), &training) == 0);
    CHECK(adapter.st_size + 100 < training.st_size);
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = (rlim_t)adapter.st_size + 100;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    o.folder = folder;
    const weft_status status = train(&s, o, NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_EQ_INT(status, WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "kept: the weights of update 8 in");
    CHECK_CONTAINS(weft_error_message(), "weights-8");
    CHECK(!run_has(folder, "step-8") && !run_has(folder, "last"));
    CHECK(rename(run_file(folder, "weights-8"), check_temporary("moved")) == 0);
    char *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    CHECK_OK(weft_file_read(run_file(whole, "last/adapter_model.safetensors"), 0, &a, &n_a));
    CHECK_OK(weft_file_read(run_file(check_temporary("moved"), "adapter_model.safetensors"), 0, &b,
                            &n_b));
    CHECK(n_a == n_b && n_a > 0 && memcmp(a, b, n_a) == 0);
    weft_free(a);
    weft_free(b);
}

CHECK_MAIN("resume", CHECK_CASE(the_last_weights_are_saved_without_a_checkpoint),
           CHECK_CASE(resumed_runs_end_with_the_same_bytes), CHECK_CASE(every_optimizer_is_resumed),
           CHECK_CASE(a_cancelled_validation_is_made_later),
           CHECK_CASE(dropout_is_a_function_of_the_update),
           CHECK_CASE(checkpoints_are_kept_and_last_points_to_the_newest),
           CHECK_CASE(last_points_to_the_checkpoint_that_was_resumed),
           CHECK_CASE(two_runs_do_not_share_a_folder), CHECK_CASE(a_damaged_checkpoint_is_skipped),
           CHECK_CASE(a_run_without_checkpoints_begins_again),
           CHECK_CASE(a_finished_run_stays_and_can_be_prolonged),
           CHECK_CASE(other_data_options_and_targets_are_refused),
           CHECK_CASE(another_base_is_refused), CHECK_CASE(the_command_line_is_kept),
           CHECK_CASE(a_full_disk_loses_nothing_that_was_saved))
