/* train/data/batch.h -- samples as the rows of a batch. */
#ifndef WEFT_TRAIN_BATCH_H
#define WEFT_TRAIN_BATCH_H

#include "weft/train.h"

/* A batch of n packed rows: row r has samples[starts[r], starts[r + 1]) one after another, and
 * `first` marks where each begins. */
weft_status weft__batch_pack(const weft_sample *samples, const int64_t *starts, int n,
                             weft_batch *out);

/* Packs a batch of 2 P samples for the model: its row r has the samples e and P + e of each e of
 * starts[r] .. starts[r + 1], which ends with P. */
weft_status weft__batch_pack_two(const weft_sample *samples, const int64_t *starts, int n,
                                 weft_batch *out);

#endif
