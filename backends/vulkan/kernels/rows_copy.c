/* backends/vulkan/kernels/rows_copy.c -- copies and casts, by generated shaders. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_copies = {NULL, 0};
