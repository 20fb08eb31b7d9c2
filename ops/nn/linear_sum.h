/* ops/nn/linear_sum.h -- sums of linear layers' products, for adapters. */
#ifndef OPS_NN_LINEAR_SUM_H
#define OPS_NN_LINEAR_SUM_H

#include "weft/array.h"

/* y = sum over i of x_i w_i^T, plus the bias, which may be NULL. x_i: (..., E_i), w_i: (F, E_i),
 * n <= 8 pairs -> (..., F), in the dtype of x_0, rounded once, after the last sum.
 * The op is `linear_sum` (op_params.h). */
weft_array *weft__linear_sum(weft_array *const *x, weft_array *const *weights, int n,
                             weft_array *bias);

/* Whether a layer that reads x and its adapter should be one sum: if x is a float array of at least
 * 64 rows. Not in the trace of a shapeless export, where the graph may not depend on lengths. */
bool weft__use_linear_sum(const weft_array *x);

/* The sum of two results of `linear` or `linear_sum` as one node; NULL: not possible. For
 * weft_op.add. */
weft_array *weft__linear_add(weft_array *a, weft_array *b);

#endif
