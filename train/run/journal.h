/* train/run/journal.h -- completions.jsonl: the sampled completions of a run with their rewards. */
#ifndef WEFT_TRAIN_RUN_JOURNAL_H
#define WEFT_TRAIN_RUN_JOURNAL_H

#include "core/io/text.h"
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

/* The path of the file; its name for NULL. */
const char *weft__journal_path(const weft__journal *journal);

/* Appends the lines of the n batches from number `batch` on to *out. *found: the file has all of
 * them, `count` lines. */
weft_status weft__journal_read(const weft__journal *journal, int64_t batch, int64_t n,
                               int64_t count, weft__text *out, bool *found);
/* Sets the dataset and the rewards of a rollout from its lines, of n bytes. The options have the
 * defaults filled in; `name` is for messages. WEFT_INVALID if the prompts differ. */
weft_status weft__journal_parse(const char *lines, size_t n, const char *name,
                                const weft_objective_options *options, weft__rollout *rollout);
/* Appends the lines of a rollout to *out. */
weft_status weft__journal_lines(const weft__rollout *rollout, weft__text *out);
/* Appends n bytes of lines, whose first batch has number `batch`, to the file, and syncs it. If
 * that fails, the file is as before. */
weft_status weft__journal_add(weft__journal *journal, int64_t batch, const char *lines, size_t n);

#endif
