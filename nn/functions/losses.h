/* nn/functions/losses.h -- what the losses share. */
#ifndef NN_FUNCTIONS_LOSSES_H
#define NN_FUNCTIONS_LOSSES_H

#include "weft/losses.h"
#include "weft/ops.h"

/* x in at least float32. */
weft_array *weft__loss_wide(weft_array *x);

/* NULL when a and b have one shape; else what the loss returns: one that failed, or an error. */
weft_array *weft__loss_unequal(const char *loss, weft_array *a, weft_array *b);

/* Multiplies by the weights (NULL: none), reduces, and closes the scope of the loss. */
weft_array *weft__loss_close(weft_array *losses, weft_array *weights, weft_reduction reduction);

#endif
