/* ops/nn/linear_cross_entropy.h -- parts that the loss and the gradient of its weight share. */
#ifndef OPS_NN_LINEAR_CROSS_ENTROPY_H
#define OPS_NN_LINEAR_CROSS_ENTROPY_H

#include "weft/op.h"
#include "weft/op_params.h"

/* Logits after the softcap, and its slope at each of them; NULL: no softcap. */
typedef struct weft__scores {
    weft_array *logits, *slope;
} weft__scores;

weft__scores weft__scores_of(weft_array *x, weft_array *weight, double softcap);
/* x times the slope. */
weft_array *weft__sloped(const weft__scores *s, weft_array *x);

/* The output that has the entropies. */
static inline int weft__entropy_output(const weft_linear_cross_entropy_params *params)
{
    return params->with_gradient ? 2 : 1;
}

/* weft_linear_cross_entropy of the logits, after the softcap, divided by the temperature. Unless
 * NULL, *entropy gets the entropy (N) of each row's distribution, 0 in rows without a target. */
weft_array *weft__linear_cross_entropy(weft_array *x, weft_array *weight, weft_array *targets,
                                       double softcap, double temperature, weft_array **entropy);

/* How many rows of so many logits an expansion computes at a time. */
int64_t weft__loss_chunk(int64_t columns);

/* linear_cross_entropy_weight_grad.c: the inputs of the op of this name, and its result. */
typedef struct weft__loss_weight_inputs {
    weft_array *x, *weight, *targets, *lse, *ct;
} weft__loss_weight_inputs;
weft_array *weft__linear_cross_entropy_weight_grad(const weft__loss_weight_inputs *in,
                                                   double softcap);

#endif
