/* train/run/checkpoint.h -- checkpoints: folders with the state of a run after an update. */
#ifndef WEFT_TRAIN_CHECKPOINT_H
#define WEFT_TRAIN_CHECKPOINT_H

#include "train/run/identity.h"
#include "train/trainer.h"

/* Prefix of folders that have only weights, written if there is no space for a checkpoint. */
#define WEFT__WEIGHTS "weights-"

/* The file of a checkpoint with the trained parameters and the optimizer's state. */
#define WEFT__STATE_FILE "training.safetensors"

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

/* An open checkpoint. */
typedef struct weft__checkpoint {
    weft_safetensors *file;
    weft__json_doc doc; /* of everything but the tensors */
    weft__run_state state;
} weft__checkpoint;

/* Opens the checkpoint in a folder step-N; close it with weft__checkpoint_close, also on failure.
 */
weft_status weft__checkpoint_open(const char *folder, weft__checkpoint *out);
void weft__checkpoint_close(weft__checkpoint *checkpoint);

/* Restores the checkpoint in a folder step-N, like weft__checkpoint_load. */
weft_status weft__checkpoint_restore(weft_trainer *trainer, const weft__identity *identity,
                                     const char *folder, weft__run_state *state);

/* The update numbers of all checkpoints up to `most`, newest first, and the path of one; both for
 * weft_free. NULL: out of memory. */
int64_t *weft__checkpoint_list(const char *folder, int64_t most, int *n);
char *weft__checkpoint_path(const char *folder, int64_t step);

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
