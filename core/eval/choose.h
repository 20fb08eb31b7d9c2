/* core/eval/choose.h -- which of a device's kernels computes a call. */
#ifndef CORE_EVAL_CHOOSE_H
#define CORE_EVAL_CHOOSE_H

#include "weft/backend.h"

/* Whether a kernel of that layout takes the tensor as it is. */
bool weft__layout_fits(weft_layout layout, const weft_tensor *t);

/* The best row that takes all operands as they are, else the best that takes copies of them; NULL:
 * none. */
const weft_kernel_row *weft__choose_row(weft_device *device, const weft_call *call);

#endif
