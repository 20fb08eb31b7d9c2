/* train/run/checkpoint.h -- checkpoints: the state of a run after an update, in a folder. */
#ifndef WEFT_TRAIN_CHECKPOINT_H
#define WEFT_TRAIN_CHECKPOINT_H

#include "train/run/identity.h"
#include "train/trainer.h"

/* Folders with weights only, written if there is no space for a checkpoint. */
#define WEFT__WEIGHTS "weights-"

/* Writes DIR/step-N of the trainer's folder: the adapter in PEFT's files (or the model), and
 * training.safetensors with the trained parameters, the optimizer's state and, as JSON in its
 * metadata ("weft.run", with a version), the rest. The folder appears whole or not at all; then
 * `last` points to it, and all but the newest `keep` up to it are deleted. */
weft_status weft__checkpoint_save(const weft_trainer *trainer, const weft__run_state *state,
                                  const weft__identity *identity, int64_t keep);

/* Sets parameters, optimizer and *state from the newest checkpoint that can be read; a warning
 * names those that cannot, and `last` points to it. *found is false where there is none.
 * WEFT_INVALID when it is of another run, of other parameters or of another optimizer; nothing is
 * set then. */
weft_status weft__checkpoint_load(weft_trainer *trainer, const weft__identity *identity,
                                  weft__run_state *state, bool *found);

/* Whether there is one, readable or not. */
bool weft__checkpoint_exists(const char *folder);

/* Deletes all but the newest `keep` of the checkpoints up to update `step`. */
void weft__checkpoint_prune(const char *folder, int64_t step, int64_t keep);

/* Deletes the partial files of a killed run; the same and all checkpoints. */
weft_status weft__checkpoint_remove_parts(const char *folder);
weft_status weft__checkpoint_remove(const char *folder);

/* The adapter of the model, or without one the model, into a folder. */
weft_status weft__checkpoint_weights(const weft_trainer *trainer, const char *path);

#endif
