/* backends/vulkan/kernels/rows_attention.c -- attention and its gradient. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_attention = {NULL, 0};
