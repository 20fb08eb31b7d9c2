/* core/transforms/kept.h -- interface between checkpoint.c and kept.c. */
#ifndef CORE_TRANSFORMS_KEPT_H
#define CORE_TRANSFORMS_KEPT_H

#include "core/transforms/transforms.h"

/* A node that has the results of `node` and the gradient of `clone`, with as many outputs. */
weft_array *weft__kept(weft_array *node, weft_array *clone);

/* Replaces inputs that are results of stand-ins by the kept ones, in the nodes that `grads` depend
 * on and that were made at or after `since`, and in grads themselves (entries may be NULL). kept[k]
 * is the original node of stand-in k. False: out of memory. */
bool weft__use_kept(weft_array **grads, int n, uint64_t since, const weft__map *stand_ins,
                    weft_array *const *kept);

/* The array that weft_checkpoint_name named, or NULL. Keeping the name keeps that array. */
weft_array *weft__named(const weft_array *node);

#endif
