/* backends/vulkan/kernels/linear_sum.h -- the kernel of linear_sum, for row-major operands. */
#ifndef BACKENDS_VULKAN_KERNELS_LINEAR_SUM_H
#define BACKENDS_VULKAN_KERNELS_LINEAR_SUM_H

#include "weft/backend.h"

extern weft_kernel weft__vulkan_linear_sum;
bool weft__vulkan_linear_sum_fits(const weft_call *call);
bool weft__vulkan_linear_sum_takes_epilogue(const weft_call *call);
int64_t weft__vulkan_linear_sum_workspace(const weft_call *call);

#endif
