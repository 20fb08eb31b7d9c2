/* backends/vulkan/kernels/rows_norms.c -- norms and rotary embeddings. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_norms = {NULL, 0};
