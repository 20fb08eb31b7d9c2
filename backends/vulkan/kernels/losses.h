/* backends/vulkan/kernels/losses.h -- kernels of cross-entropy and the optimizer step. */
#ifndef BACKENDS_VULKAN_KERNELS_LOSSES_H
#define BACKENDS_VULKAN_KERNELS_LOSSES_H

#include "backends/vulkan/dispatch.h"

weft_kernel weft__vulkan_cross_entropy, weft__vulkan_cross_entropy_vjp, weft__vulkan_adamw,
    weft__vulkan_adamw8bit, weft__vulkan_adamw16bit;
bool weft__vulkan_adamw8bit_fits(const weft_call *call);
bool weft__vulkan_adamw16bit_fits(const weft_call *call);

#endif
