/* train/dataset.h -- what the files of data share. */
#ifndef WEFT_TRAIN_DATASET_H
#define WEFT_TRAIN_DATASET_H

#include "weft/train.h"

/* Random numbers for orders of samples: splitmix64 (Steele et al. 2014). */
uint64_t weft__mix(uint64_t *state);
/* The numbers 0 to n - 1 in an order that the seed draws. */
void weft__shuffle(int64_t *order, int64_t n, uint64_t *state);

/* Parts `all` into the samples that the seed chooses (that share of them, at least one) and the
 * others, in their order. Frees nothing. WEFT_INVALID when there are fewer than two. */
weft_status weft__dataset_split(const weft_dataset *all, double share, uint64_t seed,
                                weft_dataset **rest, weft_dataset **chosen);

#endif
