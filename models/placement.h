/* models/placement.h -- decides which parameters are on the device and which on the CPU
 * (weft_model_options.gpu_layers). */
#ifndef WEFT_MODELS_PLACEMENT_H
#define WEFT_MODELS_PLACEMENT_H

#include "weft/model.h"

typedef struct weft__placement {
    weft_device *device, *host; /* equal if everything is on the device */
    int64_t gpu_layers;
} weft__placement;

/* NULL options->device: the thread's default. */
weft_status weft__placement_make(const weft_model_options *options, weft__placement *out);

/* Assigns each parameter of the tree a device, to which nn_load loads it. */
weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info);

/* Calls m on x on the device of m's parameter "weight", where it also creates its constants. */
weft_array *weft__call_on_its_device(weft_module *m, weft_array *x);

#endif
