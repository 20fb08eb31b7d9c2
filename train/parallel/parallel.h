/* train/parallel/parallel.h -- what training does in a group of ranks. */
#ifndef WEFT_TRAIN_PARALLEL_H
#define WEFT_TRAIN_PARALLEL_H

#include "train/parallel/group.h"
#include "train/run/identity.h"
#include "train/trainer.h"

/* ---- load.c --------------------------------------------------------------------------------- */

/* The type of MPI and this process's place in it. The launcher's variable says how many processes
 * it has started. WEFT_UNSUPPORTED where there is no weft-mpi.so of this version. */
weft_status weft__mpi_open(const char *variable, long launched, const weft_group_type **type,
                           weft_group_info *place);

/* ---- start.c -------------------------------------------------------------------------------- */

/* WEFT_INVALID on every rank, naming the first rank and the first thing that differ, unless all
 * have the same model, data, options and weights. `identity` is of rank 0 and up. */
weft_status weft__group_check_same(const weft_trainer *t, const weft__plan *plan,
                                   const weft_batches *batches, const weft_dataset *validation);

/* What rank 0 has read from a checkpoint, to all ranks: *state, t->micros, parameters and
 * optimizer.
 */
weft_status weft__group_share_state(weft_trainer *t, weft__run_state *state);

/* ---- update.c ------------------------------------------------------------------------------- */

/* Of the update in progress, over all ranks. */
typedef struct weft__shares {
    double targets; /* the weight of the batches */
    int64_t tokens;
    int64_t first; /* batches of lower ranks */
} weft__shares;

/* Adds up the ranks' shares of an update; `status` is how this rank's was found. */
weft_status weft__group_add_shares(const weft_trainer *t, weft_status status, int n,
                                   weft__shares *shares);

/* Sums the trainer's gradients, loss and rewards over the ranks. `status` is this rank's status so
 * far. */
weft_status weft__group_add_sums(weft_trainer *t, weft_status status);

#endif
