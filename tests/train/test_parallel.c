/* tests/train/test_parallel.c -- ranks that train together, in threads: the losses and weights of
 * one process, failures and stops on one rank, differences between ranks reported by name, and
 * resumed runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"

enum { STEPS = 6, SAMPLES = 22, LENGTH = 16, MOST_VALUES = 1 << 16 };

typedef enum run_kind { PADDED, PACKED, PAIRS, LABELED } run_kind;

/* One rank's run; `odd` changes something on rank 1 alone. */
typedef struct rank_run {
    run_kind kind;
    weft_trainer_options o;
    int64_t batch_size;
    uint64_t order;
    int extra; /* samples more than the others have */
    history history;
    weft_train_result result;
    weft_status status;
    char message[512];
    int n_values;
    float *values; /* of the trained parameters at the end */
    weft_model *model;
    weft_dataset *data;
    weft_batches *batches;
} rank_run;

/* ---- data ----------------------------------------------------------------------------------- */

/* Sequences of different lengths, whose targets have different weights. */
static void make_sample(int i, int32_t *ids, float *weights)
{
    for (int j = 0; j < LENGTH; j++) {
        ids[j] = 3 + (7 * i + 3 * j + i * j % 5) % 300;
        weights[j] = j < 2 + i % 3 ? 0 : 0.5f + 0.25f * (float)((i + j) % 4);
    }
}

static weft_dataset *make_data(run_kind kind, int n)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(LENGTH, &d));
    for (int i = 0; d && i < n; i++) {
        int32_t ids[2][LENGTH];
        float weights[LENGTH];
        make_sample(i, ids[0], weights);
        const weft_sample one = {ids[0], weights, LENGTH - i % 7, 0};
        if (kind == PADDED || kind == PACKED) {
            CHECK_OK(weft_dataset_add_sample(d, &one));
            continue;
        }
        for (int j = 0; j < LENGTH; j++) {
            weights[j] = j >= 4;
            ids[1][j] = j < 4 ? ids[0][j] : 3 + (5 * i + 11 * j) % 300;
        }
        const weft_sample other = {ids[1], weights, LENGTH - i % 3, 0};
        if (kind == PAIRS)
            CHECK_OK(weft_dataset_add_pair(d, &one, &other));
        else
            CHECK_OK(weft_dataset_add_labeled(d, &one, i % 3 > 0));
    }
    return d;
}

/* ---- runs ----------------------------------------------------------------------------------- */

static rank_run make_run(run_kind kind)
{
    static const weft_objective *const objectives[] = {&weft_objective_supervised,
                                                       &weft_objective_supervised,
                                                       &weft_objective_dpo, &weft_objective_kto};
    return (rank_run){.kind = kind,
                      .batch_size = kind == PACKED ? 2 : 3,
                      .o = {.objective = objectives[kind],
                            .steps = STEPS,
                            .accumulate = 4,
                            .lr = 5e-3,
                            .clip = 1,
                            .schedule = "cosine",
                            .validation_batch = 4,
                            .validate_every = 3,
                            .save_minutes = -1,
                            .seed = 9}};
}

static bool open_run(rank_run *r)
{
    r->data = make_data(r->kind, SAMPLES + r->extra);
    r->model = recipe_model(run_base, NULL);
    weft_random_seed(5);
    const weft_nn_lora_options lora = {.rank = 4};
    if (r->model == NULL || !CHECK_OK(weft_nn_lora_inject(weft_model_module(r->model), &lora)))
        return false;
    return CHECK_OK(
        r->kind == PACKED
            ? weft_batches_new_packed(r->data, r->batch_size, 2 * LENGTH, r->order, &r->batches)
            : weft_batches_new(r->data, r->batch_size, r->order, &r->batches));
}

static void read_values(rank_run *r)
{
    weft_nn_slots slots = {0};
    r->values = weft_calloc(MOST_VALUES, sizeof *r->values);
    if (weft_nn_trainable(weft_model_module(r->model), &slots) != WEFT_OK)
        return;
    for (int i = 0; i < slots.n; i++) {
        weft_array *a = *slots.slots[i];
        if (r->n_values + weft_size(a) <= MOST_VALUES &&
            weft_read(a, WEFT_FLOAT32, r->values + r->n_values, weft_size(a)) == WEFT_OK)
            r->n_values += (int)weft_size(a);
    }
    weft_nn_slots_free(&slots);
}

static void train(weft_group *group, void *argument)
{
    rank_run *r = argument;
    weft_trainer *trainer = NULL;
    r->o.group = group;
    r->o.context = &r->history;
    if (r->o.callback == NULL)
        r->o.callback = run_keep;
    weft_status status = WEFT_OK;
    if (r->o.objective->columns & WEFT_COLUMN_REFERENCE)
        status = weft_dataset_add_reference(
            r->data, r->model, &(weft_reference_options){.batch_size = 3, .group = group});
    if (status == WEFT_OK)
        status = weft_trainer_new(r->model, &r->o, &trainer);
    if (status == WEFT_OK)
        status = weft_trainer_run(trainer, r->batches, r->data, &r->result);
    r->status = status;
    snprintf(r->message, sizeof r->message, "%s", status == WEFT_OK ? "" : weft_error_message());
    weft_trainer_free(trainer);
    read_values(r);
}

/* Trains on n ranks that `runs` describes; n 0: without a group. */
static void run_all(rank_run *runs, int n)
{
    bool open = true;
    for (int i = 0; i < (n > 0 ? n : 1); i++)
        open = open && open_run(&runs[i]);
    if (open && n > 0)
        ranks_run(n, train, runs, sizeof *runs);
    else if (open)
        train(NULL, runs);
}

static void close_all(rank_run *runs, int n)
{
    for (int i = 0; i < n; i++) {
        weft_free(runs[i].values);
        weft_batches_free(runs[i].batches);
        weft_dataset_free(runs[i].data);
        weft_model_free(runs[i].model);
    }
}

static void fill(rank_run *runs, int n, const rank_run *like)
{
    for (int i = 0; i < n; i++)
        runs[i] = *like;
}

/* ---- one process and several ---------------------------------------------------------------- */

static void note_worst(double *worst, double actual, double expected)
{
    const double off = fabs(actual - expected) / fmax(fabs(expected), 1e-3);
    if (isnan(actual) != isnan(expected) || off > *worst)
        *worst = isnan(actual) != isnan(expected) ? INFINITY : off;
}

/* With a batch for each rank the sums are added in the order of one process. */
static void compare(const rank_run *one, const rank_run *many, int n)
{
    double loss = 0, norm = 0, validation = 0, rewards = 0, weights = 0;
    for (int r = 0; r < n; r++) {
        CHECK_STR(many[r].message, "");
        CHECK_EQ_INT(many[r].history.n, one->history.n);
        CHECK_EQ_INT(many[r].result.tokens, one->result.tokens);
        for (int i = 0; i < one->history.n; i++) {
            const weft_train_report *a = &many[r].history.reports[i], *b = &one->history.reports[i];
            note_worst(&loss, a->loss, b->loss);
            note_worst(&norm, a->grad_norm, b->grad_norm);
            note_worst(&validation, a->validation_loss, b->validation_loss);
            note_worst(&rewards, a->rewards.margin, b->rewards.margin);
            CHECK_EQ_INT(a->rewards.n_chosen, b->rewards.n_chosen);
        }
        CHECK_EQ_INT(many[r].n_values, one->n_values);
        for (int i = 0; i < one->n_values; i++)
            weights = fmax(weights, fabs((double)many[r].values[i] - (double)one->values[i]));
        /* Every rank has the same bits. */
        CHECK(memcmp(many[r].values, many[0].values, (size_t)one->n_values * sizeof(float)) == 0);
    }
    printf("  kind %d, %d ranks: worst loss %.2g, norm %.2g, validation %.2g, margin %.2g, weight "
           "%.2g\n",
           one->kind, n, loss, norm, validation, rewards, weights);
    const bool same_order = n == 4 && !check_in_software();
    CHECK_CLOSE(loss, 0, same_order ? 0 : 1e-6);
    CHECK_CLOSE(norm, 0, same_order ? 0 : 1e-5);
    CHECK_CLOSE(validation, 0, 1e-6);
    CHECK_CLOSE(rewards, 0, same_order ? 0 : 1e-4);
    /* Adam's first updates divide a gradient by its own size: rounding of tiny ones is amplified.
     */
    CHECK_CLOSE(weights, 0, same_order ? 0 : 1e-4);
}

static void ranks_train_as_one_process_does(void)
{
    static const int counts[] = {2, 3, 4};
    for (int k = PADDED; k <= LABELED; k++) {
        rank_run one = make_run((run_kind)k);
        run_all(&one, 0);
        CHECK_STR(one.message, "");
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            if (check_few() && c != (size_t)k % 3)
                continue;
            rank_run many[MOST_RANKS], start = make_run((run_kind)k);
            start.o.compile = counts[c] == 2; /* which changes nothing */
            fill(many, counts[c], &start);
            run_all(many, counts[c]);
            compare(&one, many, counts[c]);
            close_all(many, counts[c]);
        }
        close_all(&one, 1);
    }
}

static void an_update_has_a_batch_for_each_rank(void)
{
    rank_run runs[3], start = make_run(PADDED);
    start.o.accumulate = 0;
    fill(runs, 3, &start);
    run_all(runs, 3);
    rank_run one = make_run(PADDED);
    one.o.accumulate = 3;
    run_all(&one, 0);
    for (int i = 1; i < one.history.n; i++)
        CHECK_CLOSE(runs[2].history.reports[i].loss, one.history.reports[i].loss, 0);
    close_all(runs, 3);
    close_all(&one, 1);

    start.o.accumulate = 2;
    fill(runs, 3, &start);
    run_all(runs, 3);
    CHECK_EQ_INT(runs[1].status, WEFT_INVALID);
    CHECK_STR(runs[1].message, "trainer: accumulate: expected at least a batch for each of 3 "
                               "ranks, got 2");
    close_all(runs, 3);
}

/* ---- what must be the same ------------------------------------------------------------------ */

static void change(rank_run *r, int what)
{
    switch (what) {
    case 0:
        r->o.lr = 1e-3;
        break;
    case 1:
        r->extra = 1;
        break;
    case 2:
        r->order = 7;
        break;
    case 3:
        r->o.steps = 5;
        break;
    case 4:
        r->o.seed = 1;
        break;
    case 5:
        r->o.optimizer = &weft_optim_lion;
        break;
    case 6:
        r->o.validate_every = 2;
        break;
    default:
        r->batch_size = 2;
    }
}

static void differences_are_named(void)
{
    static const char *const messages[] = {
        "rank 1: training: learning rate: expected 0.005",
        "rank 1: training: data: expected ",
        "rank 1: training: seed of the batches: expected ",
        "rank 1: training: steps: expected 6",
        "rank 1: training: seed: expected 9",
        "rank 1: training: optimizer: expected adamw, as on rank 0, got lion",
        "rank 1: training: updates between validations: expected 3, as on rank 0, got 2",
        "rank 1: training: batch size: expected 3, as on rank 0, got 2"};
    for (int i = 0; i < (int)(sizeof messages / sizeof *messages); i++) {
        rank_run runs[3], start = make_run(PADDED);
        fill(runs, 3, &start);
        change(&runs[1], i);
        run_all(runs, 3);
        for (int r = 0; r < 3; r++) {
            CHECK_EQ_INT(runs[r].status, WEFT_INVALID);
            CHECK_CONTAINS(runs[r].message, messages[i]);
            CHECK_EQ_INT(runs[r].history.n, 0);
        }
        close_all(runs, 3);
    }
}

/* ---- failures and stops --------------------------------------------------------------------- */

static weft_status fail_later(void *context, int64_t step, const weft_train_sample **samples,
                              int *n)
{
    (void)context;
    *samples = NULL;
    *n = 0;
    return step < 3 ? WEFT_OK : weft_fail(WEFT_DEVICE, "the device is gone");
}

static weft_status fail_at_once(void *context, int64_t step, const weft_train_sample **samples,
                                int *n)
{
    *samples = NULL;
    *n = 0;
    return fail_later(context, step + 3, samples, n);
}

/* Every rank ends, and has the message of the one that failed; rank 0 saves. */
static void a_failure_on_one_rank_ends_all(void)
{
    for (int late = 0; late < 2; late++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s", check_temporary(late ? "fails-late" : "fails"));
        rank_run runs[3], start = make_run(PADDED);
        start.o.folder = folder;
        fill(runs, 3, &start);
        runs[2].o.sampler = late ? fail_later : fail_at_once;
        run_all(runs, 3);
        for (int r = 0; r < 3; r++) {
            CHECK_EQ_INT(runs[r].status, WEFT_DEVICE);
            CHECK_STR(runs[r].message, "rank 2: the device is gone");
            CHECK_EQ_INT(runs[r].result.steps, late ? 3 : 0);
        }
        char *text = run_text(folder, "run.json");
        CHECK_CONTAINS(text, "\"state\": \"failed\"");
        CHECK_CONTAINS(text, "rank 2: the device is gone");
        CHECK(run_has(folder, late ? "step-3/training.safetensors" : "step-0/adapter_config.json"));
        weft_free(text);
        close_all(runs, 3);
    }
}

/* Rank 1 has no memory for more than `most` pairs at a time. */
static void run_short(rank_run *runs, int n, int64_t most, int64_t micro)
{
    rank_run start = make_run(PAIRS);
    start.o.objective = run_demanding(&weft_objective_dpo);
    fill(runs, n, &start);
    runs[1].o.micro_batch = micro;
    for (int i = 0; i < n; i++)
        open_run(&runs[i]);
    run_shortage.model = runs[1].model;
    run_shortage.most = most;
    ranks_run(n, train, runs, sizeof *runs);
    run_shortage.model = NULL;
}

/* A rank takes fewer samples at a time before it meets the others, which take all of theirs. Where
 * that is not enough, or not allowed, the failure ends every rank. */
static void a_rank_without_memory_splits_its_batches(void)
{
    rank_run one = make_run(PAIRS), runs[3];
    run_all(&one, 0);
    run_short(runs, 3, 1, 0);
    compare(&one, runs, 3);
    close_all(runs, 3);
    for (int refused = 0; refused < 2; refused++) {
        run_short(runs, 3, refused, refused ? -1 : 0);
        for (int r = 0; r < 3; r++) {
            CHECK_EQ_INT(runs[r].status, WEFT_MEMORY);
            CHECK_CONTAINS(runs[r].message, "rank 1: ");
            CHECK_CONTAINS(runs[r].message, "out of memory");
            CHECK_EQ_INT(runs[r].result.steps, 0);
        }
        close_all(runs, 3);
    }
    close_all(&one, 1);
}

/* Weights that are not finite are so on every rank. */
static void steps_that_are_not_finite_change_nothing_anywhere(void)
{
    rank_run runs[2], start = make_run(PADDED);
    start.o.lr = 1e30;
    start.o.clip = 0;
    start.o.max_skipped = 2;
    start.o.validate_every = 0;
    fill(runs, 2, &start);
    run_all(runs, 2);
    CHECK_EQ_INT(runs[0].status, WEFT_INVALID);
    CHECK_STR(runs[1].message, runs[0].message);
    CHECK_EQ_INT(runs[1].result.skipped, runs[0].result.skipped);
    CHECK(runs[0].result.skipped >= 2);
    close_all(runs, 2);
}

static bool stop_after_three(void *context, const weft_train_report *report)
{
    return run_keep(context, report) && report->step != 3;
}

static void a_stop_on_one_rank_stops_all(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("stopped"));
    rank_run runs[3], start = make_run(PADDED);
    start.o.folder = folder;
    fill(runs, 3, &start);
    runs[1].o.callback = stop_after_three;
    run_all(runs, 3);
    for (int r = 0; r < 3; r++) {
        CHECK_EQ_INT(runs[r].status, WEFT_CANCELLED);
        CHECK_EQ_INT(runs[r].result.steps, 3);
    }
    CHECK(run_has(folder, "step-3/training.safetensors"));
    close_all(runs, 3);
}

/* ---- resuming ------------------------------------------------------------------------------- */

static void check_same_file(const char *a, const char *b, const char *name)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    if (CHECK_OK(weft_file_read(run_file(a, name), 0, &x, &n)) &&
        CHECK_OK(weft_file_read(run_file(b, name), 0, &y, &m)) && CHECK_EQ_INT(n, m))
        CHECK(memcmp(x, y, n) == 0);
    weft_free(x);
    weft_free(y);
}

static void run_in(const char *folder, run_kind kind, int ranks, bool stop, bool resume,
                   rank_run *runs)
{
    rank_run start = make_run(kind);
    start.o.folder = folder;
    start.o.resume = resume;
    if (stop)
        start.o.callback = stop_after_three;
    fill(runs, ranks > 0 ? ranks : 1, &start);
    run_all(runs, ranks);
}

static void resumed_ranks_end_with_the_same_bytes(void)
{
    static const run_kind kinds[] = {PADDED, PAIRS};
    for (int k = 0; k < 2; k++) {
        char whole[512], parted[512];
        snprintf(whole, sizeof whole, "%s", check_temporary(k ? "whole-pairs" : "whole"));
        snprintf(parted, sizeof parted, "%s", check_temporary(k ? "parted-pairs" : "parted"));
        rank_run runs[MOST_RANKS];
        run_in(whole, kinds[k], 2, false, false, runs);
        CHECK_OK(runs[1].status);
        close_all(runs, 2);
        run_in(parted, kinds[k], 2, true, false, runs);
        CHECK_EQ_INT(runs[1].status, WEFT_CANCELLED);
        close_all(runs, 2);
        for (int ranks = 0; ranks < 4; ranks += 3) {
            run_in(parted, kinds[k], ranks, false, true, runs);
            CHECK_EQ_INT(runs[0].status, WEFT_INVALID);
            CHECK_CONTAINS(runs[0].message, ranks ? "ranks: expected the run's 2, got 3"
                                                  : "ranks: expected the run's 2, got 1");
            close_all(runs, ranks ? ranks : 1);
        }
        run_in(parted, kinds[k], 2, false, true, runs);
        CHECK_OK(runs[0].status);
        CHECK_STR(runs[1].message, "");
        CHECK_EQ_INT(runs[1].history.reports[0].step, 4);
        CHECK(memcmp(runs[0].values, runs[1].values, (size_t)runs[0].n_values * sizeof(float)) ==
              0);
        check_same_file(whole, parted, "last/adapter_model.safetensors");
        close_all(runs, 2);
    }
}

CHECK_MAIN("parallel", CHECK_CASE(ranks_train_as_one_process_does),
           CHECK_CASE(an_update_has_a_batch_for_each_rank), CHECK_CASE(differences_are_named),
           CHECK_CASE(a_failure_on_one_rank_ends_all),
           CHECK_CASE(a_rank_without_memory_splits_its_batches),
           CHECK_CASE(steps_that_are_not_finite_change_nothing_anywhere),
           CHECK_CASE(a_stop_on_one_rank_stops_all),
           CHECK_CASE(resumed_ranks_end_with_the_same_bytes))
