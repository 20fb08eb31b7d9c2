/* backends/registry.h -- the backends that this build has. */
#ifndef BACKENDS_REGISTRY_H
#define BACKENDS_REGISTRY_H

#include "weft/backend.h"
#include "weft/device.h"

extern const weft_backend *const weft__backends[];
/* For each of them: weft_device_traits_of, for the device that is opened with `index`. */
extern weft_status (*const weft__backend_traits[])(int index, weft_device_traits *out);
/* For each of them: weft_device_inspect; NULL: nothing to say. */
extern char *(*const weft__backend_inspect[])(weft_device *device);
extern const int weft__backend_count;

#endif
