/* train/parallel/group.h -- a group, for the files that connect and use it. */
#ifndef WEFT_TRAIN_PARALLEL_GROUP_H
#define WEFT_TRAIN_PARALLEL_GROUP_H

#include "weft/group.h"

struct weft_group {
    const weft_group_type *type; /* NULL: a group of one */
    void *context;
    weft_group_info place;
    bool ended;                   /* the ranks have agreed on a failure and go different ways */
    bool broken;                  /* the connection has failed */
    struct weft__record *records; /* (size): for weft__group_exchange, as `messages` is */
    char *messages;
};

static inline bool weft__group_is_one(const weft_group *group)
{
    return group == NULL || group->place.size == 1;
}

/* WEFT_CANCELLED when its ranks have agreed on a failure, or one was lost. */
weft_status weft__group_check_open(const weft_group *group);

/* ---- exchange.c ----------------------------------------------------------------------------- */

/* Makes room for what ranks exchange. */
weft_status weft__group_reserve(weft_group *group);

enum { WEFT__EXCHANGED = 8 };

/* weft_group_agree that also sums numbers: each becomes its sum over the ranks, and in `before`
 * (may be NULL) the sum over the lower ranks. Every exchange has the same size, so a failed rank
 * can join any exchange of the others. */
weft_status weft__group_exchange(weft_group *group, weft_status status, bool *stop,
                                 double values[WEFT__EXCHANGED], double before[WEFT__EXCHANGED]);

/* Number i of a rank in the latest exchange of a group of several. */
double weft__group_value(const weft_group *group, int rank, int i);

#endif
