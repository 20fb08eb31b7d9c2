/* tests/train/test_sampling.c -- training with rewards from completions that the trainer samples:
 * they come from the current weights, the same completions from a file give the same adapter, and
 * stopped runs end with the same bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/folder.h"
#include "tests/check.h"
#include "tests/train/sampled.h"
#include "train/rollout.h"

/* ---- the policy that samples ----------------------------------------------------------------- */

/* The sampler's log-probabilities are those of the weights before the update, which are far from
 * those of the start: compiled steps and caches of the model have the current weights. */
static void completions_come_from_the_current_weights(void)
{
    static sampled_run r;
    static const double temperatures[] = {1, 0.7};
    for (int i = 0; i < 4; i++) {
        r = (sampled_run){.steps = 8,
                          .lr = 0.02,
                          .compile = i % 2 == 1,
                          .options = {.beta = 0.01, .temperature = temperatures[i / 2]}};
        sampled_run_alone(&r);
        CHECK_STR(r.message, "");
        if (!CHECK_EQ_INT(r.history.n, 8))
            continue;
        double worst = 0;
        for (int k = 0; k < 8; k++)
            worst = fmax(worst, r.history.reports[k].rewards.policy.mismatch);
        const double moved = r.history.reports[7].rewards.policy.kl;
        printf("  sampler mismatch %.2g, KL from the start %.2g\n", worst, moved);
        CHECK(worst > 0 && worst < 2e-5); /* float32; kernels for one row add in another order */
        CHECK(moved > 0.05);
        CHECK_CLOSE(r.history.reports[0].rewards.policy.kl, 0, 1e-9);
    }
}

/* Without an update the completions of a second epoch differ: the numbers of a batch are its own.
 * The same run samples the same ones. */
static void random_numbers_are_those_of_the_run(void)
{
    static sampled_run a, b;
    a = (sampled_run){.steps = 6, .lr = 1e-30};
    b = a;
    sampled_run_alone(&a);
    sampled_run_alone(&b);
    CHECK_EQ_INT(a.n_texts, 6 * 2 * SAMPLED_GROUP);
    CHECK_EQ_INT(a.calls, 6);
    CHECK(memcmp(a.texts, b.texts, sizeof a.texts) == 0);
    int same = 0;
    for (int i = 0; i < a.n_texts; i++) {
        for (int k = 0; k < i; k++)
            same += strcmp(a.texts[i], a.texts[k]) == 0;
    }
    CHECK_EQ_INT(same, 0);
}

/* Validation gives the mean reward of each prompt's most probable completion, and changes no
 * update. metrics.jsonl and the report have it, each reward, and completions. */
static void held_out_prompts_are_validated(void)
{
    static sampled_run plain, r, again;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("validated"));
    plain = (sampled_run){.steps = 4};
    r = (sampled_run){.steps = 4, .validated = true, .folder = folder};
    sampled_run_alone(&plain);
    sampled_run_alone(&r);
    CHECK_STR(r.message, "");
    CHECK_EQ_INT(r.calls, 6); /* the updates, before the first and after the last */
    CHECK(r.n_values == plain.n_values &&
          memcmp(r.values, plain.values, (size_t)r.n_values * sizeof *r.values) == 0);
    const weft_train_report *last = &r.history.reports[r.history.n - 1];
    CHECK_CLOSE(-last->validation_loss, r.mean, 1e-12);
    CHECK(r.history.reports[0].step == 0 && isfinite(r.history.reports[0].validation_loss));
    char *text = run_text(folder, "metrics.jsonl");
    static const char *const parts[] = {"\"validation_reward\": ", "\"rewards/letters\": ",
                                        "\"samples\": [{\"prompt\": \"", "\"reward\": "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_CONTAINS(text, parts[i]);
    CHECK(strstr(text, "validation_loss") == NULL);
    weft_free(text);
    text = run_text(folder, "report.html");
    static const char *const shown[] = {"Mean of each reward",
                                        "letters",
                                        "period",
                                        "Entropy of the next token",
                                        "Share of completions cut off",
                                        "Tokens of a completion",
                                        "<b>reward ",
                                        "<th>validation reward before training</th>"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        CHECK_CONTAINS(text, shown[i]);
    weft_free(text);
    again = (sampled_run){.steps = 4, .same_names = true};
    sampled_run_alone(&again);
    CHECK_EQ_INT(again.status, WEFT_INVALID);
    CHECK_CONTAINS(again.message, "reward letters is there twice");
}

/* The rewards of held-out completions are 0 before training, 1 at first, then null; those of
 * sampled ones are 0 and 1. */
static weft_status rewarded_once(void *context, const weft_completion *c, size_t n,
                                 const weft_cancel *cancel, double *out)
{
    sampled_run *r = context;
    (void)c;
    (void)cancel;
    const double held_out[] = {0, 1, NAN}, x = held_out[r->calls < 2 ? r->calls : 2];
    const bool sampled = n == (size_t)2 * SAMPLED_GROUP;
    for (size_t i = 0; i < 2 * n; i++)
        out[i] = sampled ? (double)(i % 4 < 2) : x;
    r->calls += !sampled;
    return WEFT_OK;
}

/* A validation without rewards does not replace the best one. A run out of patience ends after the
 * last update on its completions, where it can be resumed. */
static void validations_without_rewards_are_not_the_best(void)
{
    static sampled_run r;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("null-rewards"));
    for (int i = 0; i < 2; i++) {
        r = (sampled_run){.steps = 12,
                          .options = {.num_iterations = 4},
                          .sampling.reward = rewarded_once,
                          .folder = folder,
                          .validated = true,
                          .validate_every = 3,
                          .patience = 1,
                          .resume = i > 0};
        sampled_run_alone(&r);
        CHECK_STR(r.message, "");
        CHECK_EQ_INT(r.result.steps, 8);
        CHECK_EQ_INT(r.result.best_step, 3);
        CHECK_CLOSE(r.result.best_validation, -1.25, 1e-12);
        CHECK_EQ_INT(r.calls, i == 0 ? 3 : 0);
    }
}

static weft_status no_rewards(void *context, const weft_completion *c, size_t n,
                              const weft_cancel *cancel, double *out)
{
    (void)context;
    (void)c;
    (void)cancel;
    for (size_t i = 0; i < 2 * n; i++)
        out[i] = NAN;
    return WEFT_OK;
}

static void count_warning(void *context, weft_log_level level, const char *message)
{
    *(int *)context +=
        level == WEFT_LOG_WARNING && strstr(message, "all of the first update are null") != NULL;
}

/* Such as those of --reward exact for rows without an answer. */
static void an_update_without_rewards_warns_once(void)
{
    static sampled_run r;
    for (int i = 0; i < 2; i++) {
        int warnings = 0;
        r = (sampled_run){.steps = 2, .sampling.reward = i == 0 ? no_rewards : NULL};
        weft_set_log(count_warning, &warnings);
        sampled_run_alone(&r);
        weft_set_log(NULL, NULL);
        CHECK_STR(r.message, "");
        CHECK_EQ_INT(warnings, i == 0);
    }
}

/* A character U+0000 does not end the text of a completion. */
static void a_zero_does_not_cut_a_text(void)
{
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n;
    CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer));
    if (CHECK_OK(weft_tokenizer_encode(tokenizer, "a\0b\0", 4, 0, &ids, &n)) &&
        CHECK_OK(weft__completion_text(tokenizer, ids, n, 0, &text)))
        CHECK_STR(text, "a\xef\xbf\xbd"
                        "b\xef\xbf\xbd");
    weft_free(text);
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
}

/* ---- completions of a file ------------------------------------------------------------------- */

/* The completions of a run, given to another run as a file, give the same updates. */
static void completions_of_a_file_make_the_same_updates(void)
{
    static sampled_run sampled, read;
    char folder[512];
    for (int i = 0; i < 3; i++) {
        snprintf(folder, sizeof folder, "%s", check_temporary("sampled-run"));
        sampled = (sampled_run){.steps = 4,
                                .accumulate = i == 1 ? 2 : 1,
                                .options = {.num_iterations = i == 2 ? 2 : 1},
                                .folder = folder,
                                .overwrite = true};
        sampled_run_alone(&sampled);
        CHECK_STR(sampled.message, "");
        read = sampled;
        read.n_values = read.history.n = 0;
        read.folder = NULL;
        snprintf(read.file, sizeof read.file, "%s/completions.jsonl", folder);
        sampled_run_alone(&read);
        CHECK_STR(read.message, "");
        CHECK(sampled.n_values > 0 && sampled.n_values == read.n_values);
        CHECK(memcmp(sampled.values, read.values, sizeof read.values) == 0);
        for (int k = 0; k < 4; k++) {
            const weft_train_report *x = &sampled.history.reports[k], *y = &read.history.reports[k];
            CHECK(x->loss == y->loss && x->grad_norm == y->grad_norm);
            CHECK(x->rewards.policy.mismatch == y->rewards.policy.mismatch);
        }
    }
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* A stopped run ends with the bits of one that was not, and reads the completions of updates after
 * its checkpoint, unless their last line is cut off. */
static void resumed_runs_have_the_same_bits(void)
{
    static sampled_run all, first, rest;
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("sampling-resumed"));
    all = (sampled_run){.steps = 6, .options = {.beta = 0.05}};
    sampled_run_alone(&all);
    CHECK_EQ_INT(all.calls, 6);
    for (int cut = 0; cut < 2; cut++) {
        first =
            (sampled_run){.steps = 6, .options = {.beta = 0.05}, .folder = folder, .stop_after = 5};
        first.overwrite = cut > 0;
        sampled_run_alone(&first);
        CHECK_EQ_INT(first.status, WEFT_CANCELLED);
        CHECK_EQ_INT(first.calls, 5);
        snprintf(path, sizeof path, "%s/step-5", folder);
        CHECK_OK(weft__folder_remove(path));
        char *lines = run_text(folder, "completions.jsonl");
        snprintf(path, sizeof path, "%s/completions.jsonl", folder);
        CHECK(strstr(lines, "\"rewards\": {\"letters\": ") != NULL);
        CHECK_OK(weft_file_write(path, lines, strlen(lines) - (cut ? 7 : 0)));
        weft_free(lines);
        rest =
            (sampled_run){.steps = 6, .options = {.beta = 0.05}, .folder = folder, .resume = true};
        sampled_run_alone(&rest);
        CHECK_STR(rest.message, "");
        CHECK_EQ_INT(rest.history.n, 2); /* from update 4 on */
        CHECK_EQ_INT(rest.calls, cut ? 2 : 1);
        CHECK(memcmp(rest.values, all.values, sizeof all.values) == 0);
        CHECK(rest.history.reports[0].rewards.policy.n_parts == 2);
        char *metrics = run_text(folder, "metrics.jsonl");
        CHECK_CONTAINS(metrics, "\"rewards/letters\": ");
        CHECK_CONTAINS(metrics, "\"rewards/period/std\": ");
        CHECK_CONTAINS(metrics, "\"sampler_mismatch\": ");
        weft_free(metrics);
    }
}

/* Completions of other prompts in the folder are refused. */
static void other_completions_are_refused(void)
{
    static sampled_run r;
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("sampling-other"));
    r = (sampled_run){.steps = 2, .folder = folder, .stop_after = 1};
    sampled_run_alone(&r);
    snprintf(path, sizeof path, "%s/step-1", folder);
    CHECK_OK(weft__folder_remove(path));
    snprintf(path, sizeof path, "%s/last", folder);
    CHECK_OK(weft__folder_remove(path));
    char *lines = run_text(folder, "completions.jsonl"), *at = lines;
    while ((at = strstr(at, "\"prompt_ids\": [")) != NULL) {
        at += strlen("\"prompt_ids\": [");
        *at = *at == '1' ? '2' : '1';
    }
    snprintf(path, sizeof path, "%s/completions.jsonl", folder);
    CHECK_OK(weft_file_write(path, lines, strlen(lines)));
    weft_free(lines);
    r = (sampled_run){.steps = 2, .folder = folder, .resume = true};
    sampled_run_alone(&r);
    CHECK_EQ_INT(r.status, WEFT_INVALID);
    CHECK_CONTAINS(r.message, "completions.jsonl: batch 0: expected completions of its prompts");
}

/* ---- failures -------------------------------------------------------------------------------- */

static weft_status fails(void *context, const weft_completion *c, size_t n,
                         const weft_cancel *cancel, double *out)
{
    sampled_run *r = context;
    (void)c;
    (void)cancel;
    if (r->calls++ == 0) {
        for (size_t i = 0; i < 2 * n; i++)
            out[i] = (double)i;
        return WEFT_OK;
    }
    out[3] = INFINITY;
    return r->cancel ? (weft_cancel_set(r->cancel), weft_fail(WEFT_CANCELLED, "stopped")) : WEFT_OK;
}

/* A failed reward ends the run after the last complete update. */
static void failures_end_the_run(void)
{
    static sampled_run r;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("sampling-failed"));
    r = (sampled_run){.steps = 4, .folder = folder, .sampling.reward = fails};
    sampled_run_alone(&r);
    CHECK_EQ_INT(r.status, WEFT_INVALID);
    CHECK_CONTAINS(r.message, "prompts.jsonl:");
    CHECK_CONTAINS(r.message, "reward period: expected a number of at most 3.40282e+38, got inf");
    CHECK(run_has(folder, "step-1"));
    r = (sampled_run){.steps = 4,
                      .folder = folder,
                      .overwrite = true,
                      .sampling.reward = fails,
                      .cancel = weft_cancel_new()};
    sampled_run_alone(&r);
    CHECK_EQ_INT(r.status, WEFT_CANCELLED);
    CHECK_EQ_INT(r.history.n, 1);
    CHECK(run_has(folder, "step-1"));
    weft_cancel *set = r.cancel;
    r = (sampled_run){.steps = 4, .cancel = set}; /* it is already set, so sampling stops */
    sampled_run_alone(&r);
    CHECK_EQ_INT(r.status, WEFT_CANCELLED);
    CHECK_EQ_INT(r.calls, 0);
    weft_cancel_free(set);
}

static void prompts_are_checked(void)
{
    weft_tokenizer *tokenizer = NULL;
    weft_dataset *d = NULL;
    const char *path = check_temporary("bad-prompts.jsonl");
    const weft_data_source source = {.path = path};
    static const struct {
        const char *rows, *part;
        weft_long_samples longer;
    } wrong[] = {
        {"{\"text\": \"a\"}\n", "bad-prompts.jsonl:1: expected one of prompt and messages", 0},
        {"{\"prompt\": \"a b c d e f g h\"}\n", "the prompt has 8 tokens, more than the length 3",
         0},
        {"{\"prompt\": \"a b c d e f g h\"}\n", "every prompt is longer than 3", WEFT_LONG_DROP},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "needs a chat template",
         0},
        {"{\"prompt\": \"a\", \"answer\": true}\n", "expected a text, got", 0},
    };
    if (!CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const weft_dataset_options o = {.length = 3, .longer = wrong[i].longer};
        CHECK_OK(weft_file_write(path, wrong[i].rows, strlen(wrong[i].rows)));
        CHECK(weft_dataset_load_prompts(&source, 1, tokenizer, &o, &d) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), wrong[i].part);
        CHECK(d == NULL);
    }
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("sampling", CHECK_CASE(completions_come_from_the_current_weights),
           CHECK_CASE(random_numbers_are_those_of_the_run),
           CHECK_CASE(held_out_prompts_are_validated),
           CHECK_CASE(validations_without_rewards_are_not_the_best),
           CHECK_CASE(an_update_without_rewards_warns_once), CHECK_CASE(a_zero_does_not_cut_a_text),
           CHECK_CASE(completions_of_a_file_make_the_same_updates),
           CHECK_CASE(resumed_runs_have_the_same_bits), CHECK_CASE(other_completions_are_refused),
           CHECK_CASE(failures_end_the_run), CHECK_CASE(prompts_are_checked))
