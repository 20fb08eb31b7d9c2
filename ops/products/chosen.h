/* ops/products/chosen.h -- products of selected matrices and of segments. */
#ifndef OPS_PRODUCTS_CHOSEN_H
#define OPS_PRODUCTS_CHOSEN_H

#include "ops/kernel.h"

extern const weft_op weft_op_gather_mm, weft_op_gather_mm_sums;
extern const weft_op weft_op_gather_linear;
extern const weft_op weft_op_segmented_mm, weft_op_segmented_mm_grad;
extern const weft_op weft_op_hadamard;

/* gather_mm.c: the work of one product per pair, over the last axis of the first input; and the
 * least bytes of `matrices` (n, ...) that `pairs` products, with one matrix each, leave unread. */
void weft__gather_work(const weft_call *call, weft_work *work);
double weft__unselected_bytes(const weft_tensor *matrices, int64_t pairs);
extern const weft_op weft_op_scatter_add; /* ops/structure/take.c */

#endif
