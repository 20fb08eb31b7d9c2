/* tests/train/test_policies.c -- training with rewards against TRL's: advantages, ratios, losses,
 * gradient norms, metrics and the adapter after 20 updates; runs over several updates on the same
 * completions, compiled, split, resumed and on several ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"
#include "train/rollout.h"

enum { UPDATES = 20, BATCHES = 5, ROWS = 12, GROUP = 4, MOST = 12, ITERATIONS = 4 };

/* ---- beside TRL ----------------------------------------------------------------------------- */

typedef struct golden {
    const char *name, *objective;
    double lr;
    weft_objective_options options; /* besides those of every run */
} golden;

static const golden goldens[] = {
    {"grpo", "grpo", 0.005, {.loss_type = "grpo", .beta = 0.1, .temperature = 0.8}},
    {"dapo", "dapo", 0.005, {.beta = 0}},
    {"dr_grpo", "dr_grpo", 0.005, {.delta = 1.6}},
    {"bnpo", "grpo", 0.005, {.loss_type = "bnpo", .scale_rewards = "batch", .beta = 0.05}},
    {"gspo", "gspo", 0.002, {.beta = 0.02}},
    {"rloo", "rloo", 0.003, {.beta = 0.05}},
};

static weft_objective_options options_of(const golden *g)
{
    weft_objective_options o = g->options;
    o.num_generations = GROUP;
    o.num_iterations = ITERATIONS;
    o.max_completion_length = MOST;
    return o;
}

static weft_model *starting_model(void)
{
    weft_model *model = NULL;
    char start[512];
    snprintf(start, sizeof start, "%s", check_fixture("train/objectives/start"));
    if (CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model)))
        CHECK_OK(weft_adapter_load(model, start, NULL));
    return model;
}

static weft_dataset *completions_of(const weft_objective *objective,
                                    const weft_objective_options *o, weft_model *model,
                                    weft_group *group)
{
    weft_dataset *d = NULL;
    const char *path = check_fixture("train/policies/completions.jsonl");
    const double beta = o->beta != 0 ? o->beta : objective->defaults.beta;
    if (CHECK_OK(weft_dataset_load_completions(path, objective, o, &d)) && model && beta != 0)
        CHECK_OK(weft_dataset_add_reference(
            d, model, &(weft_reference_options){.batch_size = 5, .group = group}));
    return d;
}

static void read_numbers(const weft_safetensors *file, const char *name, double *out)
{
    weft_array *a = weft_safetensors_get(file, name);
    CHECK_OK(weft_read(a, WEFT_FLOAT64, out, weft_size(a)));
}

static double worst(double so_far, double got, double expected, double least)
{
    if (isnan(got) != isnan(expected))
        return INFINITY;
    return isnan(got) ? so_far : fmax(so_far, fabs(got - expected) / fmax(fabs(expected), least));
}

/* Compares the log-probabilities before an update, less the old ones, with TRL's (ROWS, MOST). */
static double compare_differences(weft_model *model, const weft_batch *batch, double temperature,
                                  const weft_dataset *d, int64_t first, const double *expected)
{
    const int64_t L = weft_dim(batch->tokens, 1);
    weft_batch scaled = *batch;
    scaled.temperature = temperature;
    float now[ROWS * 64], old[ROWS * 64];
    double off = 0;
    if (!CHECK(L <= 64))
        return INFINITY;
    weft_scope_open();
    CHECK_OK(weft_read(weft__token_losses(model, &scaled, batch->targets, false), WEFT_FLOAT32, now,
                       ROWS * L));
    CHECK_OK(weft_read(batch->old, WEFT_FLOAT32, old, ROWS * L));
    weft_scope_close(NULL);
    for (int64_t r = 0; r < ROWS; r++) {
        const weft_sample s = weft_dataset_at(d, first + r);
        int64_t prompt = 1;
        while (prompt < s.length && s.weights[prompt] == 0)
            prompt++;
        for (int64_t k = 0; k + prompt < s.length; k++) {
            const int64_t cell = r * L + prompt - 1 + k;
            off = worst(off, exp(-(double)now[cell] - (double)old[cell]),
                        exp(expected[r * MOST + k]), 0);
        }
    }
    return off;
}

/* The largest difference of a parameter's values, of the parameter's norm. */
static double compare_parameters(weft_model *model, const weft_safetensors *file)
{
    weft_nn_slots slots = {0};
    double off = 0;
    CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots));
    weft_scope_open();
    for (int i = 0; i < slots.n; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s.weight", slots.paths[i]);
        weft_array *theirs = weft_safetensors_get(file, name);
        if (!CHECK(weft_ok(theirs)))
            break;
        weft_array *difference = weft_subtract(*slots.slots[i], theirs);
        const double norm = sqrt(weft_item(weft_sum(weft_square(theirs), WEFT_ALL_AXES, false))),
                     error =
                         sqrt(weft_item(weft_sum(weft_square(difference), WEFT_ALL_AXES, false)));
        off = fmax(off, error / norm);
    }
    weft_scope_close(NULL);
    CHECK(slots.n > 0);
    weft_nn_slots_free(&slots);
    return off;
}

typedef struct errors {
    double advantages, ratios, loss, norm, kl, entropy, clipped, rewards;
} errors;

static void compare_report(const weft_safetensors *file, const weft_train_report *reports, int n,
                           errors *e)
{
    double loss[UPDATES], norm[UPDATES], kl[UPDATES], entropy[UPDATES], low[UPDATES], high[UPDATES],
        reward[UPDATES], spread[UPDATES], equal[UPDATES];
    read_numbers(file, "loss", loss);
    read_numbers(file, "grad_norm", norm);
    read_numbers(file, "kl", kl);
    read_numbers(file, "entropy", entropy);
    read_numbers(file, "clip_ratio/low_mean", low);
    read_numbers(file, "clip_ratio/high_mean", high);
    read_numbers(file, "reward", reward);
    read_numbers(file, "reward_std", spread);
    read_numbers(file, "frac_reward_zero_std", equal);
    double lows = 0, highs = 0;
    for (int s = 0; s < n; s++) {
        const weft_policy_report *p = &reports[s].rewards.policy;
        e->loss = worst(e->loss, reports[s].loss, loss[s], 1e-2);
        e->norm = worst(e->norm, reports[s].grad_norm, norm[s], 1e-3);
        if (!isnan(kl[s])) /* of RLOO only in the first update on a batch */
            e->kl = worst(e->kl, p->kl, kl[s], 1e-3);
        e->entropy = worst(e->entropy, p->entropy, entropy[s], 0);
        e->clipped = worst(e->clipped, p->clipped_low, low[s], 1);
        e->clipped = worst(e->clipped, p->clipped_high, high[s], 1);
        if (s % ITERATIONS == 0) { /* TRL logs them when it samples */
            e->rewards = worst(e->rewards, p->reward, reward[s], 1e-3);
            e->rewards = worst(e->rewards, p->reward_std, spread[s], 1e-3);
        }
        lows += low[s] / n;
        highs += high[s] / n;
    }
    CHECK(lows > 0.05 && highs > 0.05);
}

static void run_updates(const golden *g, const weft_safetensors *file, weft_model *model)
{
    double advantages[BATCHES * ROWS], differences[UPDATES * ROWS * MOST];
    const weft_trainer_options o = {.objective = weft_objective_named(g->objective),
                                    .objective_options = options_of(g),
                                    .lr = g->lr,
                                    .weight_decay = 0.01};
    weft_dataset *d = completions_of(o.objective, &o.objective_options, model, NULL);
    weft_trainer *trainer = NULL;
    weft_batches *batches = NULL;
    weft_train_report reports[UPDATES] = {{0}};
    errors e = {0};
    read_numbers(file, "advantages", advantages);
    read_numbers(file, "differences", differences);
    if (!d || !CHECK_OK(weft_trainer_new(model, &o, &trainer)) ||
        !CHECK_OK(weft_batches_new(d, ROWS, 0, &batches)))
        goto end;
    const double temperature = trainer->o.objective_options.temperature;
    for (int b = 0; b < BATCHES; b++) {
        weft_batch batch = {0};
        const int64_t first = b * ROWS;
        float A[ROWS];
        if (!CHECK_OK(weft_batches_at(batches, b, &batch)) ||
            !CHECK_OK(weft__rollout_prepare(trainer, d, &batch, &first, 1, &trainer->policy)))
            break;
        CHECK_OK(weft_read(batch.advantages, WEFT_FLOAT32, A, ROWS));
        CHECK(batch.pack != NULL); /* prompts are computed once */
        for (int r = 0; r < ROWS; r++)
            e.advantages = worst(e.advantages, (double)A[r], advantages[b * ROWS + r], 0.01);
        for (int k = 0; k < ITERATIONS; k++) {
            const int s = b * ITERATIONS + k;
            e.ratios = fmax(e.ratios, compare_differences(model, &batch, temperature, d, first,
                                                          differences + s * ROWS * MOST));
            CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &reports[s]));
        }
        weft_batch_free(&batch);
    }
    compare_report(file, reports, UPDATES, &e);
    const double parameters = compare_parameters(model, file);
    printf("  %s: worst advantage %.2g, ratio %.2g, loss %.2g, norm %.2g, KL %.2g, entropy %.2g, "
           "clipped %.2g, rewards %.2g, parameters %.2g\n",
           g->name, e.advantages, e.ratios, e.loss, e.norm, e.kl, e.entropy, e.clipped, e.rewards,
           parameters);
    /* Each is about three times the largest measured one; the advantages and KL of RLOO are
     * differences of sums of float32 log-probabilities. */
    CHECK_CLOSE(e.advantages, 0, 1e-4);
    CHECK_CLOSE(e.ratios, 0, 2e-5);
    CHECK_CLOSE(e.loss, 0, 3e-5);
    CHECK_CLOSE(e.norm, 0, 5e-5);
    CHECK_CLOSE(e.kl, 0, 1e-4);
    CHECK_CLOSE(e.entropy, 0, 1e-6);
    CHECK_CLOSE(e.clipped, 0, 1e-6);
    CHECK_CLOSE(e.rewards, 0, 1e-6);
    CHECK_CLOSE(parameters, 0, 1e-5);
end:
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
}

static void every_update_equals_trl(void)
{
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        char path[128];
        weft_safetensors *file;
        snprintf(path, sizeof path, "train/policies/%s.safetensors", goldens[i].name);
        weft_model *model = starting_model();
        if (model && CHECK_OK(weft_safetensors_open(check_fixture(path), &file))) {
            weft_scope_open();
            run_updates(&goldens[i], file, model);
            weft_scope_close(NULL);
            weft_safetensors_close(file);
        }
        weft_model_free(model);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

enum { VALUES = 1 << 15 };

typedef struct run {
    const golden *of;
    int64_t batch_size, accumulate, micro, steps;
    bool compile;
    const char *folder;
    bool resume;
    int stop_after;
    weft_group *group;
    history history;
    weft_status status;
    char message[512];
    int64_t n_values;
    float values[VALUES]; /* of the trained parameters at the end */
} run;

static void train(weft_group *group, void *argument)
{
    run *r = argument;
    weft_model *model = starting_model();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    r->history.stop_after = r->stop_after;
    const weft_trainer_options o = {.objective = weft_objective_named(r->of->objective),
                                    .objective_options = options_of(r->of),
                                    .steps = r->steps,
                                    .lr = r->of->lr,
                                    .accumulate = r->accumulate,
                                    .micro_batch = r->micro,
                                    .compile = r->compile,
                                    .folder = r->folder,
                                    .resume = r->resume,
                                    .save_every = 3,
                                    .group = group,
                                    .callback = run_keep,
                                    .context = &r->history};
    weft_dataset *d = completions_of(o.objective, &o.objective_options, model, group);
    weft_status status = weft_batches_new(d, r->batch_size, 0, &batches);
    if (status == WEFT_OK)
        status = weft_trainer_new(model, &o, &trainer);
    if (status == WEFT_OK)
        status = weft_trainer_run(trainer, batches, NULL, NULL);
    r->status = status;
    snprintf(r->message, sizeof r->message, "%s", status == WEFT_OK ? "" : weft_error_message());
    weft_nn_slots slots = {0};
    if (weft_nn_trainable(weft_model_module(model), &slots) == WEFT_OK) {
        for (int i = 0; i < slots.n; i++) {
            weft_array *a = *slots.slots[i];
            if (r->n_values + weft_size(a) <= VALUES &&
                weft_read(a, WEFT_FLOAT32, r->values + r->n_values, weft_size(a)) == WEFT_OK)
                r->n_values += weft_size(a);
        }
    }
    weft_nn_slots_free(&slots);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
}

static void compare_runs(const run *a, const run *b, double tolerance)
{
    double values = 0, reports = 0;
    CHECK_STR(a->message, "");
    CHECK_STR(b->message, "");
    if (!CHECK(a->n_values > 0) || !CHECK_EQ_INT(a->n_values, b->n_values) ||
        !CHECK_EQ_INT(a->history.n, b->history.n))
        return;
    for (int64_t i = 0; i < a->n_values; i++)
        values = fmax(values, fabs((double)a->values[i] - (double)b->values[i]));
    for (int i = 0; i < a->history.n; i++) {
        const weft_train_report *x = &a->history.reports[i], *y = &b->history.reports[i];
        const weft_policy_report *p = &x->rewards.policy, *q = &y->rewards.policy;
        CHECK_EQ_INT(p->completions, q->completions);
        CHECK_EQ_INT(p->tokens, q->tokens);
        reports = worst(reports, x->loss, y->loss, 1);
        reports = worst(reports, p->kl, q->kl, 1);
        reports = worst(reports, p->entropy, q->entropy, 1);
        reports = worst(reports, p->ratio, q->ratio, 1);
        reports = worst(reports, p->clipped_low, q->clipped_low, 1);
        reports = worst(reports, p->reward, q->reward, 1);
        reports = worst(reports, p->reward_std, q->reward_std, 1);
        reports = worst(reports, p->length, q->length, 1);
        reports = worst(reports, p->truncated, q->truncated, 1);
        reports = worst(reports, p->equal_groups, q->equal_groups, 1);
    }
    CHECK_CLOSE(values, 0, tolerance);
    CHECK_CLOSE(reports, 0, tolerance);
}

/* A batch of 12 completions as one, compiled, in micro-batches, as 3 batches of a group each, and
 * on 3 ranks: sums in another order. */
static void groups_may_be_split(void)
{
    static const int picked[] = {0, 1, 2, 4, 5};
    static run whole, other, ranks[3];
    for (size_t i = 0; i < sizeof picked / sizeof *picked; i++) {
        const run base = {.of = &goldens[picked[i]], .batch_size = ROWS, .steps = 8};
        whole = base;
        train(NULL, &whole);
        CHECK_EQ_INT(whole.history.n, 8);
        other = base;
        other.compile = true;
        train(NULL, &other);
        compare_runs(&other, &whole, 2e-5);
        other = base;
        other.micro = 5;
        train(NULL, &other);
        compare_runs(&other, &whole, 2e-5);
        other = base;
        other.batch_size = GROUP;
        other.accumulate = 3;
        train(NULL, &other);
        compare_runs(&other, &whole, 2e-5);
        for (int r = 0; r < 3; r++)
            ranks[r] = other =
                (run){.of = base.of, .batch_size = GROUP, .accumulate = 3, .steps = 8};
        ranks_run(3, train, ranks, sizeof *ranks);
        for (int r = 0; r < 3; r++)
            compare_runs(&ranks[r], &whole, 2e-5);
    }
}

/* The mean over batches needs whole batches. */
static void whole_batches_are_not_split(void)
{
    static run r;
    r = (run){.of = &goldens[3], .batch_size = ROWS, .micro = 4, .steps = 4};
    train(NULL, &r);
    CHECK_EQ_INT(r.status, WEFT_UNSUPPORTED);
}

/* A run that is stopped between the updates on a batch continues to the last of them; resumed, it
 * ends with the same bits, and so does a run that is resumed from an earlier checkpoint. */
static void resumed_runs_have_the_same_bits(void)
{
    static run all, first, rest;
    static const int picked[] = {0, 5};
    char folder[512];
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s", check_temporary(i ? "policy-rloo" : "policy-grpo"));
        const run base = {.of = &goldens[picked[i]], .batch_size = ROWS, .steps = 12};
        all = base;
        train(NULL, &all);
        first = base;
        first.folder = folder;
        first.stop_after = 5;
        train(NULL, &first);
        CHECK_EQ_INT(first.status, WEFT_CANCELLED);
        CHECK_EQ_INT(first.history.n, 8);
        CHECK(run_has(folder, "step-8"));
        CHECK(!run_has(folder, "step-6"));
        rest = base;
        rest.folder = folder;
        rest.resume = true;
        train(NULL, &rest);
        CHECK_STR(rest.message, "");
        CHECK_EQ_INT(rest.history.n, 4);
        CHECK(memcmp(rest.values, all.values, sizeof all.values) == 0);
        char *metrics = run_text(folder, "metrics.jsonl");
        CHECK_CONTAINS(metrics, "\"clipped_low\": ");
        CHECK_CONTAINS(metrics, "\"reward\": ");
        weft_free(metrics);
        char *page = run_text(folder, "report.html");
        CHECK_CONTAINS(page, "Mean reward");
        weft_free(page);
        char *record = run_text(folder, "run.json");
        CHECK_CONTAINS(record, "\"scale_rewards\": \"");
        weft_free(record);
    }
    rest.of = &goldens[1];
    train(NULL, &rest);
    CHECK_EQ_INT(rest.status, WEFT_INVALID);
    CHECK_CONTAINS(rest.message, "objective: expected the run's rloo, got dapo");
}

/* A run that fails between updates on the same completions keeps its weights, but no checkpoint
 * from which it could not be resumed. */
static void failures_among_updates_leave_no_checkpoint(void)
{
    static const golden wild = {"grpo", "grpo", 1e30, {.beta = 0}};
    static run r;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("policy-wild"));
    r = (run){.of = &wild, .batch_size = ROWS, .steps = 8, .folder = folder};
    train(NULL, &r);
    CHECK_EQ_INT(r.status, WEFT_INVALID);
    CHECK_CONTAINS(r.message, "update 6: the loss or its gradient was NaN or infinite 5 times");
    CHECK(run_has(folder, "step-4"));
    CHECK(!run_has(folder, "step-6"));
    CHECK(run_has(folder, "weights-6"));
    r = (run){.of = &wild, .batch_size = ROWS, .steps = 8, .folder = folder, .resume = true};
    train(NULL, &r);
    CHECK_EQ_INT(r.status, WEFT_INVALID);
    CHECK_CONTAINS(r.message, "update 6: the loss or its gradient was NaN or infinite");
}

/* All completions of the update are cut off and masked: its loss is 0. */
static void updates_without_targets_have_no_loss(void)
{
    const char *path = check_temporary("cut.jsonl");
    const weft_objective_options o = {.num_generations = 2};
    weft_dataset *d = NULL;
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    weft_train_result result = {0};
    static const char text[] =
        "{\"prompt_ids\": [5], \"completion_ids\": [6, 7], \"reward\": 1, \"truncated\": true}\n"
        "{\"prompt_ids\": [5], \"completion_ids\": [8, 9], \"reward\": 0, \"truncated\": true}\n";
    CHECK_OK(weft_file_write(path, text, sizeof text - 1));
    weft_model *model = starting_model();
    const weft_trainer_options options = {
        .objective = &weft_objective_dapo, .objective_options = o, .steps = 2};
    if (model && CHECK_OK(weft_dataset_load_completions(path, &weft_objective_dapo, &o, &d)) &&
        CHECK_OK(weft_batches_new(d, 0, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &options, &trainer)) &&
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, &result)))
        CHECK(result.steps == 2 && result.loss == 0);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
}

/* ---- refused input -------------------------------------------------------------------------- */

static void wrong_runs_are_refused(void)
{
    static run r;
    r = (run){.of = &goldens[1], .batch_size = ROWS, .steps = 6};
    train(NULL, &r);
    CHECK_CONTAINS(r.message, "steps: expected a multiple of num_iterations 4, got 6");
    const weft_objective_options o = options_of(&goldens[4]);
    weft_model *model = starting_model();
    weft_dataset *d = completions_of(
        &weft_objective_dapo, &(weft_objective_options){.num_generations = GROUP}, NULL, NULL);
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    CHECK_EQ_INT(weft_batches_new(d, 6, 0, &batches), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected a multiple of the 4 completions of a group");
    CHECK_EQ_INT(weft_batches_new_packed(d, GROUP, 0, 0, &batches), WEFT_UNSUPPORTED);
    if (CHECK_OK(weft_batches_new(d, 0, 0, &batches)))
        CHECK_EQ_INT(weft_batches_count(batches), BATCHES * ROWS / GROUP);
    const weft_trainer_options options = {.objective = &weft_objective_gspo,
                                          .objective_options = o};
    if (model && CHECK_OK(weft_trainer_new(model, &options, &trainer))) {
        CHECK_EQ_INT(weft_trainer_run(trainer, batches, d, NULL), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "validation: expected prompts, and sampling");
        CHECK_EQ_INT(weft_trainer_run(trainer, batches, NULL, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "column ref");
    }
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
}

CHECK_MAIN("policies", CHECK_CASE(every_update_equals_trl), CHECK_CASE(groups_may_be_split),
           CHECK_CASE(whole_batches_are_not_split), CHECK_CASE(resumed_runs_have_the_same_bits),
           CHECK_CASE(failures_among_updates_leave_no_checkpoint),
           CHECK_CASE(updates_without_targets_have_no_loss), CHECK_CASE(wrong_runs_are_refused))
