/* backends/vulkan/kernels/walk.h -- describes the axes of strided arrays to shaders. */
#ifndef BACKENDS_VULKAN_KERNELS_WALK_H
#define BACKENDS_VULKAN_KERNELS_WALK_H

#include "backends/vulkan/dispatch.h"

enum { WALK_AXES = 4, WALK_GROUP = 256 /* invocations per workgroup */ };

/* The axes for a shader, with contiguous adjacent axes merged (shaders/axes.glsl). */
typedef struct walk_axes {
    uint32_t sizes[WALK_AXES];
    int32_t strides[WALK_AXES];
} walk_axes;

/* The chosen axes of n tensors of one shape: fills axes[0] to axes[n - 1], with the same sizes, and
 * returns their number (at least 1); 0: too many axes. With `any_order` (for sums), the axes of
 * smallest stride come last. */
uint32_t weft__vulkan_collapse(const weft_tensor *t, int n, const bool *chosen, bool any_order,
                               walk_axes *axes);

/* The address of the lowest element of t; *first is the index of element 0 relative to it. */
uint64_t weft__vulkan_lowest(const weft_tensor *t, uint32_t *first);

/* The arguments of shaders for ops along an axis (shaders/rows_push.glsl). */
typedef struct row_push {
    uint64_t x, result, from, to;
    uint32_t origin, rows, count, inner;
    int32_t stride;
    uint32_t parts, chunk;
    walk_axes kept;
} row_push;

/* Describes the rows of input 0 along an axis, in one part. Returns the number of other axes, or 0
 * if there are too many. Without data, the addresses are meaningless. */
uint32_t weft__vulkan_rows(const weft_call *call, int64_t axis, row_push *push);

/* For rows: weft__vulkan_fits, and real dtypes, dense, fewer than 2^31 elements. */
bool weft__vulkan_walk_fits(const weft_call *call);

/* How many adjacent invocations share a run of `count` elements; one if there are enough runs and
 * they are `across`: adjacent runs have adjacent elements. */
uint32_t weft__vulkan_lanes(int64_t count, bool across);

#endif
