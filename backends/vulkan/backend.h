/* backends/vulkan/backend.h -- the Vulkan backend, for the registry. */
#ifndef BACKENDS_VULKAN_BACKEND_H
#define BACKENDS_VULKAN_BACKEND_H

#include "weft/backend.h"
#include "weft/device.h"

extern weft_backend weft__vulkan_backend;

/* weft_device_traits_of, for device `index`. */
weft_status weft__vulkan_traits(int index, weft_device_traits *out);

/* weft_device_inspect (inspect.c). */
char *weft__vulkan_inspect(weft_device *device);

#endif
