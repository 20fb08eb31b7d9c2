/* train/examples.h -- examples of several samples: preference pairs. */
#ifndef WEFT_TRAIN_EXAMPLES_H
#define WEFT_TRAIN_EXAMPLES_H

#include "train/data/dataset.h"

int64_t weft__examples_count(const weft_dataset *dataset);

/* Tokens of example e that are read: the last of each of its samples is only a target. */
int64_t weft__example_cells(const weft_dataset *dataset, int64_t e);

/* A batch of n rows, row r with examples[starts[r], starts[r + 1]) packed; starts NULL: of n
 * examples, not packed. */
weft_status weft__batch_of_examples(const weft_dataset *dataset, const int64_t *examples,
                                    const int64_t *starts, int n, weft_batch *out);

#endif
