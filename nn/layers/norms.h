/* nn/layers/norms.h -- what the normalising layers share. */
#ifndef NN_LAYERS_NORMS_H
#define NN_LAYERS_NORMS_H

#include "nn/module.h"
#include "weft/layers.h"
#include "weft/transforms.h"

/* y * weight + bias; a NULL weight: y. */
weft_array *weft__nn_affine(weft_array *y, weft_array *weight, weft_array *bias);

#endif
