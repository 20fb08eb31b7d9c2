/* train/examples.h -- examples of several samples: preference pairs. */
#ifndef WEFT_TRAIN_EXAMPLES_H
#define WEFT_TRAIN_EXAMPLES_H

#include "train/data/packing.h"

/* Rows for epochs: row r has the samples of example r, and its part in the mixture. */
weft_status weft__examples_rows(const weft_dataset *dataset, weft__packing *out);

int64_t weft__examples_count(const weft_dataset *dataset);

/* A batch of n examples, by their indices. */
weft_status weft__batch_of_examples(const weft_dataset *dataset, const int64_t *examples, int n,
                                    weft_batch *out);

#endif
