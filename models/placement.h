/* models/placement.h -- decides on which device each parameter is: all on one, the layers spread
 * over several (weft_model_options.devices), or some on the CPU, of which some are copied to the
 * device for each use (gpu_layers and stream). */
#ifndef WEFT_MODELS_PLACEMENT_H
#define WEFT_MODELS_PLACEMENT_H

#include "weft/model.h"

typedef struct weft__placement {
    weft_device *device, *host; /* equal if everything is on the device; weights are read on host */
    weft_device *const *devices; /* over which the layers are spread */
    int n_devices;               /* 0: they are not spread */
    int64_t gpu_layers;
    bool streams;
} weft__placement;

/* NULL options->device: the thread's default. */
weft_status weft__placement_make(const weft_model_options *options, weft__placement *out);

/* Assigns each parameter of the tree a device, to which nn_load loads it. */
weft_status weft__placement_set(const weft__placement *p, weft_module *tree,
                                const weft_model_info *info);

/* Called when the weights are loaded. Moves those that are copied for each use to memory from which
 * the device copies fastest, if they take at most half of the host's; copies the embedding to the
 * device of a head that is tied to it. */
weft_status weft__placement_finish(const weft__placement *p, weft_module *tree);

/* The device where a block computes: that of its parameters, or to which they are copied. NULL: the
 * module has no parameters. */
weft_device *weft__placement_device(const weft_module *block);
/* Whether the block's weights are copied to the device for each use. */
bool weft__placement_streams(const weft_module *block);

/* Calls m on x on the device where m computes, and where it also creates its constants. */
weft_array *weft__call_on_its_device(weft_module *m, weft_array *x);

#endif
