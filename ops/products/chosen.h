/* ops/products/chosen.h -- products of selected matrices and of segments. */
#ifndef OPS_PRODUCTS_CHOSEN_H
#define OPS_PRODUCTS_CHOSEN_H

#include "ops/kernel.h"

extern const weft_op weft_op_gather_mm, weft_op_gather_mm_sums;
extern const weft_op weft_op_gather_linear;
extern const weft_op weft_op_segmented_mm, weft_op_segmented_mm_grad;
extern const weft_op weft_op_hadamard;
extern const weft_op weft_op_scatter_add; /* ops/structure/take.c */

#endif
