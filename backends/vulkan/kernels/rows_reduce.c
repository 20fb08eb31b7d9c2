/* backends/vulkan/kernels/rows_reduce.c -- reductions, softmax, scans and sorts. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"

const weft__vulkan_family weft__vulkan_reductions = {NULL, 0};
