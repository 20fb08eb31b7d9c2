/* train/data/packing.h -- samples packed into rows. */
#ifndef WEFT_TRAIN_PACKING_H
#define WEFT_TRAIN_PACKING_H

#include "train/data/dataset.h"

/* Rows of samples of a dataset: row r has samples[starts[r], starts[r + 1]), at most `capacity`
 * tokens that are read. A row's samples are of one part of a mixture, whose parts are `parts`. */
typedef struct weft__packing {
    int64_t n_rows, capacity;
    int64_t *starts, *samples;
    weft__dataset_part *parts;
    int64_t n_parts;
} weft__packing;

/* By best fit, the longest samples first; those of one length in an order that the seed draws.
 * capacity 0: of the longest sample. WEFT_INVALID when a sample is longer. */
weft_status weft__packing_new(const weft_dataset *dataset, int64_t capacity, uint64_t seed,
                              weft__packing *out);
void weft__packing_free(weft__packing *packing);

/* Tokens that row r has. */
int64_t weft__packing_length(const weft__packing *packing, const weft_dataset *dataset, int64_t r);

#endif
