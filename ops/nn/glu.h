/* ops/nn/glu.h -- gradients of gated linear units. */
#ifndef OPS_NN_GLU_H
#define OPS_NN_GLU_H

#include "weft/op.h"
#include "weft/op_params.h"

/* The rule of a node y = activation(gate) * up: one node for both gradients. */
void weft__glu_vjp(weft_glu_activation activation, weft_array *node, weft_array *ct,
                   const bool *wanted, weft_array **grads);

#endif
