/* tests/train/runs.h -- short runs of the llama fixture, and reading the files that they write. */
#ifndef TESTS_TRAIN_RUNS_H
#define TESTS_TRAIN_RUNS_H

#include "tests/train/recipes.h"
#include "weft/tool/run.h"

enum { RUN_SAMPLES = 12, RUN_LENGTH = 16 };

extern const recipe *const run_base; /* llama */

/* Samples of different lengths with a pattern that training learns. */
weft_dataset *run_samples(void);

typedef struct history {
    weft_train_report reports[64];
    int n;
    int stop_after; /* reports; 0: never */
} history;

/* The callback that keeps reports in a history. */
weft_train_callback run_keep;

/* A run of the llama fixture's adapter over the samples; its status. */
weft_status run_recipe(weft_trainer_options o, bool validated, history *l,
                       weft_train_result *result);

/* Simulates a shortage of memory: updates of `model` fail for more than `most` pairs, or rows of a
 * batch without pairs. NULL model: no shortage. */
extern struct run_shortage {
    weft_model *model;
    int64_t most;
} run_shortage;

/* A supervised or preference objective that is subject to this shortage; one at a time. */
const weft_objective *run_demanding(const weft_objective *objective);

/* A file of a folder: its path (valid until the next call), its text (weft_free), and whether it
 * exists. */
const char *run_file(const char *folder, const char *name);
char *run_text(const char *folder, const char *name);
bool run_has(const char *folder, const char *name);

#endif
