/* train/run/journal.h -- completions.jsonl: the sampled completions of a run with their rewards. */
#ifndef WEFT_TRAIN_RUN_JOURNAL_H
#define WEFT_TRAIN_RUN_JOURNAL_H

#include "train/data/dataset.h"

#define WEFT__JOURNAL_FILE "completions.jsonl"

typedef struct weft__journal weft__journal;

/* The completions of an update's prompts. */
typedef struct weft__rollout {
    weft_dataset *dataset; /* of completions; NULL: none yet */
    const weft_dataset *prompts;
    const int64_t *which, *numbers; /* (n): prompts, and the number of the batch of each */
    int64_t n, group;
    double *rewards; /* (n group, n_names); NaN: none */
    const char *const *names;
    int n_names;
    const weft_tokenizer *tokenizer;
} weft__rollout;

/* Opens the file in a run's folder; empties it unless `resume`, which keeps complete lines. */
weft_status weft__journal_open(const char *folder, bool resume, weft__journal **out);
void weft__journal_free(weft__journal *journal); /* NULL is accepted */

/* Reads the completions of a rollout, if the file has all of them: sets its dataset and rewards.
 * The options have the defaults filled in. WEFT_INVALID if the prompts differ. */
weft_status weft__journal_find(weft__journal *journal, const weft_objective_options *options,
                               weft__rollout *rollout);
/* Appends and syncs those of a rollout. If that fails, the file is as before. */
weft_status weft__journal_add(weft__journal *journal, const weft__rollout *rollout);

#endif
