/* backends/vulkan/kernels/walk.h -- how shaders find the elements of strided arrays. */
#ifndef BACKENDS_VULKAN_KERNELS_WALK_H
#define BACKENDS_VULKAN_KERNELS_WALK_H

#include "backends/vulkan/dispatch.h"

enum { WALK_AXES = 4, WALK_GROUP = 256 /* invocations of a workgroup */ };

/* Axes that a shader walks, neighbours that lie as one made one (shaders/axes.glsl). */
typedef struct walk_axes {
    uint32_t sizes[WALK_AXES];
    int32_t strides[WALK_AXES];
} walk_axes;

/* The chosen axes of n tensors of one shape: fills axes[0] to axes[n - 1], with the same sizes, and
 * returns how many there are (at least 1); 0 when they are too many. In `any_order`, which sums
 * have, the axes of the smallest strides come last. */
uint32_t weft__vulkan_collapse(const weft_tensor *t, int n, const bool *chosen, bool any_order,
                               walk_axes *axes);

/* The address of the lowest element of t, and which element, counted from there, is the first. */
uint64_t weft__vulkan_lowest(const weft_tensor *t, uint32_t *first);

/* What shaders of ops along an axis get (shaders/rows_push.glsl). */
typedef struct row_push {
    uint64_t x, result, from, to;
    uint32_t origin, rows, count, inner;
    int32_t stride;
    uint32_t parts, chunk;
    walk_axes kept;
} row_push;

/* Describes the rows of input 0 along an axis, in one part; returns how many kept axes there are,
 * or 0 when they are too many. With no data, addresses are without meaning. */
uint32_t weft__vulkan_rows(const weft_call *call, int64_t axis, row_push *push);

/* For rows: weft__vulkan_fits, real dtypes, dense, fewer than 2^31 elements by shape. */
bool weft__vulkan_walk_fits(const weft_call *call);

/* How many neighbouring invocations work on a run of `count` elements; one where runs are enough
 * and lie `across`: the elements of neighbouring runs side by side. */
uint32_t weft__vulkan_lanes(int64_t count, bool across);

#endif
