/* tests/train/ranks.h -- several ranks in the threads of one process. */
#ifndef TESTS_TRAIN_RANKS_H
#define TESTS_TRAIN_RANKS_H

#include "weft/group.h"

enum { MOST_RANKS = 5 };

/* Calls run(group, argument) for each of n ranks, each in a thread of its own with a group that
 * connects them; arguments are `size` bytes apart. Checks are for the main thread: what a rank
 * finds goes into its argument. */
void ranks_run(int n, void (*run)(weft_group *group, void *argument), void *arguments, size_t size);

#endif
