/* train/parallel/group.h -- internal interface of groups. */
#ifndef WEFT_TRAIN_PARALLEL_GROUP_H
#define WEFT_TRAIN_PARALLEL_GROUP_H

#include "weft/group.h"

struct weft_group {
    const weft_group_type *type; /* NULL: a group of one */
    void *context;
    weft_group_info place;
    bool ended;    /* the ranks have agreed on a failure and no longer communicate */
    bool broken;   /* the connection has failed */
    float *values; /* (n_values): of weft__group_values */
    int64_t n_values;
    struct weft__record *records; /* (size): for weft__group_exchange, like `messages` */
    char *messages;
    int64_t *ends; /* (size): for weft_group_sum */
};

static inline bool weft__group_is_one(const weft_group *group)
{
    return group == NULL || group->place.size == 1;
}

/* WEFT_CANCELLED if the ranks have agreed on a failure or the connection has failed. */
weft_status weft__group_check_open(const weft_group *group);

/* Memory for n values to sum, valid until the next call; 0 frees it. Every rank must call it with
 * the same n, and it fails on all of them or none. The group must have more than one rank. */
weft_status weft__group_values(weft_group *group, int64_t n, float **out);

/* The functions of the group's type. The group must have more than one rank. */
weft_status weft__group_reduce_scatter(weft_group *group, float *values, const int64_t *ends);
weft_status weft__group_all_gather(weft_group *group, float *values, const int64_t *ends);

/* ---- exchange.c ----------------------------------------------------------------------------- */

/* Allocates the buffers for exchanges. */
weft_status weft__group_reserve(weft_group *group);

enum { WEFT__EXCHANGED = 8 };

/* weft_group_agree that also sums numbers: each value becomes its sum over the ranks, and `before`
 * (may be NULL) gets the sums over the lower ranks. All exchanges have the same size, so a failed
 * rank can take part in any exchange of the others. */
weft_status weft__group_exchange(weft_group *group, weft_status status, bool *stop,
                                 double values[WEFT__EXCHANGED], double before[WEFT__EXCHANGED]);

/* Value i of a rank in the latest exchange. The group must have more than one rank. */
double weft__group_value(const weft_group *group, int rank, int i);

#endif
