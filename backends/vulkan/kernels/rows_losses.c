/* backends/vulkan/kernels/rows_losses.c -- cross-entropy and the optimizer step. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_losses = {NULL, 0};
