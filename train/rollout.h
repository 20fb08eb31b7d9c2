/* train/rollout.h -- the completions of an update of an objective with rewards. */
#ifndef WEFT_TRAIN_ROLLOUT_H
#define WEFT_TRAIN_ROLLOUT_H

#include "train/trainer.h"

/* The number of consecutive updates on the same batches: 1 for objectives without rewards. */
int64_t weft__rollout_iterations(const weft_trainer *trainer);

/* Prepares this rank's n batches of completions for their first update: sets the columns `old`, if
 * the updates or the rewards need it, and `advantages`. `first` has the first example of each batch
 * in the dataset. *report gets what is known of the rewards and completions of all ranks. */
weft_status weft__rollout_prepare(weft_trainer *trainer, const weft_dataset *dataset,
                                  weft_batch *batches, const int64_t *first, int n,
                                  weft_policy_report *report);

#endif
