/* tests/train/sampled.h -- runs of the storyteller that sample and reward completions. */
#ifndef TESTS_TRAIN_SAMPLED_H
#define TESTS_TRAIN_SAMPLED_H

#include "tests/train/runs.h"
#include "weft/reward.h"

enum {
    SAMPLED_GROUP = 4,
    SAMPLED_MOST = 24, /* tokens of a completion */
    SAMPLED_VALUES = 1 << 18,
    SAMPLED_KEPT = 512
};

/* A run, and the completions that it sampled. */
typedef struct sampled_run {
    weft_objective_options options;
    weft_sampling sampling;
    const weft_objective *objective;
    int64_t steps, accumulate;
    double lr;
    bool compile, resume, overwrite;
    char file[600]; /* of completions; empty: they are sampled */
    const char *folder, *start;
    int stop_after;
    weft_cancel *cancel;
    history history;
    double parts[64][4]; /* of each report: mean and deviation of both rewards */
    weft_status status;
    char message[512];
    int64_t n_values;
    float values[SAMPLED_VALUES]; /* of the trained parameters at the end */
    int calls;                    /* of the reward */
    double mean;                  /* of the weighted sums of the latest call */
    bool validated, same_names;
    int64_t validate_every, patience;
    weft_train_result result;
    char texts[SAMPLED_KEPT][256];
    int n_texts;
    weft_model *model; /* of an open run, as here */
    weft_tokenizer *tokenizer;
    weft_dataset *data;
    weft_batches *batches;
} sampled_run;

/* Opens model and data; trains, as a rank of the group (NULL: none), which may be in a thread of
 * its own; closes them. */
bool sampled_open(sampled_run *r);
void sampled_train(weft_group *group, void *run);
void sampled_close(sampled_run *r);

/* Runs it in this thread. */
void sampled_run_alone(sampled_run *r);

#endif
