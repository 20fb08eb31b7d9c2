/* tests/train/ranks.h -- runs several ranks in threads of one process. */
#ifndef TESTS_TRAIN_RANKS_H
#define TESTS_TRAIN_RANKS_H

#include "weft/group.h"

enum { MOST_RANKS = 5 };

/* Calls run(group, argument) for each of n ranks, each in a thread of its own with a group that
 * connects them; arguments are `size` bytes apart. Only the main thread may call checks: a
 * rank stores its results in its argument. */
void ranks_run(int n, void (*run)(weft_group *group, void *argument), void *arguments, size_t size);

#endif
