/* core/transforms/kept.h -- between checkpoint.c and kept.c. */
#ifndef CORE_TRANSFORMS_KEPT_H
#define CORE_TRANSFORMS_KEPT_H

#include "core/transforms/transforms.h"

/* The results of `node` with the gradient of `clone`, as a node of as many outputs. */
weft_array *weft__kept(weft_array *node, weft_array *clone);

/* Nodes between `grads` and those made before `since`, and grads themselves (NULL: none), that have
 * a stand-in's results as inputs get the kept ones instead: kept[k] is the node above for stand-in
 * k. False: no memory. */
bool weft__use_kept(weft_array **grads, int n, uint64_t since, const weft__map *stand_ins,
                    weft_array *const *kept);

/* What weft_checkpoint_name named, or NULL: keeping the name is keeping what it names. */
weft_array *weft__named(const weft_array *node);

#endif
