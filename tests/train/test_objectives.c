/* tests/train/test_objectives.c -- preference training against TRL's: every loss, gradient norm and
 * reward; the reference, the options, pairs as examples, and resumed runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/runs.h"

enum { STEPS = 20, MOST_ROWS = 8, MOST_LENGTH = 64 };

/* ---- beside TRL ----------------------------------------------------------------------------- */

typedef struct golden {
    const char *name, *objective;
    weft_objective_options options;
} golden;

static const golden goldens[] = {
    {"dpo", "dpo", {.beta = 0.3}},
    {"dpo-smooth", "dpo", {.beta = 0.3, .label_smoothing = 0.2}},
    {"orpo", "orpo", {.beta = 0.3}},
    {"kto", "kto", {.beta = 0.3, .undesirable_weight = 1.5}},
    {"simpo", "simpo", {.beta = 2, .gamma = 0.4}},
};

typedef struct numbers {
    int64_t rows, length;
    int32_t *ids, *lengths, *prompts, *labels; /* (STEPS, rows, length), (STEPS, rows) twice */
    double loss[STEPS], norm[STEPS], chosen[STEPS], rejected[STEPS], accuracy[STEPS], margin[STEPS];
} numbers;

static void *read_array(const weft_safetensors *file, const char *name, weft_dtype dtype, void *out)
{
    weft_array *a = weft_safetensors_get(file, name);
    const int64_t n = weft_size(a);
    if (out == NULL)
        out = weft_calloc((size_t)n, sizeof(int32_t));
    CHECK_OK(weft_read(a, dtype, out, n));
    return out;
}

static bool read_golden(const char *name, numbers *out)
{
    char path[128];
    weft_safetensors *file;
    snprintf(path, sizeof path, "train/objectives/%s.safetensors", name);
    if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &file)))
        return false;
    weft_scope_open();
    weft_array *ids = weft_safetensors_get(file, "ids"); /* (STEPS, rows, length) */
    out->rows = weft_dim(ids, 1);
    out->length = weft_dim(ids, 2);
    out->ids = read_array(file, "ids", WEFT_INT32, NULL);
    out->lengths = read_array(file, "lengths", WEFT_INT32, NULL);
    out->prompts = read_array(file, "prompts", WEFT_INT32, NULL);
    if (strcmp(name, "kto") == 0)
        out->labels = read_array(file, "labels", WEFT_INT32, NULL);
    read_array(file, "loss", WEFT_FLOAT64, out->loss);
    read_array(file, "grad_norm", WEFT_FLOAT64, out->norm);
    read_array(file, "rewards/chosen", WEFT_FLOAT64, out->chosen);
    read_array(file, "rewards/rejected", WEFT_FLOAT64, out->rejected);
    read_array(file, "rewards/accuracies", WEFT_FLOAT64, out->accuracy);
    read_array(file, "rewards/margins", WEFT_FLOAT64, out->margin);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return CHECK(out->rows <= MOST_ROWS && out->length <= MOST_LENGTH);
}

static void free_numbers(numbers *n)
{
    weft_free(n->ids);
    weft_free(n->lengths);
    weft_free(n->prompts);
    weft_free(n->labels);
}

static weft_sample sample_of(const numbers *n, int step, int64_t row, float *weights)
{
    const int64_t at = step * n->rows + row;
    const weft_sample s = {n->ids + at * n->length, weights, n->lengths[at], 0};
    for (int64_t i = 0; i < s.length; i++)
        weights[i] = i >= n->prompts[at];
    return s;
}

/* The pairs of one step. */
static weft_dataset *pairs_of(const numbers *n, int step)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(0, &d));
    for (int64_t i = 0; i < n->rows / 2; i++) {
        float weights[2][MOST_LENGTH];
        const weft_sample chosen = sample_of(n, step, i, weights[0]);
        const weft_sample rejected = sample_of(n, step, i + n->rows / 2, weights[1]);
        if (n->labels)
            CHECK_OK(weft_dataset_add_labeled(d, &chosen, n->labels[step * n->rows / 2 + i]));
        else
            CHECK_OK(weft_dataset_add_pair(d, &chosen, &rejected));
    }
    return d;
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

static double worst(double so_far, double got, double expected)
{
    return fmax(so_far, fabs(got - expected));
}

static void run_steps(const golden *g, const numbers *n, weft_model *model)
{
    weft_dataset *data[STEPS] = {NULL};
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = {.objective = weft_objective_named(g->objective),
                                    .objective_options = g->options,
                                    .lr = 0.002,
                                    .weight_decay = 0.01};
    double loss = 0, norm = 0, rewards = 0, accuracy = 0;
    for (int s = 0; s < STEPS; s++) {
        data[s] = pairs_of(n, s);
        if (o.objective->columns & WEFT_COLUMN_REFERENCE)
            CHECK_OK(weft_dataset_add_reference(data[s], model,
                                                &(weft_reference_options){.batch_size = 3}));
    }
    CHECK_OK(weft_trainer_new(model, &o, &trainer));
    for (int s = 0; trainer && s < (check_few() ? 5 : STEPS); s++) {
        weft_batches *batches = NULL;
        weft_batch batch = {0};
        weft_train_report r = {0};
        if (CHECK_OK(weft_batches_new(data[s], n->rows / 2, 0, &batches)) &&
            CHECK_OK(weft_batches_at(batches, 0, &batch)) &&
            CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &r))) {
            loss = worst(loss, r.loss, n->loss[s]);
            norm = worst(norm, r.grad_norm / n->norm[s], 1);
            rewards = worst(rewards, r.rewards.chosen, n->chosen[s]);
            rewards = worst(rewards, r.rewards.rejected, n->rejected[s]);
            rewards = worst(rewards, r.rewards.margin, n->margin[s]);
            if (n->labels == NULL)
                accuracy = worst(accuracy, r.rewards.accuracy, n->accuracy[s]);
        }
        weft_batch_free(&batch);
        weft_batches_free(batches);
    }
    printf("  %s: worst loss %.2g, norm %.2g (relative), rewards %.2g, accuracy %.2g\n", g->name,
           loss, norm, rewards, accuracy);
    CHECK_CLOSE(loss, 0, 1e-4);
    CHECK_CLOSE(norm, 0, 1e-3);
    CHECK_CLOSE(rewards, 0, 5e-4);
    CHECK_CLOSE(accuracy, 0, 1e-6);
    weft_trainer_free(trainer);
    for (int s = 0; s < STEPS; s++)
        weft_dataset_free(data[s]);
}

static void every_step_equals_trl(void)
{
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        numbers n = {0};
        weft_model *model = starting_model();
        if (model && read_golden(goldens[i].name, &n))
            run_steps(&goldens[i], &n, model);
        free_numbers(&n);
        weft_model_free(model);
    }
}

/* ---- pairs ---------------------------------------------------------------------------------- */

enum { PAIRS = 10 };

static weft_dataset *some_pairs(void)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(RUN_LENGTH, &d));
    for (int i = 0; d && i < PAIRS; i++) {
        int32_t ids[2][RUN_LENGTH];
        float weights[RUN_LENGTH];
        for (int j = 0; j < RUN_LENGTH; j++) {
            ids[0][j] = 3 + (7 * i + 3 * j) % 300;
            ids[1][j] = j < 4 ? ids[0][j] : 3 + (5 * i + 11 * j) % 300;
            weights[j] = j >= 4;
        }
        const weft_sample chosen = {ids[0], weights, RUN_LENGTH - i % 5, 0};
        const weft_sample rejected = {ids[1], weights, RUN_LENGTH - i % 3, 0};
        CHECK_OK(weft_dataset_add_pair(d, &chosen, &rejected));
    }
    return d;
}

/* An epoch has each pair once, chosen rows first. */
static void a_pair_is_one_example(void)
{
    weft_dataset *d = some_pairs();
    weft_batches *batches = NULL;
    int seen[PAIRS] = {0};
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2 * PAIRS);
    if (CHECK_OK(weft_batches_new(d, 4, 0, &batches))) {
        CHECK_EQ_INT(weft_batches_count(batches), 3);
        for (int i = 0; i < 3; i++) {
            weft_batch b;
            if (!CHECK_OK(weft_batches_at(batches, i, &b)))
                continue;
            int32_t tokens[8 * RUN_LENGTH];
            const int64_t L = weft_dim(b.tokens, 1);
            CHECK_EQ_INT(b.examples, WEFT_EXAMPLES_PAIRS);
            const int64_t pairs = weft_dim(b.tokens, 0) / 2;
            CHECK_OK(weft_read(b.tokens, WEFT_INT32, tokens, 2 * pairs * L));
            for (int64_t r = 0; r < pairs; r++) {
                const int32_t *chosen = tokens + r * L, *rejected = tokens + (pairs + r) * L;
                int found = -1;
                for (int p = 0; p < PAIRS; p++) {
                    if (memcmp(chosen, weft_dataset_at(d, 2 * p).ids, 8 * sizeof *chosen) == 0)
                        found = p;
                }
                if (CHECK(found >= 0)) {
                    seen[found]++;
                    CHECK(memcmp(rejected, weft_dataset_at(d, 2 * found + 1).ids,
                                 8 * sizeof *rejected) == 0);
                }
            }
            weft_batch_free(&b);
        }
    }
    for (int p = 0; p < PAIRS; p++)
        CHECK_EQ_INT(seen[p], 1);
    weft_batches_free(batches);
    weft_dataset_free(d);
}

static void pairs_and_samples_do_not_mix(void)
{
    weft_dataset *pairs = some_pairs(), *single = run_samples();
    const weft_sample s = weft_dataset_at(single, 0);
    CHECK_EQ_INT(weft_dataset_add_sample(pairs, &s), WEFT_INVALID);
    CHECK_EQ_INT(weft_dataset_add_pair(single, &s, &s), WEFT_INVALID);
    weft_dataset_free(pairs);
    weft_dataset_free(single);
}

/* A pair with a completion that is too long is left out completely. */
static void long_pairs_are_left_out_whole(void)
{
    const int32_t ids[] = {3, 4, 5, 6, 7, 8};
    const float weights[] = {0, 0, 1, 1, 1, 1}, late[] = {0, 0, 0, 0, 0, 1};
    const weft_sample short_one = {ids, weights, 4, 0}, long_one = {ids, late, 6, 0};
    weft_dataset *d = NULL;
    if (!CHECK_OK(weft_dataset_new(4, &d)))
        return;
    CHECK_OK(weft_dataset_add_pair(d, &short_one, &long_one));
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 0);
    CHECK_EQ_INT(weft_dataset_info_of(d).dropped, 1);
    weft_dataset_set_longer(d, WEFT_LONG_SPLIT);
    CHECK_EQ_INT(weft_dataset_add_pair(d, &short_one, &long_one), WEFT_INVALID);
    weft_dataset_set_longer(d, WEFT_LONG_KEEP_HEAD);
    const weft_sample cut = {ids, weights, 6, 0};
    CHECK_OK(weft_dataset_add_pair(d, &short_one, &cut));
    CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
    CHECK_EQ_INT(weft_dataset_at(d, 1).length, 4);
    weft_dataset_free(d);
}

/* ---- runs ----------------------------------------------------------------------------------- */

typedef struct run {
    const char *objective;
    weft_objective_options options;
    bool whole; /* no adapter: parameters of the model are trained */
    bool no_reference, packed;
    int stop_after;
} run;

static weft_status train(const run *r, const char *folder, bool resume, history *l)
{
    weft_model *model = NULL;
    weft_dataset *d = some_pairs();
    weft_batches *batches = NULL;
    weft_trainer *trainer = NULL;
    *l = (history){.stop_after = r->stop_after};
    const weft_trainer_options o = {.objective = weft_objective_named(r->objective),
                                    .objective_options = r->options,
                                    .steps = 6,
                                    .lr = 0.003,
                                    .folder = folder,
                                    .resume = resume,
                                    .callback = run_keep,
                                    .context = l};
    weft_status status = WEFT_INVALID;
    model = r->whole ? recipe_model(run_base, NULL) : starting_model();
    if (model && !r->no_reference)
        CHECK_OK(weft_dataset_add_reference(d, model, NULL));
    if (model &&
        CHECK_OK(r->packed ? weft_batches_new_packed(d, 2, 4 * RUN_LENGTH, 0, &batches)
                           : weft_batches_new(d, 2, 0, &batches)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer)))
        status = weft_trainer_run(trainer, batches, d, NULL);
    weft_trainer_free(trainer);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_model_free(model);
    return status;
}

/* A program's own objective for single samples is also validated on single samples. */
static void own_objectives_take_single_samples(void)
{
    const weft_objective own = weft_objective_supervised; /* another address */
    double losses[2] = {0};
    for (int i = 0; i < 2; i++) {
        history l = {0};
        weft_batches *batches = NULL;
        weft_trainer *trainer = NULL;
        weft_dataset *d = run_samples();
        weft_model *model = starting_model();
        const weft_trainer_options o = {.objective = i ? &own : NULL,
                                        .steps = 2,
                                        .lr = 0.003,
                                        .callback = run_keep,
                                        .context = &l};
        if (CHECK(model != NULL) && CHECK_OK(weft_batches_new(d, 2, 0, &batches)) &&
            CHECK_OK(weft_trainer_new(model, &o, &trainer)) &&
            CHECK_OK(weft_trainer_run(trainer, batches, d, NULL)))
            losses[i] = l.reports[l.n - 1].validation_loss;
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        weft_dataset_free(d);
        weft_model_free(model);
    }
    CHECK(losses[0] > 0);
    CHECK_RELATIVE(losses[1], losses[0], 1e-6);
}

/* The reference is that of the starting weights: rewards are 0 before the first update, and a
 * resumed run has the same rewards as an uninterrupted one. */
static void resumed_runs_keep_their_reference(void)
{
    static const char *const names[] = {"dpo-lora", "dpo-whole", "dpo-packed"};
    for (int k = 0; k < 3; k++) {
        history all, first, rest;
        char folder[512];
        snprintf(folder, sizeof folder, "%s", check_temporary(names[k]));
        const run r = {.objective = "dpo", .whole = k == 1, .packed = k == 2};
        const run stopped = {
            .objective = "dpo", .whole = k == 1, .packed = k == 2, .stop_after = 4};
        CHECK_OK(train(&r, NULL, false, &all));
        CHECK_EQ_INT(train(&stopped, folder, false, &first), WEFT_CANCELLED);
        CHECK_OK(train(&r, folder, true, &rest));
        CHECK_EQ_INT(all.n, 7); /* with validation at step 0 */
        CHECK_CLOSE(all.reports[0].validation_loss, log(2), 1e-4);
        CHECK_CLOSE(all.reports[1].loss, log(2), 1e-4);
        CHECK_CLOSE(all.reports[1].rewards.margin, 0, 1e-3);
        CHECK(all.reports[6].validation_loss < all.reports[0].validation_loss);
        CHECK_EQ_INT(all.reports[1].rewards.pairs, k == 2 ? 4 : 2);
        for (int i = 1; i <= rest.n; i++) {
            CHECK_CLOSE(rest.reports[rest.n - i].loss, all.reports[all.n - i].loss, 0);
            CHECK_CLOSE(rest.reports[rest.n - i].rewards.margin,
                        all.reports[all.n - i].rewards.margin, 0);
        }
        char *metrics = run_text(folder, "metrics.jsonl");
        CHECK(strstr(metrics, "\"rewards/accuracies\": ") != NULL);
        CHECK(strstr(metrics, "\"rewards/margins\": ") != NULL);
        weft_free(metrics);
    }
}

static void another_objective_is_refused_by_name(void)
{
    history l;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("dpo-identity"));
    const run stopped = {.objective = "dpo", .stop_after = 3};
    CHECK_EQ_INT(train(&stopped, folder, false, &l), WEFT_CANCELLED);
    const run other = {.objective = "dpo", .options.beta = 0.2};
    CHECK_EQ_INT(train(&other, folder, true, &l), WEFT_INVALID);
    CHECK(strstr(weft_error_message(), "beta of objective dpo: expected the run's 0.1, got 0.2"));
    const run packed = {.objective = "dpo", .packed = true};
    CHECK_EQ_INT(train(&packed, folder, true, &l), WEFT_INVALID);
    const run same = {.objective = "dpo", .options.beta = 0.1};
    CHECK_OK(train(&same, folder, true, &l));
}

static void missing_inputs_of_an_objective_are_named(void)
{
    history l;
    const run none = {.objective = "dpo", .no_reference = true};
    CHECK_EQ_INT(train(&none, NULL, false, &l), WEFT_INVALID);
    CHECK(strstr(weft_error_message(), "reference log-probabilities"));
    const run supervised = {.objective = "supervised"};
    CHECK_EQ_INT(train(&supervised, NULL, false, &l), WEFT_INVALID);
    CHECK(strstr(weft_error_message(), "expected single samples, got preference pairs"));
    CHECK(weft_objective_named("ppo") == NULL);
}

static void bad_options_are_refused(void)
{
    const struct {
        const char *objective;
        weft_objective_options options;
        const char *says;
    } cases[] = {
        {"supervised", {.beta = 0.1}, "it has no option beta"},
        {"dpo", {.gamma = 1}, "it has no option gamma"},
        {"dpo", {.beta = INFINITY}, "beta: expected a finite number, got inf"},
        {"dpo", {.label_smoothing = -0.1}, "label_smoothing: expected a number in [0, 0.5)"},
        {"orpo", {.label_smoothing = 0.1}, "it has no option label_smoothing"},
        {"simpo", {.gamma = NAN}, "gamma: expected a finite number"},
        {"dpo", {.label_smoothing = 0.5}, "label_smoothing: expected a number in [0, 0.5)"},
    };
    weft_model *model = starting_model();
    for (size_t i = 0; model && i < sizeof cases / sizeof *cases; i++) {
        weft_trainer *trainer = NULL;
        const weft_trainer_options o = {.objective = weft_objective_named(cases[i].objective),
                                        .objective_options = cases[i].options};
        CHECK_EQ_INT(weft_trainer_new(model, &o, &trainer), WEFT_INVALID);
        CHECK(strstr(weft_error_message(), cases[i].says));
    }
    weft_model_free(model);
}

/* Two updates of two batches of different sizes, and two of one, as graphs or compiled. Fused
 * kernels may round otherwise. */
static void make_updates(const golden *g, const numbers *n, bool compile, weft_train_report *out)
{
    weft_model *model = starting_model();
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = {.objective = weft_objective_named(g->objective),
                                    .objective_options = g->options,
                                    .compile = compile,
                                    .lr = 0.002};
    CHECK_OK(weft_trainer_new(model, &o, &trainer));
    for (int s = 0; trainer && s < 4; s++) {
        weft_dataset *data = pairs_of(n, s);
        weft_batches *batches = NULL;
        weft_batch parts[2] = {{0}};
        if (o.objective->columns & WEFT_COLUMN_REFERENCE)
            CHECK_OK(weft_dataset_add_reference(data, model,
                                                &(weft_reference_options){.batch_size = 3}));
        const int64_t rows = n->rows / 2;
        CHECK_OK(weft_batches_new(data, s < 2 ? rows - 1 : rows, 0, &batches));
        for (int i = 0; i < (s < 2 ? 2 : 1); i++)
            CHECK_OK(weft_batches_at(batches, i, &parts[i]));
        CHECK_OK(weft_trainer_step(trainer, parts, s < 2 ? 2 : 1, 1, &out[s]));
        weft_batch_free(&parts[0]);
        weft_batch_free(&parts[1]);
        weft_batches_free(batches);
        weft_dataset_free(data);
    }
    weft_trainer_free(trainer);
    weft_model_free(model);
}

static double off(double a, double b)
{
    return isnan(a) && isnan(b) ? 0 : isnan(a) || isnan(b) ? INFINITY : fabs(a - b);
}

static void compiled_updates_are_the_same(void)
{
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        numbers n = {0};
        weft_train_report plain[4] = {{0}}, fast[4] = {{0}};
        double loss = 0, norm = 0, rewards = 0;
        if (!read_golden(goldens[i].name, &n))
            continue;
        make_updates(&goldens[i], &n, false, plain);
        make_updates(&goldens[i], &n, true, fast);
        for (int s = 0; s < 4; s++) {
            const weft_reward_report *a = &fast[s].rewards, *b = &plain[s].rewards;
            loss = fmax(loss, off(fast[s].loss, plain[s].loss) / fabs(plain[s].loss));
            norm = fmax(norm, off(fast[s].grad_norm, plain[s].grad_norm) / plain[s].grad_norm);
            rewards = fmax(rewards, fmax(off(a->chosen, b->chosen), off(a->rejected, b->rejected)));
            CHECK(off(a->accuracy, b->accuracy) == 0);
            CHECK(a->pairs > 0 && a->pairs == b->pairs);
        }
        printf("  %s: worst loss %.2g, norm %.2g (relative), rewards %.2g\n", goldens[i].name, loss,
               norm, rewards);
        CHECK(loss <= 1e-6 && norm <= 1e-5 && rewards <= 1e-6);
        free_numbers(&n);
    }
}

/* The loss of the starting weights is TRL's before its first update. */
static void evaluation_has_the_objectives_loss(void)
{
    weft_model *model = starting_model();
    for (size_t i = 0; model && i < sizeof goldens / sizeof *goldens; i++) {
        numbers n = {0};
        if (!read_golden(goldens[i].name, &n))
            continue;
        weft_dataset *data = pairs_of(&n, 0);
        weft_evaluate_options o = {.objective = weft_objective_named(goldens[i].objective),
                                   .objective_options = goldens[i].options};
        weft_evaluation found;
        if (o.objective->columns & WEFT_COLUMN_REFERENCE) {
            CHECK_STATUS(weft_evaluate(model, data, &o, &found), WEFT_INVALID);
            CHECK_OK(weft_dataset_add_reference(data, model,
                                                &(weft_reference_options){.batch_size = 3}));
        }
        CHECK_OK(weft_evaluate(model, data, &o, &found));
        CHECK_RELATIVE(found.loss, n.loss[0], 2e-6); /* 1.3e-6 on a device, less on the CPU */
        CHECK_EQ_INT(found.targets, n.rows / 2);
        CHECK(found.perplexity == 0 && found.standard_error == 0 && found.seconds > 0);
        o.max_samples = 1;
        CHECK_OK(weft_evaluate(model, data, &o, &found));
        CHECK_EQ_INT(found.targets, 1);
        o.objective_options.beta = NAN;
        CHECK_STATUS(weft_evaluate(model, data, &o, &found), WEFT_INVALID);
        weft_dataset_free(data);
        free_numbers(&n);
    }
    weft_model_free(model);
}

CHECK_MAIN("objectives", CHECK_CASE(every_step_equals_trl),
           CHECK_CASE(compiled_updates_are_the_same),
           CHECK_CASE(evaluation_has_the_objectives_loss), CHECK_CASE(a_pair_is_one_example),
           CHECK_CASE(pairs_and_samples_do_not_mix), CHECK_CASE(long_pairs_are_left_out_whole),
           CHECK_CASE(own_objectives_take_single_samples),
           CHECK_CASE(resumed_runs_keep_their_reference),
           CHECK_CASE(another_objective_is_refused_by_name),
           CHECK_CASE(missing_inputs_of_an_objective_are_named),
           CHECK_CASE(bad_options_are_refused))
