/* nn/layers/norms.h -- helpers shared by the normalization layers. */
#ifndef NN_LAYERS_NORMS_H
#define NN_LAYERS_NORMS_H

#include "nn/module.h"
#include "weft/layers.h"
#include "weft/transforms.h"

/* y * weight + bias; y if weight is NULL. */
weft_array *weft__nn_affine(weft_array *y, weft_array *weight, weft_array *bias);

#endif
