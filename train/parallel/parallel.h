/* train/parallel/parallel.h -- internal interface of parallel training. */
#ifndef WEFT_TRAIN_PARALLEL_H
#define WEFT_TRAIN_PARALLEL_H

#include "train/parallel/group.h"
#include "train/run/identity.h"
#include "train/run/journal.h"
#include "train/trainer.h"

/* ---- load.c --------------------------------------------------------------------------------- */

/* Loads weft-mpi.so and connects this process: returns the group type and the process's rank and
 * size. `launched` is the number of processes according to the launcher's `variable`.
 * WEFT_UNSUPPORTED without a weft-mpi.so of this version. */
weft_status weft__mpi_open(const char *variable, long launched, const weft_group_type **type,
                           weft_group_info *place);

/* ---- start.c -------------------------------------------------------------------------------- */

/* WEFT_INVALID on every rank unless all ranks have the same version, model, data, options and
 * weights. The message names the first rank that differs and the first difference. */
weft_status weft__group_check_same(const weft_trainer *t, const weft__plan *plan,
                                   const weft_batches *batches, const weft_dataset *validation);

/* Sends what rank 0 has read from a checkpoint to all ranks: *state, t->micros, parameters and
 * optimizer state. */
weft_status weft__group_share_state(weft_trainer *t, weft__run_state *state);

/* ---- completions.c -------------------------------------------------------------------------- */

/* Reads this rank's completions of an update, the n batches from number `batch` on, if the journal
 * of rank 0 (NULL elsewhere, or without one) has those of all ranks; else the rollout's dataset
 * stays NULL. `status` is this rank's status so far. *keeps: there is a journal. The result is this
 * rank's alone after a failure to parse its lines. */
weft_status weft__group_find_completions(weft_group *group, weft_status status,
                                         const weft__journal *journal, int64_t batch, int64_t n,
                                         const weft_objective_options *options,
                                         weft__rollout *rollout, bool *keeps);

/* Adds the completions of all ranks to the journal of rank 0. If they cannot be written, which is
 * logged, a resumed run samples them again. */
weft_status weft__group_keep_completions(weft_group *group, weft_status status,
                                         weft__journal *journal, int64_t batch,
                                         const weft__rollout *rollout);

/* ---- update.c ------------------------------------------------------------------------------- */

/* Totals of the current update over all ranks. */
typedef struct weft__shares {
    double targets; /* total weight of the batches */
    int64_t tokens;
    int64_t first; /* number of batches of lower ranks */
} weft__shares;

/* Adds up the totals of all ranks. `status` is this rank's status so far; n is its number of
 * batches. */
weft_status weft__group_add_shares(const weft_trainer *t, weft_status status, int n,
                                   weft__shares *shares);

/* Sums the trainer's loss and rewards over the ranks, and the gradients of this rank's parameters;
 * the others become NULL. *norm is the norm of all of them, and NULL for a group of one. `status`
 * is this rank's status so far. */
weft_status weft__group_add_sums(weft_trainer *t, weft_status status, weft_array **norm);

/* Sends the parameters that this rank has updated to all ranks, if the update was applied, and gets
 * theirs. A failure after which the ranks may differ sets t->torn. `status` is that of this rank's
 * update. */
weft_status weft__group_share_update(weft_trainer *t, weft_status status, bool applied);

/* If `wanted` on rank 0, it gets the optimizer's state of all ranks, for a checkpoint;
 * weft__optim_release drops it. Also after a failure that the ranks have agreed on. */
weft_status weft__group_collect_states(weft_trainer *t, bool wanted);

/* ---- move.c --------------------------------------------------------------------------------- */

/* Assigns each of n parameters to a rank, the largest first, to the rank with the fewest elements.
 */
void weft__group_assign(const weft_group *group, weft_array ***slots, int n, int *owners);

typedef enum weft__move {
    WEFT__MOVE_SUMS,    /* float32: the owner gets the sum over the ranks, the others NULL */
    WEFT__MOVE_TO_ALL,  /* the others get the owner's array */
    WEFT__MOVE_TO_FIRST /* rank 0 gets the owner's array, on the CPU */
} weft__move;

/* Moves the arrays in n slots between the ranks of a group of several; slot i belongs to rank
 * owners[i], and stays as it is if that is negative. Shapes and dtypes are the same on all ranks.
 * The result is agreed. `status` is this rank's status so far. */
weft_status weft__group_move(weft_group *group, weft_status status, weft__move how,
                             weft_array ***slots, const int *owners, int n);

#endif
