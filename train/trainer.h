/* train/trainer.h -- internal interface of training: shared by updates, the run loop and the run's
 * files. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include "train/objective/objective.h"
#include "weft/compile.h"
#include "weft/train.h"
#include "weft/transforms.h"

typedef struct weft__pipeline weft__pipeline;

struct weft_trainer {
    weft_model *model;
    weft_trainer_options o; /* with defaults set */
    weft_nn_slots slots;    /* the trained parameters, sorted by path */
    weft_optim *optimizer;
    int *owners;          /* (slots.n): the rank that updates each; NULL: there is one rank */
    bool torn;            /* an update failed on some ranks only: their weights and states differ */
    int64_t updates;      /* updates so far, including skipped ones */
    int64_t first_batch;  /* index of this rank's first batch in the current update */
    int64_t micro;        /* micro-batch size in samples; 0: the whole batch */
    int64_t *micros;      /* (ranks): micro-batch size of each rank after the latest update */
    weft_array *row_keys; /* of the current rows, borrowed */
    weft_array *row_rewards;      /* of the current batch; NULL: the objective has none */
    weft_reward_report rewards;   /* of the current update */
    weft_policy_report policy;    /* of the current completions: what is known before the loss */
    weft_reward_part *parts;      /* of the current completions, which were sampled; or NULL */
    weft_train_sample samples[4]; /* some of them; owns their texts */
    int n_samples;
    weft_array **start;     /* (slots.n): the reference policy of sampling; NULL: none */
    weft_array **gradients; /* (slots.n): of the current update, not owned */
    weft_array **sums;      /* (slots.n + 1): gradients and, last, loss of the batches so far */
    weft_array ***sum_slots;
    weft_array **sum_values;      /* (slots.n + 1): the next sums, not owned */
    weft_compiled *compiled;      /* an update from one batch; NULL without compilation */
    weft_compiled *compiled_sums; /* adds the gradients of one of several batches to the sums */
    weft__pipeline *pipeline;     /* NULL: the model is on one device */
    const char *begin; /* weft_trainer_verify: the run repeats another from the checkpoint in this
                          folder ("": from its beginning); NULL: a run of its own */
    weft_nn_slots parameters; /* all parameters, which are state of the compiled functions */
};

/* train/optimizer.c: makes the optimizer, of which each rank of a group has a share. */
weft_status weft__trainer_optimizer(weft_trainer *t);

/* train/micro_batch.c. weft__batch_samples: the number of samples of a batch; for pairs the number
 * of pairs, for packed pairs the number of rows. weft__batch_part: samples from .. to, with arrays
 * of the current scope. weft__batch_row_keys: dropout keys of these rows (rows, 2), from their
 * indices in the batch. */
int64_t weft__batch_samples(const weft_batch *batch);
weft_status weft__batch_part(const weft_batch *batch, int64_t from, int64_t to, weft_batch *out);
weft_array *weft__batch_row_keys(const weft_batch *batch, int64_t from, int64_t to);

/* train/shared.c: the part of a batch with the samples from .. *to, at most `step`. If samples of
 * the batch share their prompts, those of the part do: it has whole groups or samples of one. */
weft_status weft__trainer_part(const weft_trainer *t, const weft_batch *batch, int64_t from,
                               int64_t step, int64_t *to, weft_batch *out);

/* train/compiled_step.c: compiled functions for the update of one batch, and for adding its
 * gradients to the sums. Both store the batch's rewards in t->row_rewards. */
weft_status weft__trainer_compile(weft_trainer *t);
weft_status weft__trainer_update(weft_trainer *t, const weft_batch *batch, double scale,
                                 double lr_factor, weft_optim_call *result);
weft_status weft__trainer_add(weft_trainer *t, const weft_batch *batch, double scale);

/* Sets the micro-batch size to the one in the checkpoint (t->micros) unless the options set it.
 * Different partial sums would change the last bits of the gradients. */
void weft__trainer_split(weft_trainer *t);

/* Returns the loss of a batch times the 0-d scale, and stores its gradients in t->gradients. */
weft_array *weft__trainer_differentiate(weft_trainer *t, const weft_batch *batch,
                                        weft_array *scale);

/* The value of a function of the parameters, with its gradients in t->gradients: in training mode,
 * with the dropout of t->row_keys. */
weft_array *weft__trainer_gradients(weft_trainer *t, weft_slot_loss_function *fn, void *context);

/* Sets the seed of batch b of the update. */
void weft__trainer_seed(const weft_trainer *t, int b);

/* Whether the ranks of the group have the same batches, and each computes a share of a batch's
 * examples: those of objectives that compare all vectors of a batch. */
bool weft__trainer_shares_batches(const weft_trainer *t);

/* Halves the micro-batch size, of batches of at most `largest` samples, after a failure for lack of
 * memory, which changed nothing. False if it cannot be halved. */
bool weft__trainer_halve(weft_trainer *t, int64_t largest);

/* train/cached_step.c: adds the gradients and the loss of this rank's share of a batch to the sums,
 * t->micro examples at a time, for an objective with `compare`. */
weft_status weft__trainer_add_cached(weft_trainer *t, const weft_batch *batch, int b, double scale);

/* Adds t->gradients and the loss of their batch to the sums, in float32. */
weft_status weft__trainer_add_to_sums(weft_trainer *t, weft_array *loss);

/* Adds the rewards of a batch whose loss has been evaluated to the report. */
weft_status weft__trainer_read_rewards(weft_trainer *t, const weft_batch *batch);

/* train/pipeline.c: several micro-batches at a time, if the model's layers are on several devices
 * besides the CPU: one more than there are devices, as far as memory allows. A thread that pauses
 * (weft_set_pause) computes one at a time. */
weft_status weft__pipeline_new(weft_trainer *t);
void weft__pipeline_free(weft_trainer *t);
bool weft__pipeline_is_used(const weft_trainer *t);
/* Begins to evaluate t->gradients, the loss of their batch, and its rewards; they are added to the
 * sums later. Nothing has begun on failure. */
weft_status weft__pipeline_add(weft_trainer *t, const weft_batch *batch, weft_array *loss);
/* Waits for all that has begun and adds it to the sums, but after a failure, which `status` may be,
 * only waits. Returns the first failure. */
weft_status weft__pipeline_finish(weft_trainer *t, weft_status status);

/* The files of a run. */
typedef struct weft__run weft__run;

/* The plan of a run, derived from its options. */
typedef struct weft__plan {
    int64_t steps, warmup;
    weft_rate *factor; /* factor of the learning rate at update s, counted from 0 */
} weft__plan;

/* plan.c. The plan of a run, without its factor. */
weft__plan weft__plan_of(const weft_trainer *trainer, const weft_batches *batches);
/* Makes the factor: (s + 1) / W for W warmup updates, then the schedule. */
weft_status weft__plan_factor(weft__plan *plan, const char *schedule);

/* The state of a run besides weights and optimizer state. result.steps is the number of updates so
 * far. */
typedef struct weft__run_state {
    weft_train_result result;
    int64_t skipped;   /* consecutive updates that were not finite */
    int64_t validated; /* the update after which the latest validation ran */
} weft__run_state;

/* Creates the folder, run.json and metrics.jsonl. WEFT_INVALID if the folder already has a run and
 * the options request neither overwriting nor resuming. Resuming restores the trainer and *state
 * from the newest checkpoint; otherwise *state is unchanged. Without a folder every call does
 * nothing. The trainer and the plan are borrowed. */
weft_status weft__run_open(weft_trainer *trainer, const weft__plan *plan,
                           const weft_batches *batches, const weft_dataset *validation,
                           weft__run_state *state, weft__run **out);

/* Adds a report to metrics.jsonl and to the curves. */
weft_status weft__run_add(weft__run *run, const weft_train_report *report);

/* weft__run_save: saves a checkpoint and points `last` to it. weft__run_save_best: saves `best`. */
weft_status weft__run_save(weft__run *run, const weft__run_state *state);
weft_status weft__run_save_best(weft__run *run);

/* Draws the loss curve. */
weft_status weft__run_draw(const weft__run *run);

/* Saves `last` and completes the files. `status` is the result of the updates, whose message is
 * set. Returns the status of the whole run: a failure to save takes precedence over a cancellation.
 */
weft_status weft__run_finish(weft__run *run, const weft__run_state *state, weft_status status);

/* NULL is accepted. */
void weft__run_free(weft__run *run);

#endif
