/* tests/train/test_sampling_ranks.c -- several ranks that sample completions: the completions,
 * metrics and bits of one process, runs that are stopped and resumed, and failures on one rank. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/folder.h"
#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/sampled.h"

enum { RANKS = 4 };

static sampled_run ranks[RANKS];

static uint64_t failing; /* the allocation that fails; 0: none */

/* Trains n ranks like `start`, for each of which `change` is called first. The number of
 * allocations, if one fails. */
static uint64_t train(int n, const sampled_run *start, void (*change)(sampled_run *r, int rank))
{
    bool open = true;
    for (int r = 0; r < n; r++) {
        ranks[r] = *start;
        if (change)
            change(&ranks[r], r);
        open = open && sampled_open(&ranks[r]);
    }
    weft_memory_fail_at(failing);
    if (open)
        ranks_run(n, sampled_train, ranks, sizeof *ranks);
    const uint64_t made = weft_memory_fail_at(0);
    for (int r = 0; r < n; r++)
        sampled_close(&ranks[r]);
    return made;
}

/* ---- one process and several ---------------------------------------------------------------- */

static double worst(double so_far, double a, double b)
{
    return isnan(a) != isnan(b) ? INFINITY : isnan(a) ? so_far : fmax(so_far, fabs(a - b));
}

static double compare_policies(const weft_policy_report *a, const weft_policy_report *b)
{
    double off = 0;
    CHECK_EQ_INT(a->completions, b->completions);
    CHECK_EQ_INT(a->tokens, b->tokens);
    off = worst(off, a->reward, b->reward);
    off = worst(off, a->reward_std, b->reward_std);
    off = worst(off, a->equal_groups, b->equal_groups);
    off = worst(off, a->truncated, b->truncated);
    off = worst(off, a->entropy, b->entropy);
    off = worst(off, a->kl, b->kl);
    off = worst(off, a->ratio, b->ratio);
    off = worst(off, a->mismatch, b->mismatch);
    off = worst(off, a->length, b->length);
    return off;
}

/* Of the reports that all ranks get. */
static double compare_reports(const sampled_run *a, const sampled_run *b)
{
    double off = 0;
    CHECK_EQ_INT(a->history.n, b->history.n);
    for (int i = 0; i < a->history.n; i++) {
        const weft_train_report *x = &a->history.reports[i], *y = &b->history.reports[i];
        off = worst(off, x->loss, y->loss);
        off = worst(off, x->grad_norm, y->grad_norm);
        off = worst(off, x->validation_loss, y->validation_loss);
        if (x->step > 0)
            off = fmax(off, compare_policies(&x->rewards.policy, &y->rewards.policy));
        for (int k = 0; k < 4; k++)
            off = worst(off, a->parts[i][k], b->parts[i][k]);
    }
    CHECK(a->parts[1][0] > 0 && a->parts[1][1] > 0);
    return off;
}

/* Whether two files have the same completions; ids alone. */
static bool same_ids(const char *a, const char *b, const sampled_run *r)
{
    weft_dataset *both[2] = {NULL, NULL};
    const char *const folders[] = {a, b};
    char path[600];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/completions.jsonl", folders[i]);
        if (!CHECK_OK(weft_dataset_load_completions(path, r->objective, &r->options, &both[i])))
            return false;
    }
    const int64_t n = weft_dataset_info_of(both[0]).samples;
    bool same = n == weft_dataset_info_of(both[1]).samples;
    for (int64_t i = 0; same && i < n; i++) {
        const weft_sample x = weft_dataset_at(both[0], i), y = weft_dataset_at(both[1], i);
        same = x.length == y.length && memcmp(x.ids, y.ids, (size_t)x.length * sizeof *x.ids) == 0;
    }
    weft_dataset_free(both[0]);
    weft_dataset_free(both[1]);
    return same;
}

static bool same_files(const char *a, const char *b, const char *name)
{
    char *x = run_text(a, name), *y = run_text(b, name);
    const bool same = strlen(x) > 0 && strcmp(x, y) == 0;
    weft_free(x);
    weft_free(y);
    return same;
}

/* The difference of the trained parameters, of their norm. */
static double compare_values(const sampled_run *a, const sampled_run *b)
{
    double squares = 0, of = 0;
    CHECK(a->n_values > 0 && a->n_values == b->n_values);
    for (int64_t i = 0; i < a->n_values; i++) {
        squares += pow((double)a->values[i] - (double)b->values[i], 2);
        of += pow((double)b->values[i], 2);
    }
    return sqrt(squares / of);
}

/* With a batch for each rank, sums are added in the order of one process: the same completions with
 * the same log-probabilities and rewards, and the same bits. With two batches for each rank the
 * weights differ in their last digits. */
static void ranks_sample_as_one_process(void)
{
    static sampled_run one;
    static const sampled_run starts[] = {
        {.options = {.beta = 0.05}},
        {.options = {.scale_rewards = "batch", .num_iterations = 2, .temperature = 0.8}},
        {.objective = &weft_objective_rloo, .compile = true},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        char alone[512], many[512];
        snprintf(alone, sizeof alone, "%s", check_temporary("alone"));
        sampled_run *start = &one;
        one = starts[i];
        one.steps = 4;
        one.accumulate = RANKS;
        one.validated = true;
        one.validate_every = 2;
        one.overwrite = true;
        one.folder = alone;
        static sampled_run like;
        like = *start;
        sampled_run_alone(&one);
        CHECK_STR(one.message, "");
        for (int n = 2; n <= RANKS; n += 2) {
            snprintf(many, sizeof many, "%s", check_temporary("many"));
            like.folder = many;
            train(n, &like, NULL);
            double off = 0, values = 0;
            for (int r = 0; r < n; r++) {
                CHECK_STR(ranks[r].message, "");
                off = fmax(off, compare_reports(&one, &ranks[r]));
                values = fmax(values, compare_values(&ranks[r], &one));
                CHECK(memcmp(ranks[r].values, ranks[0].values, sizeof one.values) == 0);
            }
            printf("  %d ranks: worst report %.2g, parameters %.2g\n", n, off, values);
            /* Adam's first updates amplify the rounding of tiny gradients. */
            CHECK_CLOSE(values, 0, n == RANKS ? 0 : 5e-4);
            CHECK_CLOSE(off, 0, n == RANKS ? 1e-12 : 1e-5);
            CHECK(same_ids(alone, many, &one));
            CHECK(n < RANKS || same_files(alone, many, "completions.jsonl"));
        }
    }
}

/* ---- resuming ------------------------------------------------------------------------------- */

/* Ranks that are stopped end, when they are resumed, with the bits of a run that was not. Updates
 * after the checkpoint whose completions are in the file are not sampled again. */
static void resumed_ranks_have_the_same_bits(void)
{
    static sampled_run start;
    static float all[SAMPLED_VALUES];
    char whole[512], folder[512], path[600];
    snprintf(whole, sizeof whole, "%s", check_temporary("ranks-whole"));
    snprintf(folder, sizeof folder, "%s", check_temporary("ranks-resumed"));
    start = (sampled_run){.steps = 6, .accumulate = 3, .options = {.beta = 0.05}, .folder = whole};
    train(2, &start, NULL);
    memcpy(all, ranks[0].values, sizeof all);
    CHECK_EQ_INT(ranks[0].calls, 6); /* of batches: the first rank has one, the second two */
    CHECK_EQ_INT(ranks[1].calls, 12);
    for (int cut = 0; cut < 2; cut++) {
        start.folder = folder;
        start.stop_after = 5;
        start.resume = false;
        start.overwrite = cut > 0;
        train(2, &start, NULL);
        CHECK_EQ_INT(ranks[0].status, WEFT_CANCELLED);
        CHECK_EQ_INT(ranks[1].status, WEFT_CANCELLED);
        snprintf(path, sizeof path, "%s/step-5", folder);
        CHECK_OK(weft__folder_remove(path));
        char *lines = run_text(folder, "completions.jsonl");
        snprintf(path, sizeof path, "%s/completions.jsonl", folder);
        CHECK_OK(weft_file_write(path, lines, strlen(lines) - (cut ? 7 : 0)));
        weft_free(lines);
        start.stop_after = 0;
        start.resume = true;
        start.overwrite = false;
        train(2, &start, NULL);
        for (int r = 0; r < 2; r++) {
            CHECK_STR(ranks[r].message, "");
            CHECK_EQ_INT(ranks[r].history.n, 2); /* from update 4 on */
            CHECK_EQ_INT(ranks[r].calls, (r + 1) * (cut ? 2 : 1));
            CHECK(memcmp(ranks[r].values, all, sizeof all) == 0);
        }
        CHECK(same_files(whole, folder, "completions.jsonl"));
        CHECK(same_files(whole, folder, "last/adapter_model.safetensors"));
    }
}

/* Completions of other prompts are refused on all ranks, also if only one has them. */
static void other_completions_are_refused(void)
{
    static sampled_run start;
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("ranks-other"));
    start = (sampled_run){.steps = 4, .folder = folder, .stop_after = 1};
    train(2, &start, NULL);
    static const char *const gone[] = {"step-1", "last"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, gone[i]);
        CHECK_OK(weft__folder_remove(path));
    }
    static const char begin[] = "{\"batch\": 1, \"prompt_ids\": [";
    char *lines = run_text(folder, "completions.jsonl"), *at = lines;
    int found = 0;
    for (; (at = strstr(at, begin)) != NULL; found++) {
        at += sizeof begin - 1;
        *at = *at == '1' ? '2' : '1';
    }
    CHECK_EQ_INT(found, 2 * SAMPLED_GROUP);
    snprintf(path, sizeof path, "%s/completions.jsonl", folder);
    CHECK_OK(weft_file_write(path, lines, strlen(lines)));
    weft_free(lines);
    start.stop_after = 0;
    start.resume = true;
    train(2, &start, NULL);
    for (int r = 0; r < 2; r++) {
        CHECK_EQ_INT(ranks[r].status, WEFT_INVALID);
        CHECK_CONTAINS(ranks[r].message,
                       "rank 1: completions.jsonl: batch 1: expected completions");
    }
}

/* ---- failures ------------------------------------------------------------------------------- */

/* The third call fails, or is cancelled. */
static weft_status fails(void *context, const weft_completion *c, size_t n,
                         const weft_cancel *cancel, double *out)
{
    sampled_run *r = context;
    (void)cancel;
    for (size_t i = 0; i < 2 * n; i++)
        out[i] = (double)(i % 3);
    if (++r->calls < 3)
        return WEFT_OK;
    if (r->cancel == NULL)
        return weft_fail(WEFT_INVALID, "%s: the reward is nonsense", c[0].where);
    weft_cancel_set(r->cancel);
    return weft_fail(WEFT_CANCELLED, "training was stopped while it waited for rewards");
}

static void fail_on_rank_1(sampled_run *r, int rank)
{
    r->sampling.reward = rank == 1 ? fails : NULL;
}

static void cancel_on_rank_1(sampled_run *r, int rank)
{
    r->sampling.reward = rank == 1 ? fails : NULL;
    r->cancel = rank == 1 ? weft_cancel_new() : NULL;
}

/* A reward that fails on one rank ends all of them, with its row, after the last complete update;
 * one that is stopped does, too. */
static void failures_of_a_rank_end_all(void)
{
    static sampled_run start;
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("ranks-failed"));
    start = (sampled_run){.steps = 6, .folder = folder, .overwrite = true};
    for (int i = 0; i < 2; i++) {
        train(3, &start, i == 0 ? fail_on_rank_1 : cancel_on_rank_1);
        for (int r = 0; r < 3; r++) {
            CHECK_EQ_INT(ranks[r].status, i == 0 ? WEFT_INVALID : WEFT_CANCELLED);
            CHECK_CONTAINS(ranks[r].message, i == 0 ? "rank 1: " : "training was stopped");
            CHECK_EQ_INT(ranks[r].history.n, 2);
        }
        if (i == 0) {
            CHECK_CONTAINS(ranks[0].message, "prompts.jsonl:");
            CHECK_CONTAINS(ranks[2].message, "the reward is nonsense");
        }
        CHECK(run_has(folder, "step-2"));
        weft_cancel_free(ranks[1].cancel);
    }
}

static void stop_validation(sampled_run *r, int rank)
{
    r->calls = rank == 1 ? 2 : 0; /* so the first one, which validates, is the third */
    cancel_on_rank_1(r, rank);
}

/* A validation that is stopped on one rank has no result on any, and the run stops in order. */
static void validations_stop_on_all_ranks(void)
{
    static sampled_run start;
    start = (sampled_run){.steps = 6, .validated = true};
    train(2, &start, stop_validation);
    for (int r = 0; r < 2; r++) {
        CHECK_EQ_INT(ranks[r].status, WEFT_CANCELLED);
        CHECK_CONTAINS(ranks[r].message, "training was stopped after update 0 of 6");
        CHECK(ranks[r].history.n == 1 && isnan(ranks[r].history.reports[0].validation_loss));
    }
    weft_cancel_free(ranks[1].cancel);
}

/* An allocation that fails on one rank ends both ranks, or has a fallback: neither waits for the
 * other. */
static void allocations_fail_on_one_rank(void)
{
    static sampled_run start;
    int ended = 0;
    const int tries = check_few() || check_in_software() ? 6 : 24;
    start = (sampled_run){.steps = 2, .folder = check_temporary("ranks-full"), .overwrite = true};
    failing = (uint64_t)1 << 40;
    const uint64_t all = train(2, &start, NULL);
    CHECK_STR(ranks[1].message, "");
    for (int i = 0; i < tries; i++) {
        failing = all * (uint64_t)(2 * i + 1) / (uint64_t)(2 * tries);
        train(2, &start, NULL);
        CHECK_EQ_INT(ranks[0].status == WEFT_OK, ranks[1].status == WEFT_OK);
        ended += ranks[0].status != WEFT_OK;
    }
    failing = 0;
    printf("  %llu allocations: %d of %d ended both ranks\n", (unsigned long long)all, ended,
           tries);
    CHECK(all > 1000 && ended > 0);
}

static int changed;

static void change(sampled_run *r, int rank)
{
    if (rank == 0)
        return;
    r->sampling.top_k = changed == 0 ? 5 : 0;
    r->sampling.rows = changed == 1 ? 3 : 0;
    r->same_names = false;
    r->options.max_completion_length = changed == 2 ? 8 : 0;
    r->options.mask_truncated = changed == 2;
}

/* Ranks that would sample in another way are refused. */
static void other_options_are_named(void)
{
    static sampled_run start;
    static const char *const messages[] = {
        "rank 1: training: top_k: expected 0, as on rank 0, got 5",
        "rank 1: training: rows of sampling: expected 0, as on rank 0, got 3",
        "rank 1: training: objective's options: expected ",
    };
    start = (sampled_run){.steps = 2};
    for (changed = 0; changed < (int)(sizeof messages / sizeof *messages); changed++) {
        train(2, &start, change);
        for (int r = 0; r < 2; r++) {
            CHECK_EQ_INT(ranks[r].status, WEFT_INVALID);
            CHECK_CONTAINS(ranks[r].message, messages[changed]);
            CHECK_EQ_INT(ranks[r].n_texts, 0);
        }
    }
}

CHECK_MAIN("sampling_ranks", CHECK_CASE(ranks_sample_as_one_process),
           CHECK_CASE(resumed_ranks_have_the_same_bits), CHECK_CASE(other_completions_are_refused),
           CHECK_CASE(failures_of_a_rank_end_all), CHECK_CASE(validations_stop_on_all_ranks),
           CHECK_CASE(allocations_fail_on_one_rank), CHECK_CASE(other_options_are_named))
