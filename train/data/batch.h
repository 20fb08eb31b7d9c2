/* train/data/batch.h -- converts samples to the rows of a batch. */
#ifndef WEFT_TRAIN_BATCH_H
#define WEFT_TRAIN_BATCH_H

#include "weft/train.h"

/* Makes a batch of n packed rows: row r has samples[starts[r], starts[r + 1]) one after another,
 * and `first` marks where each sample begins. */
weft_status weft__batch_pack(const weft_sample *samples, const int64_t *starts, int n,
                             weft_batch *out);

/* Packs a batch of 2 P samples into n rows for the model. Row r has the samples e and P + e of each
 * e in starts[r] .. starts[r + 1]. starts[n] is P. */
weft_status weft__batch_pack_two(const weft_sample *samples, const int64_t *starts, int n,
                                 weft_batch *out);

#endif
