/* backends/vulkan/kernels/rows_structure.c -- ops that move elements, and random bits. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_structure = {NULL, 0};
