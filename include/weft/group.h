/* weft/group.h -- distributed training: several processes, on one machine or many, train one model.
 *
 *     weft_group_open(&group);                   mpirun -n 4 PROGRAM: a group of 4
 *     weft_trainer_new(model, &(weft_trainer_options){.group = group, .accumulate = 4}, &trainer);
 *     weft_trainer_run(trainer, batches, validation, &result);
 *     weft_group_close(group);
 *
 * In a run the ranks share the batches of each update, in their order, and those of each
 * validation. Sums of gradients and weights are added up in the order of ranks, and every rank
 * makes the same update: the run is that of one process with the same options, but for the rounding
 * of sums. weft_trainer_run is WEFT_INVALID, with the rank and what differs, when model, data,
 * options or starting weights are not the same on all ranks, and with fewer batches in an update
 * than ranks. Rank 0 alone writes the folder and reads its
 * checkpoints, and a run is resumed with as many ranks as it had. A failure, a callback or a
 * `cancel` on one rank ends the run on all.
 *
 * Each process is a rank. All ranks make the same calls in the same order: a call here waits until
 * every rank has made it. Each function accepts NULL for a group of one rank.
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_group weft_group;

/* How the ranks of a group reach each other: a literal of this, such as that of MPI. Every function
 * is called by all ranks in the same order. A failure is one of the connection: nothing is called
 * after it but `close`. */
typedef struct weft_group_type {
    const char *name;
    /* The n bytes of each rank, in order of ranks: out (size n). */
    weft_status (*gather)(void *context, const void *bytes, size_t n, void *out);
    /* n bytes of rank 0, to all ranks. */
    weft_status (*broadcast)(void *context, void *bytes, size_t n);
    /* Each value becomes the float32 sum over the ranks, from rank 0 to the last, whatever rank is
     * first: the same bits on every rank and in every run. */
    weft_status (*sum)(void *context, float *values, int64_t n);
    /* `broken`: a call has failed, so other ranks may wait for this one. NULL: nothing to close. */
    void (*close)(void *context, bool broken);
} weft_group_type;

typedef struct weft_group_place {
    int rank, size;             /* rank in [0, size) */
    int local_rank, local_size; /* the same among the ranks of this machine */
} weft_group_place;

/* The group that this process was started in: by mpirun or srun, all that were started; otherwise a
 * group of one. WEFT_UNSUPPORTED where several were started and Weft was built without MPI;
 * WEFT_INVALID where the launcher is of another MPI than the one that Weft was built with. To be
 * called once in a process; a program that has called MPI_Init by itself also ends MPI by itself.
 */
WEFT_NODISCARD WEFT_API weft_status weft_group_open(weft_group **out) WEFT_NONNULL(1);

/* A group whose ranks are connected by `type`. The literal and the context must outlive it. */
WEFT_NODISCARD WEFT_API weft_status weft_group_new(const weft_group_type *type, void *context,
                                                   weft_group_place place, weft_group **out)
    WEFT_NONNULL(4);

/* A rank that is closed without a failure waits for the others. */
WEFT_API void weft_group_close(weft_group *group);

/* The rank and size of the group and of its part on this machine. */
WEFT_API weft_group_place weft_group_place_of(const weft_group *group);

/* Agrees on how a piece of work ended: WEFT_OK when it is that on every rank. Otherwise every rank
 * gets the status of the first rank that failed, and its message with "rank R: " in front (without,
 * when all ranks failed with the same message). `stop` (NULL: not wanted) is set on all ranks when
 * it is on one. After a failure that was agreed on the ranks go different ways, and later calls
 * return at once: this one with the status that it is given, or WEFT_CANCELLED instead of WEFT_OK.
 */
WEFT_NODISCARD WEFT_API weft_status weft_group_agree(weft_group *group, weft_status status,
                                                     bool *stop);

/* The functions of the type. WEFT_CANCELLED after a failure that was agreed on. */
WEFT_NODISCARD WEFT_API weft_status weft_group_gather(weft_group *group, const void *bytes,
                                                      size_t n, void *out);
WEFT_NODISCARD WEFT_API weft_status weft_group_broadcast(weft_group *group, void *bytes, size_t n);
WEFT_NODISCARD WEFT_API weft_status weft_group_sum(weft_group *group, float *values, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
