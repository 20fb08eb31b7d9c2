/* tests/train/test_trainer.c -- training runs: what they compute, how they stop, and the meaning of
 * accumulation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/runs.h"
#include "weft/nn_tools.h"

enum { STEPS = 4 };

static const recipe *const r = &recipes[1]; /* llama */

/* ---- what a run does ------------------------------------------------------------------------ */

static void a_run_learns_and_reports(void)
{
    history l = {.n = 0};
    weft_train_result result = {0};
    const weft_trainer_options o = {.epochs = 8,
                                    .lr = 1e-2,
                                    .clip = 1,
                                    .validate_every = 6,
                                    .schedule = "linear",
                                    .warmup_share = 0.1};
    if (!CHECK_OK(run_recipe(o, true, &l, &result)))
        return;
    CHECK_EQ_INT(l.n, 25); /* step 0, then 8 epochs of 3 batches */
    CHECK_EQ_INT(l.reports[0].step, 0);
    CHECK(isnan(l.reports[0].loss) && isfinite(l.reports[0].validation_loss));
    CHECK(isnan(l.reports[5].validation_loss) && isfinite(l.reports[6].validation_loss));
    CHECK_EQ_INT(result.steps, 24);
    CHECK_EQ_INT(result.skipped, 0);
    CHECK(result.last_validation < result.first_validation - 0.1);
    CHECK(result.best_validation <= result.last_validation);
    CHECK_CLOSE(result.loss, l.reports[24].loss, 0);
    CHECK_CLOSE(l.reports[24].epoch, 8, 1e-12);
    CHECK_CLOSE(l.reports[1].lr, 1e-2 / 3, 1e-12); /* 10 % of 24 updates: 3 */
    CHECK_CLOSE(l.reports[4].lr, 1e-2, 1e-12);
    CHECK_CLOSE(l.reports[13].lr, 1e-2 * (24 - 12) / (24 - 3), 1e-12); /* as in transformers */
    CHECK(result.peak_memory > 0 && result.tokens == l.reports[24].total_tokens);
    CHECK_CLOSE(l.reports[24].remaining, 0, 0);
    for (int i = 1; i <= 24; i++) {
        CHECK(l.reports[i].tokens > 0 && l.reports[i].tokens_per_second > 0);
        CHECK(i == 24 || l.reports[i].remaining > 0);
    }
}

/* ---- some samples at a time ----------------------------------------------------------------- */

typedef struct log_lines {
    char text[2000];
} log_lines;

static void keep_line(void *context, weft_log_level level, const char *text)
{
    log_lines *l = context;
    const size_t n = strlen(l->text);
    (void)level;
    snprintf(l->text + n, sizeof l->text - n, "%s\n", text);
}

typedef struct setting {
    int64_t micro;
    double dropout;
    bool compile;
    int64_t limit; /* limit of the bytes beyond those at the start of the trainer; 0: none */
} setting;

/* Two updates of one batch of all samples, from the same start: their reports. *peak is the peak of
 * the bytes beyond those at the start of the trainer. */
static weft_status two_updates(setting how, int64_t *peak, weft_train_report *reports)
{
    weft_dataset *d = run_samples();
    weft_sample rows[RUN_SAMPLES];
    weft_batch batch;
    weft_model *model = NULL;
    weft_trainer *trainer = NULL;
    weft_trainer_options o = recipe_options(r);
    const weft_nn_lora_options lora = {.dropout = how.dropout};
    o.micro_batch = how.micro;
    o.compile = how.compile;
    for (int i = 0; i < RUN_SAMPLES; i++)
        rows[i] = weft_dataset_at(d, i);
    CHECK_OK(weft_batch_of_samples(rows, RUN_SAMPLES, &batch));
    CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model));
    weft_random_seed(3);
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &lora));
    CHECK_OK(weft_nn_eval(weft_model_module(model)));
    weft_status status = weft_trainer_new(model, &o, &trainer);
    const int64_t before = weft_memory_active();
    weft_memory_reset_peak();
    if (how.limit > 0)
        weft_memory_set_limit(before + how.limit);
    for (int s = 0; s < 2 && status == WEFT_OK; s++)
        status = weft_trainer_step(trainer, &batch, 1, 1, &reports[s]);
    weft_memory_set_limit(INT64_MAX);
    *peak = weft_memory_peak() - before;
    weft_trainer_free(trainer);
    weft_model_free(model);
    weft_batch_free(&batch);
    weft_dataset_free(d);
    return status;
}

static void check_same(const weft_train_report *a, const weft_train_report *b)
{
    for (int s = 0; s < 2; s++) {
        CHECK_RELATIVE(a[s].loss, b[s].loss, 1e-6);
        CHECK_RELATIVE(a[s].grad_norm, b[s].grad_norm, 1e-6);
        CHECK_EQ_INT(a[s].tokens, b[s].tokens);
    }
}

/* Dropout too: a row's mask does not depend on the rows beside it. */
static void micro_batches_change_nothing(void)
{
    static const int64_t sizes[] = {1, 2, 5, RUN_SAMPLES, 100};
    for (int k = 0; k < 4; k++) {
        setting how = {.micro = -1, .dropout = k % 2 ? 0.3 : 0, .compile = k > 1};
        weft_train_report whole[2], parts[2];
        int64_t peak, less;
        CHECK_OK(two_updates(how, &peak, whole));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            how.micro = sizes[i];
            CHECK_OK(two_updates(how, &less, parts));
            check_same(parts, whole);
            printf("  %s%d at a time: %lld bytes of %lld\n", how.compile ? "compiled, " : "",
                   (int)sizes[i], (long long)less, (long long)peak);
            CHECK(sizes[i] > 2 || less < peak / 2);
        }
    }
}

/* An update without enough memory is repeated with half as many samples at a time. */
static void fewer_samples_are_taken(bool compile)
{
    weft_train_report whole[2], parts[2];
    int64_t peak, one, taken;
    log_lines lines = {""};
    setting how = {.micro = -1, .dropout = 0.3, .compile = compile};
    CHECK_OK(two_updates(how, &peak, whole));
    how.micro = 1;
    CHECK_OK(two_updates(how, &one, parts));
    weft_set_log(keep_line, &lines);
    how = (setting){.dropout = 0.3, .compile = compile, .limit = peak * 3 / 4};
    CHECK_OK(two_updates(how, &taken, parts));
    CHECK_CONTAINS(lines.text, "update 1: out of memory; from now on batches are computed 6 "
                               "samples at a time");
    CHECK(taken <= peak * 3 / 4);
    check_same(parts, whole);
    how.limit = one * 11 / 10;
    CHECK_OK(two_updates(how, &taken, parts));
    CHECK_CONTAINS(lines.text, "computed 1 samples at a time");
    check_same(parts, whole);
    lines.text[0] = '\0';
    how = (setting){.micro = -1, .dropout = 0.3, .compile = compile, .limit = peak * 3 / 4};
    CHECK_STATUS(two_updates(how, &taken, parts), WEFT_MEMORY);
    how.micro = 6;
    how.limit = peak / 4;
    CHECK_STATUS(two_updates(how, &taken, parts), WEFT_MEMORY);
    CHECK_STR(lines.text, "");
    how.micro = 0;
    how.limit = one / 2;
    CHECK_STATUS(two_updates(how, &taken, parts), WEFT_MEMORY);
    CHECK_CONTAINS(weft_error_message(), "memory limit reached");
    weft_set_log(NULL, NULL);
}

static void without_memory_fewer_samples_are_taken(void)
{
    fewer_samples_are_taken(false);
}

static void compiled_updates_take_fewer_too(void)
{
    fewer_samples_are_taken(true);
}

/* Two updates of three batches each are the same as two of one batch with all their rows, compiled
 * or not. */
static void accumulation_weighs_every_target_alike(void)
{
    weft_dataset *d = run_samples();
    weft_batch parts[3], whole;
    weft_sample rows[RUN_SAMPLES];
    for (int i = 0; i < RUN_SAMPLES; i++)
        rows[i] = weft_dataset_at(d, i);
    CHECK_OK(weft_batch_of_samples(rows, 2, &parts[0])); /* of different sizes */
    CHECK_OK(weft_batch_of_samples(rows + 2, 3, &parts[1]));
    CHECK_OK(weft_batch_of_samples(rows + 5, 7, &parts[2]));
    CHECK_OK(weft_batch_of_samples(rows, RUN_SAMPLES, &whole));
    weft_train_report reports[3][2] = {{{0}}};
    for (int k = 0; k < 3; k++) {
        weft_model *model = recipe_model(r, "initial");
        weft_trainer *trainer = NULL;
        weft_trainer_options o = recipe_options(r);
        o.compile = k == 2;
        if (model && CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
            for (int s = 0; s < 2; s++)
                CHECK_OK(
                    weft_trainer_step(trainer, k ? parts : &whole, k ? 3 : 1, 1, &reports[k][s]));
        }
        weft_trainer_free(trainer);
        weft_model_free(model);
    }
    for (int i = 0; i < 4; i++) {
        const weft_train_report *a = &reports[1 + i / 2][i % 2], *b = &reports[0][i % 2];
        CHECK_RELATIVE(a->loss, b->loss, 1e-6);
        CHECK_RELATIVE(a->grad_norm, b->grad_norm, 1e-5);
        CHECK_EQ_INT(a->tokens, b->tokens);
    }
    for (int i = 0; i < 3; i++)
        weft_batch_free(&parts[i]);
    weft_batch_free(&whole);
    weft_dataset_free(d);
}

/* A target of weight w counts as much as w samples with it, in the loss and its gradient: for a
 * single batch, compiled, and for several batches in an update. */
static void weights_multiply_targets(void)
{
    weft_dataset *d = run_samples();
    enum { ROWS = 3 };
    weft_sample rows[ROWS + 2], repeated[ROWS + 2];
    float weights[RUN_LENGTH];
    for (int i = 0; i < ROWS; i++)
        rows[i] = repeated[i] = weft_dataset_at(d, i);
    for (int64_t i = 0; i < rows[0].length; i++)
        weights[i] = 3 * rows[0].weights[i];
    rows[0].weights = weights;
    repeated[ROWS] = repeated[ROWS + 1] = repeated[0];
    weft_batch batch, parts[2], whole;
    CHECK_OK(weft_batch_of_samples(rows, ROWS, &batch));
    CHECK_OK(weft_batch_of_samples(rows, 1, &parts[0]));
    CHECK_OK(weft_batch_of_samples(rows + 1, ROWS - 1, &parts[1]));
    CHECK_OK(weft_batch_of_samples(repeated, ROWS + 2, &whole));
    weft_train_report reports[4] = {{0}};
    for (int k = 0; k < 4; k++) {
        weft_model *model = recipe_model(r, "initial");
        weft_trainer *trainer = NULL;
        weft_trainer_options o = recipe_options(r);
        o.compile = k == 2;
        const weft_batch *chosen = k == 0 ? &whole : k == 3 ? parts : &batch;
        if (model && CHECK_OK(weft_trainer_new(model, &o, &trainer)))
            CHECK_OK(weft_trainer_step(trainer, chosen, k == 3 ? 2 : 1, 1, &reports[k]));
        weft_trainer_free(trainer);
        weft_model_free(model);
        CHECK_RELATIVE(reports[k].loss, reports[0].loss, 1e-6);
        CHECK_RELATIVE(reports[k].grad_norm, reports[0].grad_norm, 1e-5);
    }
    weft_batch_free(&batch);
    weft_batch_free(&parts[0]);
    weft_batch_free(&parts[1]);
    weft_batch_free(&whole);
    weft_dataset_free(d);
}

static void defaults_are_reported(void)
{
    history l = {.n = 0};
    CHECK_OK(run_recipe((weft_trainer_options){0}, false, &l, NULL));
    CHECK_EQ_INT(l.n, 3); /* one epoch of 12 samples, 4 a batch */
    CHECK_CLOSE(l.reports[0].lr, 1e-5, 0);
    CHECK_CLOSE(l.reports[2].lr, 1e-5, 0);
}

static void the_same_seed_gives_the_same_run(void)
{
    history a = {.n = 0}, b = {.n = 0};
    const weft_trainer_options o = {.steps = STEPS, .accumulate = 2, .lr = 1e-2};
    CHECK_OK(run_recipe(o, false, &a, NULL));
    CHECK_OK(run_recipe(o, false, &b, NULL));
    CHECK_EQ_INT(a.n, STEPS);
    for (int i = 0; i < a.n && i < b.n; i++) {
        CHECK_CLOSE(a.reports[i].loss, b.reports[i].loss, 0);
        CHECK_CLOSE(a.reports[i].grad_norm, b.reports[i].grad_norm, 0);
    }
}

static bool compiled; /* whether updates are */

/* Two updates with dropout, and the loss that evaluation sees after them. */
static double losses_with_dropout(bool checkpoint, double dropout, double losses[2])
{
    weft_model *model = recipe_model(r, NULL);
    weft_dataset *d = run_samples();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_evaluation found = {0};
    history l = {.n = 0};
    weft_random_seed(5); /* of the adapter's start */
    const weft_nn_lora_options lora = {.dropout = dropout};
    const weft_trainer_options o = {.steps = 2,
                                    .lr = 1e-2,
                                    .checkpoint = checkpoint,
                                    .compile = compiled,
                                    .seed = 3,
                                    .callback = run_keep,
                                    .context = &l};
    if (model && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &lora)) &&
        CHECK_OK(weft_batches_new(d, RUN_SAMPLES, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)) &&
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, NULL)))
        CHECK_OK(weft_evaluate(model, d, NULL, &found));
    for (int i = 0; i < 2; i++)
        losses[i] = l.reports[i].loss;
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
    return found.loss;
}

/* B is zero at first: dropout shows in the second update. It is drawn from the seed alone. */
static void dropout_is_on_in_updates_only(void)
{
    double plain[2], dropped[2], again[2], checkpointed[2];
    losses_with_dropout(false, 0, plain);
    const double loss = losses_with_dropout(false, 0.5, dropped);
    CHECK_CLOSE(losses_with_dropout(false, 0.5, again), loss, 0);
    CHECK_RELATIVE(losses_with_dropout(true, 0.5, checkpointed), loss, 1e-6);
    CHECK_CLOSE(dropped[0], plain[0], 0);
    CHECK(fabs(dropped[1] - plain[1]) > 1e-4);
    CHECK_CLOSE(again[1], dropped[1], 0);
    CHECK_RELATIVE(checkpointed[1], dropped[1], 1e-6);
}

static void compiled_updates_are_the_same(void)
{
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        double plain[2], fast[2], dropped[2];
        const double loss = losses_with_dropout(checkpoint, 0, plain);
        compiled = true;
        CHECK_RELATIVE(losses_with_dropout(checkpoint, 0, fast), loss, 1e-6);
        CHECK_CLOSE(fast[0], plain[0], 0);
        CHECK_CLOSE(fast[1], plain[1], 0);
        losses_with_dropout(checkpoint, 0.5, dropped);
        CHECK_RELATIVE(dropped[0], plain[0], 1e-6);
        CHECK(fabs(dropped[1] - plain[1]) > 1e-4);
        compiled = false;
    }
}

/* Without adapters whole parameters are trained, and the model is saved. */
static void models_without_adapters_train_too(void)
{
    weft_model *model = recipe_model(r, NULL);
    weft_dataset *d = run_samples();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_train_result result = {0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("whole"));
    const weft_trainer_options o = {.steps = 6, .lr = 1e-3, .folder = folder};
    if (model && CHECK_OK(weft_batches_new(d, 4, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)) &&
        CHECK_OK(weft_trainer_run(trainer, batches, d, &result))) {
        CHECK(result.last_validation < result.first_validation);
        weft_model *again = NULL;
        weft_evaluation found;
        if (CHECK_OK(weft_model_load(run_file(folder, "last"), NULL, &again)) &&
            CHECK_OK(weft_evaluate(again, d, NULL, &found)))
            CHECK_CLOSE(found.loss, result.last_validation, 1e-5);
        weft_model_free(again);
    }
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
}

/* ---- how a run stops ------------------------------------------------------------------------ */

/* A watcher gets the same reports as the callback. */
typedef struct updates {
    double losses[8], norms[8], rates[8];
    int n;
} updates;

static void watch(void *context, const weft_probe_event *event)
{
    updates *u = context;
    CHECK_EQ_INT(event->kind, WEFT_PROBE_TRAINING);
    if (CHECK_EQ_INT(event->step, u->n + 1)) {
        u->losses[u->n] = event->loss;
        u->norms[u->n] = event->grad_norm;
        u->rates[u->n++] = event->lr;
    }
}

static void probes_see_updates(void)
{
    history l = {.n = 0};
    updates u = {.n = 0};
    weft_train_result result = {0};
    weft_probe probe = {.kinds = WEFT_PROBE_TRAINING, .event = watch, .context = &u};
    const weft_trainer_options o = {.steps = 4, .lr = 1e-2, .probe = &probe};
    CHECK_OK(run_recipe(o, false, &l, &result));
    CHECK_EQ_INT(u.n, 4);
    CHECK_EQ_INT(l.n, 4);
    for (int i = 0; i < u.n; i++) {
        CHECK_CLOSE(u.losses[i], l.reports[i].loss, 0);
        CHECK_CLOSE(u.norms[i], l.reports[i].grad_norm, 0);
        CHECK_CLOSE(u.rates[i], l.reports[i].lr, 0);
    }
    probe.kinds = WEFT_PROBE_TOKEN;
    CHECK_OK(run_recipe(o, false, &l, &result));
    CHECK_EQ_INT(u.n, 4);
}

static void callbacks_cancel(void)
{
    history l = {.stop_after = 3};
    char folder[512];
    weft_train_result result = {0};
    snprintf(folder, sizeof folder, "%s", check_temporary("cancelled"));
    const weft_trainer_options o = {.steps = 10, .lr = 1e-2, .folder = folder};
    CHECK_STATUS(run_recipe(o, false, &l, &result), WEFT_CANCELLED);
    CHECK_CONTAINS(weft_error_message(), "after update 3 of 10");
    CHECK_EQ_INT(result.steps, 3);
    CHECK(run_has(folder, "last/adapter_model.safetensors"));
    char *text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "stopped after update 3");
    weft_free(text);
}

/* A rate of 1e30 makes the second loss overflow: the weights remain those after the first
 * update. */
static void updates_that_are_not_finite_stop_the_run(void)
{
    history l = {.n = 0};
    char folder[512];
    weft_train_result result = {0};
    snprintf(folder, sizeof folder, "%s", check_temporary("diverged"));
    const weft_trainer_options o = {.steps = 20, .lr = 1e30, .folder = folder, .max_skipped = 3};
    CHECK_STATUS(run_recipe(o, false, &l, &result), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "update 4:");
    CHECK_CONTAINS(weft_error_message(), "3 times in a row");
    CHECK_CONTAINS(weft_error_message(), "after update 1");
    CHECK_EQ_INT(l.n, 4);
    CHECK_EQ_INT(result.skipped, 3);
    CHECK(l.reports[0].applied && !l.reports[1].applied && !l.reports[3].applied);
    char *text = run_text(folder, "metrics.jsonl");
    CHECK_CONTAINS(text, "\"applied\": false");
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
    weft_free(text);
    CHECK(run_has(folder, "last/adapter_model.safetensors"));
}

static void frozen_models_and_bad_options_are_refused(void)
{
    weft_model *model = recipe_model(r, NULL);
    weft_trainer *trainer;
    if (model == NULL)
        return;
    CHECK_STATUS(weft_trainer_new(model, &(weft_trainer_options){.clip = -1}, &trainer),
                 WEFT_INVALID);
    CHECK_STATUS(weft_trainer_new(model, &(weft_trainer_options){.warmup_share = 2}, &trainer),
                 WEFT_INVALID);
    weft_nn_freeze(weft_model_module(model));
    CHECK_STATUS(weft_trainer_new(model, NULL, &trainer), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "frozen");
    CHECK(trainer == NULL);
    weft_model_free(model);
}

/* ---- evaluation ----------------------------------------------------------------------------- */

static bool stop_at_once(void *context, int64_t targets, int64_t total)
{
    *(int64_t *)context = total;
    return targets > total;
}

/* The standard error against the sum over samples of which each is evaluated alone. */
static void evaluation_has_a_standard_error(void)
{
    weft_model *model = recipe_model(r, "final");
    weft_dataset *d = run_samples(), *one = NULL;
    const int n = (int)weft_dataset_info_of(d).samples;
    weft_evaluation all = {0}, e[64] = {0};
    double squares = 0;
    if (!model || !CHECK(n > 2 && n <= 64) || !CHECK_OK(weft_evaluate(model, d, NULL, &all)))
        return;
    for (int i = 0; i < n; i++) {
        const weft_sample sample = weft_dataset_at(d, i);
        if (CHECK_OK(weft_dataset_new(sample.length, &one)) &&
            CHECK_OK(weft_dataset_add_sample(one, &sample)) &&
            CHECK_OK(weft_evaluate(model, one, NULL, &e[i])))
            CHECK(e[i].standard_error == 0);
        weft_dataset_free(one);
    }
    for (int i = 0; i < n; i++)
        squares += pow((e[i].loss - all.loss) * (double)e[i].targets, 2);
    const double expected = sqrt(squares * n / (n - 1)) / (double)all.targets;
    CHECK(expected > 0);
    CHECK_RELATIVE(all.standard_error, expected, 1e-4);
    weft_dataset_free(d);
    weft_model_free(model);
}

/* For every way of batching, each target counts once. */
static void evaluation_does_not_depend_on_batches(void)
{
    weft_model *model = recipe_model(r, "final");
    weft_dataset *d = run_samples();
    weft_evaluation one = {0}, all = {0};
    if (model &&
        CHECK_OK(weft_evaluate(model, d, &(weft_evaluate_options){.batch_size = 1}, &one)) &&
        CHECK_OK(weft_evaluate(model, d, &(weft_evaluate_options){.batch_size = 64}, &all))) {
        CHECK_RELATIVE(one.loss, all.loss, 1e-6);
        CHECK_RELATIVE(one.standard_error, all.standard_error, 1e-5);
        CHECK_RELATIVE(one.perplexity, exp(one.loss), 1e-12);
        CHECK_EQ_INT(one.targets, weft_dataset_info_of(d).targets);
        CHECK_EQ_INT(all.targets, one.targets);
        int64_t total = 0;
        const weft_evaluate_options o = {
            .max_samples = 2, .callback = stop_at_once, .context = &total};
        CHECK_STATUS(weft_evaluate(model, d, &o, &one), WEFT_CANCELLED);
        CHECK_EQ_INT(total, (RUN_LENGTH - 1) + (RUN_LENGTH - 1 - 1));
    }
    weft_dataset_free(d);
    weft_model_free(model);
}

CHECK_MAIN("trainer", CHECK_CASE(a_run_learns_and_reports),
           CHECK_CASE(accumulation_weighs_every_target_alike),
           CHECK_CASE(micro_batches_change_nothing),
           CHECK_CASE(without_memory_fewer_samples_are_taken),
           CHECK_CASE(compiled_updates_take_fewer_too), CHECK_CASE(weights_multiply_targets),
           CHECK_CASE(defaults_are_reported), CHECK_CASE(the_same_seed_gives_the_same_run),
           CHECK_CASE(dropout_is_on_in_updates_only), CHECK_CASE(compiled_updates_are_the_same),
           CHECK_CASE(models_without_adapters_train_too), CHECK_CASE(callbacks_cancel),
           CHECK_CASE(probes_see_updates), CHECK_CASE(updates_that_are_not_finite_stop_the_run),
           CHECK_CASE(frozen_models_and_bad_options_are_refused),
           CHECK_CASE(evaluation_does_not_depend_on_batches),
           CHECK_CASE(evaluation_has_a_standard_error))
