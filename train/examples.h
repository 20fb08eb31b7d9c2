/* train/examples.h -- examples of one or two samples, and batches of them. */
#ifndef WEFT_TRAIN_EXAMPLES_H
#define WEFT_TRAIN_EXAMPLES_H

#include "train/data/dataset.h"

int64_t weft__examples_count(const weft_dataset *dataset);

/* The number of input tokens of example e. The last token of each of its samples is only a target.
 */
int64_t weft__example_cells(const weft_dataset *dataset, int64_t e);

/* The index of the reference log-probability of an example's row k, which is also that of its
 * sample in the dataset. A labeled sample's second row has no sample of its own. */
int64_t weft__example_entry(const weft_dataset *dataset, int64_t e, int64_t k);

/* The number of samples that the dataset has for each example. */
int64_t weft__example_samples(const weft_dataset *dataset);

/* Makes a batch of n rows, where row r packs examples[starts[r], starts[r + 1]). If starts is NULL,
 * makes a batch of n examples that are not packed. */
weft_status weft__batch_of_examples(const weft_dataset *dataset, const int64_t *examples,
                                    const int64_t *starts, int n, weft_batch *out);

#endif
