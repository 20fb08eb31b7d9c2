/* backends/vulkan/kernels/quantized.h -- decodes rows of encoded matrices, for other kernels. */
#ifndef BACKENDS_VULKAN_KERNELS_QUANTIZED_H
#define BACKENDS_VULKAN_KERNELS_QUANTIZED_H

#include "backends/vulkan/dispatch.h"

/* Whether a shader supports the tensor's encoding. */
bool weft__vulkan_decodes(const weft_tensor *t);

/* Decodes `rows` rows of a matrix from row `first` on to `to`, aligned to 16, as `dtype`. */
weft_status weft__vulkan_decode_rows(const weft_call *call, const weft_tensor *t, int64_t first,
                                     int64_t rows, weft_dtype dtype, uint64_t to);

#endif
