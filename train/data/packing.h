/* train/data/packing.h -- packs examples into rows. */
#ifndef WEFT_TRAIN_PACKING_H
#define WEFT_TRAIN_PACKING_H

#include "train/data/dataset.h"

/* Packed rows of a dataset: row r has examples[starts[r], starts[r + 1]), with at most `capacity`
 * input tokens. All examples of a row are from the same part of a mixture. `parts` has the parts in
 * rows. */
typedef struct weft__packing {
    int64_t n_rows, capacity;
    int64_t *starts, *examples;
    int64_t *cells; /* input tokens of each example */
    weft__dataset_part *parts;
    int64_t n_parts;
} weft__packing;

/* Packs by best fit, longest examples first; the seed determines the order of examples of equal
 * length. A capacity of 0 means the length of the longest example. WEFT_INVALID if an example is
 * longer than `capacity`. */
weft_status weft__packing_new(const weft_dataset *dataset, int64_t capacity, uint64_t seed,
                              weft__packing *out);
void weft__packing_free(weft__packing *packing);

/* The same without packing: row r is example r, and the parts are those of the mixture. */
weft_status weft__packing_apart(const weft_dataset *dataset, weft__packing *out);

/* The number of input tokens in row r. */
int64_t weft__packing_length(const weft__packing *packing, int64_t r);

#endif
