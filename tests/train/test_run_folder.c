/* tests/train/test_run_folder.c -- files that a run writes, when it writes them, and runs without
 * disk space. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/train/runs.h"
#include "weft/tool/run.h"

enum { STEPS = 4 };

/* ---- files of a run ------------------------------------------------------------------------- */

/* Checks that the folder cannot be loaded as an adapter. */
static void expect_no_adapter(const char *path, const char *message)
{
    weft_model *model = recipe_model(run_base, NULL);
    if (model) {
        CHECK_STATUS(weft_adapter_load(model, path, NULL), WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), message);
    }
    weft_model_free(model);
}

static void the_folder_has_everything(void)
{
    history l = {.n = 0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("new/run"));
    const weft_trainer_options o = {.steps = STEPS,
                                    .lr = 1e-2,
                                    .folder = folder,
                                    .validate_every = 2,
                                    .save_every = 1,
                                    .base_name = "the/base"};
    if (!CHECK_OK(run_recipe(o, true, &l, NULL)))
        return;
    CHECK(run_has(folder, "last/adapter_model.safetensors"));
    CHECK(run_has(folder, "best/adapter_config.json"));
    expect_no_adapter(folder, "the folder of a run, not an adapter: its adapters are ");
    expect_no_adapter(run_file(folder, "run.json"), "not an adapter: expected a folder with ");
    expect_no_adapter(run_file(folder, "none"),
                      "there is no such adapter: expected a folder with ");
    char *text = run_text(folder, "metrics.jsonl"), *line = text;
    for (int s = 0; s <= STEPS; s++) {
        long long step = -1;
        double loss = NAN, norm = NAN;
        sscanf(line, "{\"step\": %lld, \"loss\": %lf, \"grad_norm\": %lf", &step, &loss, &norm);
        CHECK_EQ_INT(step, s);
        CHECK(s > 0 || (isnan(loss) && strstr(line, "\"seconds\": ") != NULL));
        CHECK(s == 0 || (loss == l.reports[s].loss && norm == l.reports[s].grad_norm));
        char *end = strchr(line, '\n');
        CHECK(end != NULL);
        if (end == NULL)
            break;
        *end = '\0';
        CHECK((strstr(line, "validation_loss") != NULL) == (s % 2 == 0));
        line = end + 1;
    }
    CHECK_STR(line, "");
    weft_free(text);
    text = run_text(folder, "loss.svg");
    CHECK_CONTAINS(text, "<svg");
    CHECK_CONTAINS(text, "validation");
    CHECK_CONTAINS(text, "</svg>");
    weft_free(text);
    text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "\"name\": \"the/base\"");
    CHECK_CONTAINS(text, "\"state\": \"finished\"");
    CHECK_CONTAINS(text, "\"lr\": 0.01,");
    weft_free(text);
}

static void unwritable_folders_stop_the_run_at_once(void)
{
    history l = {.n = 0};
    const char *path = check_temporary("a_file");
    CHECK_OK(weft_file_write(path, "x", 1));
    char folder[512];
    snprintf(folder, sizeof folder, "%s/run", path);
    CHECK_STATUS(run_recipe((weft_trainer_options){.steps = 2, .folder = folder}, false, &l, NULL),
                 WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "a_file");
    CHECK_EQ_INT(l.n, 0);
}

/* A limit on the size of files acts like a full disk: a write fails half-way. */
static weft_status run_with_room(rlim_t bytes, weft_trainer_options o, bool validated, history *l,
                                 weft_train_result *result)
{
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const weft_status status = run_recipe(o, validated, l, result);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    return status;
}

/* A run that cannot write its first file leaves no folder, so the same command works later. */
static void a_run_that_does_not_begin_leaves_nothing(void)
{
    history l = {.n = 0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("unbegun/deep/run"));
    const weft_trainer_options o = {.steps = 1, .folder = folder};
    CHECK_EQ_INT(run_with_room(20, o, false, &l, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "run.json");
    CHECK_EQ_INT(l.n, 0);
    CHECK(access(check_temporary("unbegun"), F_OK) != 0);
    CHECK_OK(run_recipe(o, false, &l, NULL));
}

/* The run continues, and reports at its end what is missing. */
static void a_full_disk_leaves_whole_lines(void)
{
    history l = {.n = 0};
    char folder[512];
    weft_train_result result = {0};
    snprintf(folder, sizeof folder, "%s", check_temporary("full"));
    const weft_trainer_options o = {.steps = 12, .folder = folder};
    CHECK_EQ_INT(run_with_room(1700, o, false, &l, &result), WEFT_IO);
    CHECK_EQ_INT(result.steps, 12);
    CHECK_CONTAINS(weft_error_message(), "step-12");
    CHECK_CONTAINS(weft_error_message(), "nothing was saved before");
    char *text = run_text(folder, "metrics.jsonl");
    const size_t n = strlen(text);
    CHECK(n > 0 && n <= 1700 && text[n - 1] == '\n');
    CHECK(!run_has(folder, "last/adapter_model.safetensors"));
    weft_free(text);
    text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "\"state\": \"failed\"");
    CHECK_CONTAINS(text, "\"message\": ");
    CHECK_CONTAINS(text, "nothing was saved before");
    weft_free(text);
}

/* An adapter that was measured but not saved is not the best: best/ does not contain it. */
static void the_best_is_one_that_was_saved(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("best"));
    const weft_trainer_options o = {
        .steps = 4, .lr = 1e-2, .folder = folder, .validate_every = 2, .patience = 1};
    for (int k = 0; k < 2; k++) {
        history l = {.n = 0};
        weft_train_result result = {0};
        weft_trainer_options options = o;
        options.overwrite = k > 0;
        if (k == 0)
            CHECK_EQ_INT(run_with_room(1700, options, true, &l, &result), WEFT_IO);
        else
            CHECK_OK(run_recipe(options, true, &l, &result));
        CHECK_EQ_INT(result.steps, 4); /* without a best one patience does not run out */
        CHECK(result.last_validation < result.first_validation);
        CHECK_EQ_INT(result.best_step, k == 0 ? 0 : 4);
        CHECK(isnan(result.best_validation) == (k == 0));
        CHECK(run_has(folder, "best/adapter_model.safetensors") == (k > 0));
        CHECK(run_has(folder, "best") == (k > 0));
    }
}

/* With such a small learning rate all validation losses are equal. */
static void the_first_of_equal_validations_is_the_best(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("tie"));
    history l = {.n = 0};
    weft_train_result result = {0};
    const weft_trainer_options o = {.steps = 3, .lr = 1e-30, .folder = folder, .validate_every = 1};
    CHECK_OK(run_recipe(o, true, &l, &result));
    CHECK_EQ_INT(result.steps, 3);
    CHECK(result.last_validation == result.first_validation);
    CHECK(result.best_validation == result.first_validation);
    CHECK_EQ_INT(result.best_step, 1);
}

/* Of a large file only some blocks are hashed, among them always the first and the last. */
static void other_ends_of_a_large_base_are_refused(void)
{
    enum { LARGE = 41 << 16 };
    char folder[512], base[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("large"));
    snprintf(base, sizeof base, "%s", check_temporary("large.safetensors"));
    char *bytes = weft_calloc(LARGE, 1);
    weft_trainer_options o = {.steps = 2, .lr = 1e-2, .folder = folder, .base_name = base};
    history l = {.stop_after = 1};
    if (!CHECK(bytes != NULL) || !CHECK_OK(weft_file_write(base, bytes, LARGE)))
        return;
    CHECK_STATUS(run_recipe(o, false, &l, NULL), WEFT_CANCELLED);
    o.resume = true;
    for (int at = 0; at < LARGE; at += LARGE - 1) {
        bytes[at] = 1;
        CHECK_OK(weft_file_write(base, bytes, LARGE));
        CHECK_STATUS(run_recipe(o, false, &l, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "the base model has changed");
        bytes[at] = 0;
    }
    CHECK_OK(weft_file_write(base, bytes, LARGE));
    CHECK_OK(run_recipe(o, false, &(history){.n = 0}, NULL));
    weft_free(bytes);
}

static char logged[4096];

static void keep_log(void *context, weft_log_level level, const char *message)
{
    const size_t n = strlen(logged);
    (void)context;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", message);
}

/* The next best adapters do not fit on the disk: best/ keeps the previous one completely, and
 * best_step is its update, from which patience is counted. Once there is space, the run saves
 * them. */
static void a_full_disk_keeps_the_best_before(void)
{
    char folder[512];
    char *before = NULL, *after = NULL;
    size_t n_before = 0, n_after = 0;
    history l = {.stop_after = 2}; /* of update 0 and update 1 */
    weft_train_result result = {0};
    snprintf(folder, sizeof folder, "%s", check_temporary("best_before"));
    weft_trainer_options o = {
        .steps = 4, .lr = 1e-2, .folder = folder, .validate_every = 1, .patience = 1};
    CHECK_STATUS(run_recipe(o, true, &l, &result), WEFT_CANCELLED);
    CHECK_EQ_INT(result.best_step, 1);
    CHECK_OK(
        weft_file_read(run_file(folder, "best/adapter_model.safetensors"), 0, &before, &n_before));
    o.resume = true;
    l = (history){.n = 0};
    logged[0] = '\0';
    weft_set_log(keep_log, NULL);
    CHECK_EQ_INT(run_with_room((rlim_t)n_before / 2, o, true, &l, &result), WEFT_IO);
    weft_set_log(NULL, NULL);
    CHECK_CONTAINS(weft_error_message(), "kept: update 1 in");
    CHECK_CONTAINS(logged, "best_before/best");
    CHECK_CONTAINS(logged, "training continues");
    CHECK_EQ_INT(result.steps, 2);
    CHECK_EQ_INT(result.best_step, 1);
    CHECK(result.last_validation < result.best_validation);
    CHECK_OK(
        weft_file_read(run_file(folder, "best/adapter_model.safetensors"), 0, &after, &n_after));
    CHECK(n_after == n_before && n_after > 0 && memcmp(after, before, n_after) == 0);
    CHECK(run_has(folder, "best/adapter_config.json"));
    weft_free(after);
    l = (history){.n = 0};
    CHECK_OK(run_recipe(o, true, &l, &result));
    CHECK_EQ_INT(result.best_step, 4);
    CHECK_OK(
        weft_file_read(run_file(folder, "best/adapter_model.safetensors"), 0, &after, &n_after));
    CHECK(n_after == n_before && memcmp(after, before, n_after) != 0);
    weft_free(after);
    weft_free(before);
}

/* A resumed run that finds a FIFO in place of its records does not wait for a writer. */
static void fifos_in_a_runs_folder_are_refused(void)
{
    static const char *const names[] = {"metrics.jsonl", "run.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        history l = {.n = 0};
        char folder[512], path[600];
        snprintf(folder, sizeof folder, "%s", check_temporary(names[i]));
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        weft_trainer_options o = {.steps = 2, .lr = 1e-2, .folder = folder, .save_every = 1};
        CHECK_OK(run_recipe(o, false, &l, NULL));
        CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
        o.resume = true;
        o.steps = 3;
        alarm(60);
        CHECK_STATUS(run_recipe(o, false, &l, NULL), WEFT_IO);
        alarm(0);
        CHECK_CONTAINS(weft_error_message(), names[i]);
        CHECK_CONTAINS(weft_error_message(), ": not a regular file");
    }
}

/* ---- runs in a folder that has one ---------------------------------------------------------- */

static void a_run_is_overwritten_only_on_request(void)
{
    history l = {.n = 0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("twice"));
    weft_trainer_options o = {.steps = 2, .lr = 1e-2, .folder = folder};
    CHECK(!weft_run_exists(folder));
    CHECK_OK(run_recipe(o, true, &l, NULL));
    CHECK(weft_run_exists(folder) && run_has(folder, "best/adapter_config.json"));
    char *before = run_text(folder, "metrics.jsonl");
    l.n = 0;
    CHECK_STATUS(run_recipe(o, false, &l, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "has a run already");
    CHECK_EQ_INT(l.n, 0);
    char *after = run_text(folder, "metrics.jsonl");
    CHECK_STR(after, before);
    o.overwrite = true;
    CHECK_OK(run_recipe(o, false, &l, NULL));
    CHECK(run_has(folder, "last/adapter_config.json"));
    CHECK(!run_has(folder, "best")); /* the old run's */
    weft_free(before);
    weft_free(after);
}

/* ---- when a run is saved -------------------------------------------------------------------- */

typedef struct watcher {
    const char *folder;
    weft_cancel *cancel;
    int64_t saved_at; /* the first report that found `last` */
} watcher;

static bool look_for_last(void *context, const weft_train_report *report)
{
    watcher *w = context;
    if (w->saved_at < 0 && run_has(w->folder, "last/adapter_config.json"))
        w->saved_at = report->step;
    if (w->cancel && report->step == 2)
        weft_cancel_set(w->cancel);
    return true;
}

/* A run with its own callback. */
static weft_status run_watched(weft_trainer_options o, watcher *w, weft_train_result *result)
{
    weft_model *model = recipe_model(run_base, "initial");
    weft_dataset *d = run_samples();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_status status = WEFT_INVALID;
    o.folder = w->folder;
    o.callback = look_for_last;
    o.context = w;
    o.cancel = w->cancel;
    if (model && d && CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        status = weft_trainer_run(trainer, batches, w->cancel ? d : NULL, result);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
    return status;
}

static void a_run_is_saved_after_a_time_interval(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("timed"));
    watcher w = {.folder = folder, .saved_at = -1};
    CHECK_OK(run_watched((weft_trainer_options){.steps = 4, .save_minutes = 1e-9}, &w, NULL));
    CHECK_EQ_INT(w.saved_at, 2); /* saved after update 1 was reported */
    w.saved_at = -1;
    const weft_trainer_options never = {.steps = 4, .save_minutes = -1, .overwrite = true};
    CHECK_OK(run_watched(never, &w, NULL));
    CHECK_EQ_INT(w.saved_at, -1);
    CHECK(run_has(folder, "last/adapter_config.json"));
}

static void cancelling_saves_and_stops(void)
{
    char folder[512];
    weft_train_result result = {0};
    snprintf(folder, sizeof folder, "%s", check_temporary("signaled"));
    watcher w = {.folder = folder, .cancel = weft_cancel_new(), .saved_at = -1};
    const weft_trainer_options o = {.steps = 9, .validate_every = 1};
    CHECK_STATUS(run_watched(o, &w, &result), WEFT_CANCELLED);
    CHECK_EQ_INT(result.steps, 2);
    CHECK(result.training_seconds > 0 && result.training_seconds < result.seconds);
    char *text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "\"state\": \"stopped\"");
    weft_free(text);
    CHECK(run_has(folder, "last/adapter_config.json"));
    /* A flag that is set from the start stops validation, too. */
    watcher early = {.folder = check_temporary("early"), .cancel = w.cancel, .saved_at = -1};
    CHECK_STATUS(run_watched(o, &early, &result), WEFT_CANCELLED);
    CHECK_EQ_INT(result.steps, 0);
    CHECK(isnan(result.first_validation));
    weft_cancel_free(w.cancel);
}

/* A run without memory for its first update leaves nothing, so the same command works later. */
static void a_run_without_memory_leaves_nothing(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("short/run"));
    weft_model *model = recipe_model(run_base, NULL);
    weft_dataset *samples = run_samples();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = {.steps = 2,
                                    .folder = folder,
                                    .micro_batch = -1,
                                    .objective = run_demanding(&weft_objective_supervised)};
    if (model && samples && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL)) &&
        CHECK_OK(weft_batches_new(samples, 4, 1, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        run_shortage.model = model;
        run_shortage.most = 0;
        CHECK_STATUS(weft_trainer_run(trainer, batches, NULL, NULL), WEFT_MEMORY);
        run_shortage.model = NULL;
        CHECK(access(check_temporary("short"), F_OK) != 0);
    }
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(samples);
    weft_model_free(model);
}

/* Lines after a malformed line of metrics.jsonl are kept when a run is resumed. */
static void a_bad_line_deletes_nothing(void)
{
    history l = {.n = 0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("badline"));
    weft_trainer_options o = {.steps = 4, .lr = 1e-2, .folder = folder};
    CHECK_OK(run_recipe(o, false, &l, NULL));
    char *text = run_text(folder, "metrics.jsonl");
    CHECK(text[0] == '{');
    text[0] = '!';
    CHECK_OK(weft_file_write(run_file(folder, "metrics.jsonl"), text, strlen(text)));
    o.resume = true;
    o.steps = 5;
    CHECK_OK(run_recipe(o, false, &l, NULL));
    char *after = run_text(folder, "metrics.jsonl");
    CHECK(strncmp(after, text, strlen(text)) == 0);
    CHECK_CONTAINS(after, "{\"step\": 5, ");
    weft_free(after);
    weft_free(text);
}

CHECK_MAIN("run_folder", CHECK_CASE(a_run_without_memory_leaves_nothing),
           CHECK_CASE(a_bad_line_deletes_nothing), CHECK_CASE(the_folder_has_everything),
           CHECK_CASE(unwritable_folders_stop_the_run_at_once),
           CHECK_CASE(a_run_that_does_not_begin_leaves_nothing),
           CHECK_CASE(a_full_disk_leaves_whole_lines), CHECK_CASE(the_best_is_one_that_was_saved),
           CHECK_CASE(the_first_of_equal_validations_is_the_best),
           CHECK_CASE(other_ends_of_a_large_base_are_refused),
           CHECK_CASE(a_full_disk_keeps_the_best_before),
           CHECK_CASE(fifos_in_a_runs_folder_are_refused),
           CHECK_CASE(a_run_is_overwritten_only_on_request),
           CHECK_CASE(a_run_is_saved_after_a_time_interval), CHECK_CASE(cancelling_saves_and_stops))
