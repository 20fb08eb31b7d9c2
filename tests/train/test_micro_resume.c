/* tests/train/test_micro_resume.c -- runs that split their batches because memory is short, resumed
 * with enough memory: they end with the bytes of an uninterrupted run. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"

enum { STEPS = 6, SHORT_AT = 2, STOP_AT = 4, ROWS = 4 };

/* ---- runs ----------------------------------------------------------------------------------- */

typedef struct rank_run {
    const char *folder;
    int64_t most;    /* rows that fit into memory in update SHORT_AT; 0: all */
    int64_t stop_at; /* the update after which the run is stopped; 0: none */
    int64_t micro;   /* the option */
    weft_model *model;
    weft_batches *batches;
    weft_dataset *data;
    weft_status status;
    weft_train_result result;
} rank_run;

/* Memory is short in one update. */
static bool follow(void *context, const weft_train_report *report)
{
    const rank_run *r = context;
    if (r->most > 0) {
        run_shortage.most = r->most;
        run_shortage.model = report->step == SHORT_AT - 1 ? r->model : NULL;
    }
    return report->step != r->stop_at;
}

static const weft_objective *demanding;

static void train(weft_group *group, void *argument)
{
    rank_run *r = argument;
    weft_trainer *trainer = NULL;
    const weft_trainer_options o = {.objective = demanding,
                                    .steps = STEPS,
                                    .lr = 1e-2,
                                    .micro_batch = r->micro,
                                    .accumulate = 2,
                                    .folder = r->folder,
                                    .resume = true,
                                    .save_minutes = -1,
                                    .callback = follow,
                                    .context = r,
                                    .group = group};
    r->status = weft_trainer_new(r->model, &o, &trainer);
    if (r->status == WEFT_OK)
        r->status = weft_trainer_run(trainer, r->batches, NULL, &r->result);
    weft_trainer_free(trainer);
}

/* The last of `ranks` is short of memory; 1: no group. */
static weft_status run(const char *folder, int ranks, const rank_run *like)
{
    rank_run runs[2];
    const weft_nn_lora_options lora = {.rank = 4, .dropout = 0.2};
    for (int i = 0; i < ranks; i++) {
        rank_run *r = &runs[i];
        *r = *like;
        r->most = i == ranks - 1 ? like->most : 0;
        r->folder = folder;
        r->data = run_samples();
        r->model = recipe_model(run_base, NULL);
        weft_random_seed(5);
        CHECK_OK(weft_nn_lora_inject(weft_model_module(r->model), &lora));
        CHECK_OK(weft_batches_new(r->data, ROWS, 0, &r->batches));
    }
    demanding = run_demanding(&weft_objective_supervised);
    if (ranks > 1)
        ranks_run(ranks, train, runs, sizeof *runs);
    else
        train(NULL, runs);
    run_shortage.model = NULL;
    for (int i = 0; i < ranks; i++) {
        CHECK_EQ_INT(runs[i].status, runs[0].status);
        weft_batches_free(runs[i].batches);
        weft_dataset_free(runs[i].data);
        weft_model_free(runs[i].model);
    }
    return runs[0].status;
}

/* Whether two runs ended with the same bytes. */
static bool same(const char *a, const char *b)
{
    char *texts[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    const char *const folders[] = {a, b};
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_file_read(run_file(folders[i], "last/adapter_model.safetensors"), 0,
                                &texts[i], &n[i]));
    const bool equal = n[0] == n[1] && n[0] > 0 && memcmp(texts[0], texts[1], n[0]) == 0;
    weft_free(texts[0]);
    weft_free(texts[1]);
    return equal;
}

static void resumed_runs_keep_the_split(void)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        static const char *const names[] = {"enough", "short", "resumed", "chosen"};
        char folders[4][512];
        for (int i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s-%d", names[i], ranks);
            snprintf(folders[i], sizeof folders[i], "%s", check_temporary(name));
        }
        CHECK_OK(run(folders[0], ranks, &(rank_run){.most = 0}));
        CHECK_OK(run(folders[1], ranks, &(rank_run){.most = 1}));
        CHECK(!same(folders[0], folders[1])); /* in the last bits */
        CHECK_STATUS(run(folders[2], ranks, &(rank_run){.most = 1, .stop_at = STOP_AT}),
                     WEFT_CANCELLED);
        CHECK_OK(run(folders[2], ranks, &(rank_run){.most = 0}));
        CHECK(same(folders[1], folders[2]));
        /* An option overrides it. */
        CHECK_STATUS(run(folders[3], ranks, &(rank_run){.most = 1, .stop_at = STOP_AT}),
                     WEFT_CANCELLED);
        CHECK_OK(run(folders[3], ranks, &(rank_run){.micro = ROWS}));
        CHECK(!same(folders[1], folders[3]));
    }
}

CHECK_MAIN("micro_resume", CHECK_CASE(resumed_runs_keep_the_split))
