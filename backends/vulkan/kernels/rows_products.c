/* backends/vulkan/kernels/rows_products.c -- matrix products and the loss fused with one. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_products = {NULL, 0};
