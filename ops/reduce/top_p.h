/* ops/reduce/top_p.h -- the smallest logit of each row that top-p and top-k sampling keep. */
#ifndef OPS_REDUCE_TOP_P_H
#define OPS_REDUCE_TOP_P_H

#include "weft/ops.h"

/* weft_top_p_params in op_params.h defines which logits are kept. A single node without gradient.
 */
weft_array *weft__top_p(weft_array *x, weft_array *total, int64_t k, double p);

#endif
