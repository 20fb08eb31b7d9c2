/* backends/vulkan/kernels/structure.h -- the kernels of structural ops. */
#ifndef BACKENDS_VULKAN_KERNELS_STRUCTURE_H
#define BACKENDS_VULKAN_KERNELS_STRUCTURE_H

#include "backends/vulkan/dispatch.h"

/* A dense tensor split at one axis: element (o, i, j) is at (o * length + i) * inner + j. */
typedef struct weft__vulkan_extents {
    int64_t outer, length, inner;
} weft__vulkan_extents;

weft__vulkan_extents weft__vulkan_extents_of(const weft_tensor *t, int64_t axis);

/* The fault message for an invalid index: op, value, length. */
extern const char weft__vulkan_bad_index[];

/* structure.c */
weft_kernel weft__vulkan_full, weft__vulkan_pad, weft__vulkan_slice_grad,
    weft__vulkan_dynamic_slice, weft__vulkan_slice_update, weft__vulkan_slice_set,
    weft__vulkan_concatenate;

/* make.c */
weft_kernel weft__vulkan_arange, weft__vulkan_random_bits, weft__vulkan_complex_abs;
bool weft__vulkan_random_bits_fits(const weft_call *call);
bool weft__vulkan_arange_fits(const weft_call *call);

/* gather.c */
weft_kernel weft__vulkan_take, weft__vulkan_take_along_axis, weft__vulkan_bounded_index;
bool weft__vulkan_bounded_index_fits(const weft_call *call);

/* scatter.c */
weft_kernel weft__vulkan_scatter_add, weft__vulkan_scatter_add_along_axis, weft__vulkan_scatter,
    weft__vulkan_put_along_axis, weft__vulkan_put_few;
bool weft__vulkan_put_few_fits(const weft_call *call);
bool weft__vulkan_scatter_add_fits(const weft_call *call);
bool weft__vulkan_scatter_fits(const weft_call *call);
int64_t weft__vulkan_scatter_workspace(const weft_call *call);
int64_t weft__vulkan_scatter_along_workspace(const weft_call *call);

#endif
