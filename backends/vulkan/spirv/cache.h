/* backends/vulkan/spirv/cache.h -- the shaders that were written, by what they compute. */
#ifndef BACKENDS_VULKAN_SPIRV_CACHE_H
#define BACKENDS_VULKAN_SPIRV_CACHE_H

#include "backends/vulkan/spirv/writer.h"

/* The plan's shader, written when it is first asked for; it lives as long as the process. NULL with
 * a message when there is no memory. */
const weft__vulkan_shader *weft__spirv_shader(const spirv_plan *plan);

#endif
