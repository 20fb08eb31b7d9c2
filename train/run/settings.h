/* train/run/settings.h -- the options and the command line of a run, as run.json and checkpoints
 * have them. */
#ifndef WEFT_TRAIN_RUN_SETTINGS_H
#define WEFT_TRAIN_RUN_SETTINGS_H

#include "core/io/text.h"
#include "train/trainer.h"

/* Writes the members "options" and, if the trainer has a command line, "command" of a JSON object,
 * each followed by a comma and a newline. */
void weft__settings_write(weft__text *t, const weft_trainer *trainer, const weft__plan *plan);

#endif
