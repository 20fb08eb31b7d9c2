/* ops/structure/index.h -- what the indexing ops share. */
#ifndef OPS_STRUCTURE_INDEX_H
#define OPS_STRUCTURE_INDEX_H

#include "ops/kernel.h"

/* Every value of values goes to element place(i) of x and is added there; sums are taken in double
 * (integers: in 64 bits) and rounded once. This is the definition of scatter_add and
 * scatter_add_along_axis. */
typedef weft_status weft__place(const weft_call *call, int64_t i, int64_t *out);
weft_status weft__scatter_add(const weft_call *call, weft__place *place);

/* Infer of both: the dtypes of x, indices and values. */
bool weft__scatter_dtypes(const weft_array *node, weft_why *why);

#endif
