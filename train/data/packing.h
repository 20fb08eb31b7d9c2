/* train/data/packing.h -- examples packed into rows. */
#ifndef WEFT_TRAIN_PACKING_H
#define WEFT_TRAIN_PACKING_H

#include "train/data/dataset.h"

/* Rows of examples of a dataset: row r has examples[starts[r], starts[r + 1]), at most `capacity`
 * tokens that are read. A row's examples are of one part of a mixture, whose parts are `parts`. */
typedef struct weft__packing {
    int64_t n_rows, capacity;
    int64_t *starts, *examples;
    int64_t *cells; /* of each example: its tokens that are read */
    weft__dataset_part *parts;
    int64_t n_parts;
} weft__packing;

/* By best fit, the longest examples first; those of one length in an order that the seed draws.
 * capacity 0: of the longest example. WEFT_INVALID when an example is longer. */
weft_status weft__packing_new(const weft_dataset *dataset, int64_t capacity, uint64_t seed,
                              weft__packing *out);
void weft__packing_free(weft__packing *packing);

/* The same without packing: row r is example r, and the parts are those of the mixture. */
weft_status weft__packing_apart(const weft_dataset *dataset, weft__packing *out);

/* Tokens that row r has. */
int64_t weft__packing_length(const weft__packing *packing, int64_t r);

#endif
