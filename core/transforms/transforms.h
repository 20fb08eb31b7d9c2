/* core/transforms/transforms.h -- what the transforms share. */
#ifndef CORE_TRANSFORMS_H
#define CORE_TRANSFORMS_H

#include "core/graph.h"
#include "weft/transforms.h"

/* Pulls the cotangents of `outs` (NULL: none) back to `targets`, nodes younger than which none
 * matters: grads[i] is NULL where nothing flows. Called in an open scope. */
weft_status weft__pull_back(weft_array *const *outs, weft_array *const *cts, int n_out,
                            weft_array *const *targets, int n_targets, weft_array **grads);

/* A node of its own that is x: what a gradient is taken with respect to. */
weft_array *weft__alias(weft_array *x);
/* x, but not before `after` is there. */
weft_array *weft__barrier(weft_array *x, weft_array *after);

bool weft__is_differentiable(const weft_array *a);

#endif
