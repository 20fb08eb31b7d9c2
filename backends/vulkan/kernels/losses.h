/* backends/vulkan/kernels/losses.h -- kernels of cross-entropy and the optimizer step. */
#ifndef BACKENDS_VULKAN_KERNELS_LOSSES_H
#define BACKENDS_VULKAN_KERNELS_LOSSES_H

#include "backends/vulkan/dispatch.h"

weft_kernel weft__vulkan_cross_entropy, weft__vulkan_cross_entropy_vjp, weft__vulkan_adamw;

#endif
