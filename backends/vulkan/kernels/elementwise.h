/* backends/vulkan/kernels/elementwise.h -- elementwise ops and copies, by shaders written at run
 * time. */
#ifndef BACKENDS_VULKAN_KERNELS_ELEMENTWISE_H
#define BACKENDS_VULKAN_KERNELS_ELEMENTWISE_H

#include "backends/vulkan/dispatch.h"

/* For the backend. A copy fails if the device lacks a feature that converting its dtypes requires.
 */
weft_status weft__vulkan_elementwise(const weft_call *call, const weft_tape *tape);
bool weft__vulkan_elementwise_fits(const weft_call *call, const weft_tape *tape);
weft_kernel weft__vulkan_copy;

/* For rows that copy or convert in[0]. */
bool weft__vulkan_copy_fits(const weft_call *call);

#endif
