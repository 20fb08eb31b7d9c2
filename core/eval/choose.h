/* core/eval/choose.h -- selects the kernel for a call from a device's rows. */
#ifndef CORE_EVAL_CHOOSE_H
#define CORE_EVAL_CHOOSE_H

#include "weft/backend.h"

/* Whether a kernel of that layout accepts the tensor without a copy. */
bool weft__layout_fits(weft_layout layout, const weft_tensor *t);

/* The best row that accepts all operands as they are; otherwise the best row that accepts row-major
 * copies. NULL: none. */
const weft_kernel_row *weft__choose_row(weft_device *device, const weft_call *call);

#endif
