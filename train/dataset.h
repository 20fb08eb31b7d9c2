/* train/dataset.h -- what the files of data share. */
#ifndef WEFT_TRAIN_DATASET_H
#define WEFT_TRAIN_DATASET_H

#include "weft/train.h"

/* Random numbers for orders of samples: splitmix64 (Steele et al. 2014). */
uint64_t weft__mix(uint64_t *state);
/* The numbers 0 to n - 1 in an order that the seed draws. */
void weft__shuffle(int64_t *order, int64_t n, uint64_t *state);

/* Targets of a sample: ids other than the first whose weight is not 0. */
int64_t weft__sample_targets(const weft_sample *sample);

/* Where each group of samples starts, and after the *n starts the number of samples; the caller
 * frees them. NULL when out of memory. */
int64_t *weft__dataset_groups(const weft_dataset *dataset, int64_t *n);

/* Parts `all` into the groups of samples that the seed chooses (that share of them, at least one)
 * and the others, in their order. Frees nothing. WEFT_INVALID when there are fewer than two. */
weft_status weft__dataset_split(const weft_dataset *all, double share, uint64_t seed,
                                weft_dataset **rest, weft_dataset **chosen);

#endif
