/* tests/train/test_general.c -- the loss of a general text before and after a run: where it is
 * measured, that it changes no weight, and that resumed runs keep it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"

enum { STEPS = 8 };

/* Samples that the run does not train. */
static weft_dataset *general_text(int vocabulary)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(RUN_LENGTH, &d));
    for (int i = 0; d && i < 3; i++) {
        int32_t ids[RUN_LENGTH];
        for (int j = 0; j < RUN_LENGTH; j++)
            ids[j] = (11 * i + 5 * j * j) % vocabulary;
        CHECK_OK(weft_dataset_add(d, ids, RUN_LENGTH - i, 0));
    }
    return d;
}

static weft_trainer_options options(const char *folder, const weft_dataset *general)
{
    return (weft_trainer_options){.steps = STEPS,
                                  .lr = 1e-2,
                                  .folder = folder,
                                  .validate_every = 2,
                                  .save_every = 1,
                                  .general = general};
}

static void check_same_bytes(const char *a, const char *b, const char *name)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    if (CHECK_OK(weft_file_read(run_file(a, name), 0, &x, &n)) &&
        CHECK_OK(weft_file_read(run_file(b, name), 0, &y, &m)) && CHECK_EQ_INT(n, m))
        CHECK_BYTES(x, y, n);
    weft_free(x);
    weft_free(y);
}

/* The updates whose report has the loss; the number of them. */
static int measured_at(const history *l, int64_t *steps)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        if (!isnan(l->reports[i].general_loss))
            steps[n++] = l->reports[i].step;
    }
    return n;
}

static void the_general_loss_is_measured_first_and_last(void)
{
    char with[512], without[512];
    snprintf(with, sizeof with, "%s", check_temporary("with"));
    snprintf(without, sizeof without, "%s", check_temporary("without"));
    weft_dataset *general = general_text(300);
    history l = {.n = 0}, plain = {.n = 0};
    weft_train_result r, none;
    int64_t steps[64] = {0};
    CHECK_OK(run_recipe(options(with, general), true, &l, &r));
    CHECK_OK(run_recipe(options(without, NULL), true, &plain, &none));
    CHECK_EQ_INT(measured_at(&l, steps), 2);
    CHECK(steps[0] == 0 && steps[1] == STEPS);
    CHECK_EQ_INT(measured_at(&plain, steps), 0);
    CHECK(isfinite(r.first_general) && isfinite(r.last_general));
    CHECK(r.first_general != r.last_general);
    CHECK(isnan(none.first_general) && isnan(none.last_general));
    /* The first one is the loss of the model before training. */
    weft_model *model = recipe_model(run_base, "initial");
    weft_evaluation found = {0};
    if (model && CHECK_OK(weft_evaluate(model, general, NULL, &found)))
        CHECK_RELATIVE(r.first_general, found.loss, 1e-6);
    weft_model_free(model);
    check_same_bytes(with, without, "last/adapter_model.safetensors");
    check_same_bytes(with, without, "best/adapter_model.safetensors");
    char *metrics = run_text(with, "metrics.jsonl"), *run = run_text(with, "run.json");
    CHECK_CONTAINS(metrics, "\"general_loss\": ");
    CHECK_CONTAINS(run, "\"first_general\": ");
    weft_free(metrics);
    weft_free(run);
    weft_dataset_free(general);
}

/* Without validation the first report has the loss of the general text alone. */
static void the_general_loss_needs_no_validation_data(void)
{
    weft_dataset *general = general_text(300);
    history l = {.n = 0};
    weft_train_result r;
    CHECK_OK(run_recipe(options(NULL, general), false, &l, &r));
    CHECK_EQ_INT(l.n, STEPS + 1);
    CHECK_EQ_INT(l.reports[0].step, 0);
    CHECK(isnan(l.reports[0].validation_loss) && !isnan(l.reports[0].general_loss));
    weft_dataset_free(general);
}

static void resumed_runs_keep_what_was_measured(void)
{
    char whole[512], parts[512];
    snprintf(whole, sizeof whole, "%s", check_temporary("whole"));
    snprintf(parts, sizeof parts, "%s", check_temporary("parts"));
    weft_dataset *general = general_text(300);
    history l = {.n = 0}, first = {.stop_after = 4}, rest = {.n = 0}, again = {.n = 0};
    weft_train_result r, stopped, resumed;
    int64_t steps[64] = {0};
    CHECK_OK(run_recipe(options(whole, general), true, &l, &r));
    CHECK_STATUS(run_recipe(options(parts, general), true, &first, &stopped), WEFT_CANCELLED);
    CHECK(stopped.first_general == r.first_general && isnan(stopped.last_general));
    weft_trainer_options o = options(parts, general);
    o.resume = true;
    CHECK_OK(run_recipe(o, true, &rest, &resumed));
    CHECK_EQ_INT(measured_at(&rest, steps), 1);
    CHECK(resumed.first_general == r.first_general && resumed.last_general == r.last_general);
    /* A finished run measures nothing again; an extended one measures its new end. */
    CHECK_OK(run_recipe(o, true, &again, &resumed));
    CHECK_EQ_INT(again.n, 0);
    CHECK(resumed.last_general == r.last_general);
    o.steps = STEPS + 2;
    CHECK_OK(run_recipe(o, true, &again, &resumed));
    CHECK_EQ_INT(measured_at(&again, steps), 1);
    CHECK_EQ_INT(steps[0], STEPS + 2);
    CHECK(resumed.first_general == r.first_general && resumed.last_general != r.last_general);
    weft_dataset_free(general);
}

/* A run that validation ends early is measured at its end. */
static void runs_without_patience_measure_their_end(void)
{
    weft_dataset *general = general_text(300);
    history l = {.n = 0};
    weft_train_result r;
    int64_t steps[64] = {0};
    weft_trainer_options o = options(NULL, general);
    o.steps = 60;
    o.lr = 0.3;
    o.patience = 3;
    CHECK_OK(run_recipe(o, true, &l, &r));
    CHECK(r.steps < 60);
    CHECK_EQ_INT(measured_at(&l, steps), 2);
    CHECK_EQ_INT(steps[1], r.steps);
    weft_dataset_free(general);
}

static void ids_beyond_the_vocabulary_are_refused(void)
{
    weft_dataset *general = general_text(100000);
    history l = {.n = 0};
    CHECK_STATUS(run_recipe(options(NULL, general), false, &l, NULL), WEFT_INVALID);
    weft_dataset_free(general);
}

/* A rank of a run whose general text becomes invalid before update `breaks` (0: never). */
typedef struct rank_run {
    weft_model *model;
    weft_dataset *data, *general;
    weft_batches *batches;
    int64_t breaks;
    weft_train_result result;
    weft_status status;
    char message[512];
} rank_run;

static bool break_text(void *context, const weft_train_report *report)
{
    rank_run *r = context;
    for (int i = 0; i < 3 && report->step == r->breaks; i++)
        ((int32_t *)weft_dataset_at(r->general, i).ids)[1] = 1 << 24;
    return true;
}

static void train_rank(weft_group *group, void *argument)
{
    rank_run *r = argument;
    weft_trainer *trainer = NULL;
    weft_trainer_options o = options(NULL, r->general);
    o.group = group;
    o.callback = break_text;
    o.context = r;
    r->status = weft_trainer_new(r->model, &o, &trainer);
    if (r->status == WEFT_OK)
        r->status = weft_trainer_run(trainer, r->batches, NULL, &r->result);
    snprintf(r->message, sizeof r->message, "%s", r->status == WEFT_OK ? "" : weft_error_message());
    weft_trainer_free(trainer);
}

static void count_warnings(void *context, weft_log_level level, const char *message)
{
    *(int *)context += level == WEFT_LOG_WARNING && strstr(message, "of the general text was not");
}

/* In one process the run continues with a warning; in a group all ranks end, with the message of
 * the one that failed. */
static void a_failure_is_reported(void)
{
    for (int n = 1; n <= 3; n += 2) {
        rank_run runs[3] = {{.breaks = 0}};
        int warnings = 0;
        for (int i = 0; i < n; i++) {
            const weft_nn_lora_options lora = {.rank = 4};
            runs[i] = (rank_run){.data = general_text(200),
                                 .general = general_text(300),
                                 .model = recipe_model(run_base, NULL),
                                 .breaks = i == n - 1 ? STEPS - 1 : -1};
            weft_random_seed(5);
            if (runs[i].model == NULL ||
                !CHECK_OK(weft_nn_lora_inject(weft_model_module(runs[i].model), &lora)) ||
                !CHECK_OK(weft_batches_new(runs[i].data, 1, 0, &runs[i].batches)))
                return;
        }
        weft_set_log(count_warnings, &warnings);
        ranks_run(n, train_rank, runs, sizeof *runs);
        weft_set_log(NULL, NULL);
        CHECK_EQ_INT(warnings, n == 1);
        for (int i = 0; i < n; i++) {
            CHECK_EQ_INT(runs[i].status == WEFT_OK, n == 1);
            CHECK_EQ_INT(runs[i].result.steps, STEPS);
            CHECK(isfinite(runs[i].result.first_general) && isnan(runs[i].result.last_general));
            if (n > 1 && !CHECK(strncmp(runs[i].message, "rank 2: ", 8) == 0))
                CHECK_FAIL("%s", runs[i].message);
            weft_batches_free(runs[i].batches);
            weft_dataset_free(runs[i].data);
            weft_dataset_free(runs[i].general);
            weft_model_free(runs[i].model);
        }
    }
}

CHECK_MAIN("general", CHECK_CASE(the_general_loss_is_measured_first_and_last),
           CHECK_CASE(the_general_loss_needs_no_validation_data),
           CHECK_CASE(resumed_runs_keep_what_was_measured),
           CHECK_CASE(runs_without_patience_measure_their_end),
           CHECK_CASE(ids_beyond_the_vocabulary_are_refused), CHECK_CASE(a_failure_is_reported))
