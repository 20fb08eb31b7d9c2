/* train/run/place.h -- recognizes the folder of a run, and refuses folders with other files. */
#ifndef WEFT_TRAIN_PLACE_H
#define WEFT_TRAIN_PLACE_H

#include "weft/train.h"

#define WEFT__RUN_FILE "run.json"
#define WEFT__REFERENCE_FILE "reference.safetensors"
#define WEFT__VALIDATION_REFERENCE_FILE "reference-validation.safetensors"

/* Deletes what a killed run was writing. */
void weft__run_clean(const char *folder);

/* WEFT_INVALID if the folder has no run (weft_run_exists) but files under names that runs write. */
weft_status weft__run_check_place(const char *folder);

/* The loss of the general text before and after the run of an adapter, if the adapter has the run's
 * last weights and both were measured. */
bool weft__run_general(const char *adapter, double *first, double *last);

/* Deletes all files of the folder's run. */
weft_status weft__run_remove(const char *folder);

#endif
