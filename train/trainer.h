/* train/trainer.h -- shared by updates, the run and the files that the run writes. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include "train/objective/objective.h"
#include "weft/compile.h"
#include "weft/train.h"

struct weft_trainer {
    weft_model *model;
    weft_trainer_options o; /* defaults filled in */
    weft_nn_slots slots;    /* what is trained, sorted by path */
    weft_optim *optimizer;
    int64_t updates;            /* made so far, applied or not */
    int64_t first_batch;        /* of this rank in the update in progress */
    int64_t micro;              /* samples of a batch at a time; 0: all */
    int64_t *micros;            /* (ranks): of each rank, after the latest update */
    weft_array *row_keys;       /* of the rows in progress, borrowed (weft__dropout_rows) */
    weft_array *row_rewards;    /* of the batch in progress; NULL: the objective has none */
    weft_reward_report rewards; /* of the update in progress */
    weft_array **gradients;     /* (slots.n): of the update in progress, not owned */
    weft_array **sums;          /* (slots.n + 1): gradients and, last, loss of the batches so far */
    weft_array ***sum_slots;
    weft_array **sum_values;      /* (slots.n + 1): the next sums, not owned */
    weft_compiled *compiled;      /* the update of one batch, if asked for */
    weft_compiled *compiled_sums; /* one of several batches, added to the sums */
    weft_nn_slots parameters;     /* all of them: its state, with the optimizer's */
};

/* train/micro_batch.c: how many samples (of pairs: pairs, of those packed: rows) a batch has; those
 * from .. to, whose arrays are the scope's; and numbers of their rows in the batch, for dropout
 * (rows, 2). */
int64_t weft__batch_samples(const weft_batch *batch);
weft_status weft__batch_part(const weft_batch *batch, int64_t from, int64_t to, weft_batch *out);
weft_array *weft__batch_row_keys(const weft_batch *batch, int64_t from, int64_t to);

/* train/compiled_step.c: compiled functions: the update of one batch, and its gradients added to
 * the sums. Both leave the batch's rewards in t->row_rewards. */
weft_status weft__trainer_compile(weft_trainer *t);
weft_status weft__trainer_update(weft_trainer *t, const weft_batch *batch, double scale,
                                 double lr_factor, weft_optim_call *result);
weft_status weft__trainer_add(weft_trainer *t, const weft_batch *batch, double scale);

/* Sets the micro-batch size to t->micros of the checkpoint unless the options set it: other partial
 * sums would differ in their last bits. */
void weft__trainer_split(weft_trainer *t);

/* The loss of a batch, times the 0-d scale; its gradients are then in t->gradients. */
weft_array *weft__trainer_differentiate(weft_trainer *t, const weft_batch *batch,
                                        weft_array *scale);

/* Adds t->gradients and their batch's loss to the sums, in float32. */
weft_status weft__trainer_add_to_sums(weft_trainer *t, weft_array *loss);

/* What a run writes to its folder. */
typedef struct weft__run weft__run;

/* What a run makes of its options. */
typedef struct weft__plan {
    int64_t steps, warmup;
    weft_rate *factor; /* of lr at update s, from 0 */
} weft__plan;

/* What a run has besides weights and the optimizer's state; the updates so far are result.steps. */
typedef struct weft__run_state {
    weft_train_result result;
    int64_t skipped;   /* updates in a row that were not finite */
    int64_t validated; /* the update that the latest validation was after */
} weft__run_state;

/* Makes the folder, run.json and metrics.jsonl; WEFT_INVALID when it has a run and the options do
 * not say to overwrite or to resume it. A run that is resumed sets the trainer and *state from its
 * newest checkpoint; else *state stays. Without a folder every call does nothing. The trainer and
 * the plan are borrowed. */
weft_status weft__run_open(weft_trainer *trainer, const weft__plan *plan,
                           const weft_batches *batches, const weft_dataset *validation,
                           weft__run_state *state, weft__run **out);

/* Adds a report to metrics.jsonl and to the curves. */
weft_status weft__run_add(weft__run *run, const weft_train_report *report);

/* Saves a checkpoint, to which `last` points then, or the adapter as `best`. */
weft_status weft__run_save(weft__run *run, const weft__run_state *state);
weft_status weft__run_save_best(weft__run *run);

/* Draws the loss curve. */
weft_status weft__run_draw(const weft__run *run);

/* Saves `last` and completes the files. `status` is how the updates ended, with its message; the
 * result is that of the whole: a failure to save counts more than that the run was stopped. */
weft_status weft__run_finish(weft__run *run, const weft__run_state *state, weft_status status);

/* NULL is accepted. */
void weft__run_free(weft__run *run);

#endif
