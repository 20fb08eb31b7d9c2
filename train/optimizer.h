/* train/optimizer.h -- an update in parts: what is computed, and what the host knows of it. */
#ifndef WEFT_TRAIN_OPTIMIZER_H
#define WEFT_TRAIN_OPTIMIZER_H

#include "weft/train.h"

/* The numbers that vary from update to update: learning rate and the corrections of both moments,
 * float32 (3). */
weft_array *weft__optimizer_numbers(const weft_optimizer *o, double lr_factor);

/* Sets parameters and state to what the update makes of them. loss may be NULL. */
weft_status weft__optimizer_set(weft_optimizer *o, weft_array *const *gradients, weft_array *loss,
                                weft_array *numbers, double clip);

/* Reads what came of it, and counts the step if it was applied. */
void weft__optimizer_read(weft_optimizer *o, bool with_loss, weft_optimizer_call *call);

/* Where the loss and the norm of the latest update are: two slots beside weft_optimizer_state. */
void weft__optimizer_results(weft_optimizer *o, weft_array **slots[2]);

#endif
