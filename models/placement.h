/* models/placement.h -- which parameters live on the device and which stay on the CPU
 * (weft_model_options.gpu_layers). */
#ifndef WEFT_MODELS_PLACEMENT_H
#define WEFT_MODELS_PLACEMENT_H

#include "weft/model.h"

typedef struct weft__placement {
    weft_device *device, *host; /* the same when all is on the device */
    int64_t gpu_layers;
} weft__placement;

/* NULL options->device: the thread's default. */
weft_status weft__placement_make(const weft_model_options *options, weft__placement *out);

/* Gives every parameter of the tree a device, where nn_load then puts it. */
weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info);

/* m at x, both where m's parameter "weight" is, and the constants that it makes too. */
weft_array *weft__call_on_its_device(weft_module *m, weft_array *x);

#endif
