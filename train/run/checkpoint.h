/* train/run/checkpoint.h -- checkpoints: folders with the state of a run after an update. */
#ifndef WEFT_TRAIN_CHECKPOINT_H
#define WEFT_TRAIN_CHECKPOINT_H

#include "train/run/identity.h"
#include "train/trainer.h"

/* Prefix of folders that have only weights, written if there is no space for a checkpoint. */
#define WEFT__WEIGHTS "weights-"

/* Writes step-N in the run's folder: the adapter in PEFT's files (or the model), and
 * training.safetensors with the trained parameters, the optimizer's state and, as JSON in its
 * metadata ("weft.run", with a version), everything else. The folder appears complete or not at
 * all. Then `last` is pointed to it, and of the checkpoints up to it only the newest `keep` are
 * kept. */
weft_status weft__checkpoint_save(const weft_trainer *trainer, const weft__run_state *state,
                                  const weft__identity *identity, int64_t keep);

/* Restores parameters, optimizer and *state from the newest readable checkpoint, and points `last`
 * to it. Logs a warning for each unreadable checkpoint. *found is false if there is none.
 * WEFT_INVALID, without any change, if the checkpoint is of another run or has other parameters or
 * another optimizer. */
weft_status weft__checkpoint_load(weft_trainer *trainer, const weft__identity *identity,
                                  weft__run_state *state, bool *found);

/* Whether the folder has a checkpoint, readable or not. */
bool weft__checkpoint_exists(const char *folder);

/* Whether the first `n` characters of `name` are the name of a checkpoint or of weights. */
bool weft__checkpoint_is_name(const char *name, size_t n);

/* Deletes all but the newest `keep` of the checkpoints up to update `step`. */
void weft__checkpoint_prune(const char *folder, int64_t step, int64_t keep);

/* Deletes all checkpoints. */
weft_status weft__checkpoint_remove(const char *folder);

/* Saves the adapter of the model, or the model if it has no adapter, to a folder, which is replaced
 * when all files are written. */
weft_status weft__checkpoint_weights(const weft_trainer *trainer, const char *path);

#endif
