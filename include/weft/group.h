/* weft/group.h -- distributed training: several processes, on one machine or many, train one model.
 *
 *     weft_group_open(&group);                   mpirun -n 4 PROGRAM: a group of 4
 *     weft_trainer_new(model, &(weft_trainer_options){.group = group, .accumulate = 4}, &trainer);
 *     weft_trainer_run(trainer, batches, validation, &result);
 *     weft_group_close(group);
 *
 * Each process is a rank. All ranks make the same calls in the same order: a call here waits until
 * every rank has made it. NULL stands for a group of one rank.
 *
 * In a run the ranks share the batches of each update, in their order, and those of each
 * validation. Gradients and weights are summed in the order of ranks. Each rank updates a share of
 * the parameters, keeps only their optimizer state, and sends the updated parameters to the others.
 * The result is that of one process with the same options up to the rounding of sums.
 * Only rank 0 writes the folder and reads checkpoints. A run is resumed with the number of ranks it
 * had. A failure, a callback or a `cancel` on one rank ends the run on all.
 *
 * weft_trainer_run is WEFT_INVALID, with the rank and the difference, if model, data, options or
 * starting weights differ between ranks, and if an update has fewer batches than ranks.
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

/* How the ranks of a group communicate, such as MPI. All ranks call every function in the same
 * order. After a failure, which means that the connection is lost, only `close` is called. */
typedef struct weft_group_type {
    const char *name;
    /* Gathers n bytes of each rank, in the order of ranks, in `out` of size * n bytes. */
    weft_status (*gather)(void *context, const void *bytes, size_t n, void *out);
    /* Sends n bytes of rank 0 to all ranks. */
    weft_status (*broadcast)(void *context, void *bytes, size_t n);
    /* Rank r owns the values from ends[r - 1], or 0 for rank 0, to ends[r]. reduce_scatter replaces
     * this rank's by their float32 sums over the ranks, added in the order of ranks, so every run
     * gets the same bits; it changes no others. all_gather copies those of every rank to all; they
     * are any bits, not only floats. */
    weft_status (*reduce_scatter)(void *context, float *values, const int64_t *ends);
    weft_status (*all_gather)(void *context, float *values, const int64_t *ends);
    /* Sets *out to memory for n values, valid until the next call or `close`, which the two above
     * use without a copy; with n 0 only frees it. WEFT_MEMORY, which does not end the connection,
     * without memory. May be NULL: both accept any memory. */
    weft_status (*values)(void *context, int64_t n, float **out);
    /* `broken`: a call has failed, so other ranks may be waiting for this one. May be NULL. */
    void (*close)(void *context, bool broken);
} weft_group_type;

typedef struct weft_group_info {
    int rank, size;             /* rank in [0, size) */
    int local_rank, local_size; /* the same among the ranks of this machine */
} weft_group_info;

/* Opens the group of processes that mpirun or srun started, or a group of one; close *out with
 * weft_group_close. Call it once per process. A program that calls MPI_Init itself must also
 * finalize MPI itself. WEFT_UNSUPPORTED if several processes were started and Weft was built
 * without MPI; WEFT_INVALID if the launcher belongs to another MPI than the one that Weft was built
 * with. */
WEFT_NODISCARD WEFT_API weft_status weft_group_open(weft_group **out) WEFT_NONNULL(1);

/* A group whose ranks communicate by `type`; close *out with weft_group_close. The literal and the
 * context must outlive it. WEFT_INVALID for a rank that is not below its size. */
WEFT_NODISCARD WEFT_API weft_status weft_group_new(const weft_group_type *type, void *context,
                                                   weft_group_info place, weft_group **out)
    WEFT_NONNULL(4);

/* Closes and frees the group; waits for the other ranks unless a call has failed. */
WEFT_API void weft_group_close(weft_group *group);

/* The rank and size of the group and of its part on this machine. */
WEFT_API weft_group_info weft_group_info_of(const weft_group *group);

/* Agrees on the status of a piece of work: WEFT_OK if it is WEFT_OK on every rank. Otherwise every
 * rank gets the status of the first failed rank and its message, prefixed by "rank R: " unless all
 * ranks failed with the same message. *stop (may be NULL) becomes true on all ranks if it is on
 * one. After an agreed failure later calls return immediately: this one with its argument, or
 * WEFT_CANCELLED instead of WEFT_OK. */
WEFT_NODISCARD WEFT_API weft_status weft_group_agree(weft_group *group, weft_status status,
                                                     bool *stop);

/* The functions of the type; weft_group_sum replaces each value by its float32 sum, added in the
 * order of ranks. WEFT_CANCELLED after an agreed failure. */
WEFT_NODISCARD WEFT_API weft_status weft_group_gather(weft_group *group, const void *bytes,
                                                      size_t n, void *out);
WEFT_NODISCARD WEFT_API weft_status weft_group_broadcast(weft_group *group, void *bytes, size_t n);
WEFT_NODISCARD WEFT_API weft_status weft_group_sum(weft_group *group, float *values, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
