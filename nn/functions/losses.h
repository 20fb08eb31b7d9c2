/* nn/functions/losses.h -- helpers shared by the losses. */
#ifndef NN_FUNCTIONS_LOSSES_H
#define NN_FUNCTIONS_LOSSES_H

#include "weft/losses.h"
#include "weft/ops.h"

/* x in at least float32. */
weft_array *weft__loss_wide(weft_array *x);

/* NULL if a and b have the same shape; else the loss's result: a failed input, or an error array.
 */
weft_array *weft__loss_unequal(const char *loss, weft_array *a, weft_array *b);

/* Multiplies by the weights (NULL: none), reduces, and closes the scope of the loss. */
weft_array *weft__loss_close(weft_array *losses, weft_array *weights, weft_reduction reduction);

#endif
