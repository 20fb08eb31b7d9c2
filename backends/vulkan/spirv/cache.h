/* backends/vulkan/spirv/cache.h -- the cache of shaders written at run time, by plan. */
#ifndef BACKENDS_VULKAN_SPIRV_CACHE_H
#define BACKENDS_VULKAN_SPIRV_CACHE_H

#include "backends/vulkan/spirv/writer.h"

/* The plan's shader, written at its first use and never freed. NULL with a message when out of
 * memory. */
const weft__vulkan_shader *weft__spirv_shader(const spirv_plan *plan);

#endif
