/* backends/vulkan/backend.h -- the Vulkan backend, for the registry. */
#ifndef BACKENDS_VULKAN_BACKEND_H
#define BACKENDS_VULKAN_BACKEND_H

#include "weft/backend.h"

extern weft_backend weft__vulkan_backend;

#endif
