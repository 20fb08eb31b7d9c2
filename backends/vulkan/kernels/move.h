/* backends/vulkan/kernels/move.h -- copies elements between strided layouts in device memory. */
#ifndef BACKENDS_VULKAN_KERNELS_MOVE_H
#define BACKENDS_VULKAN_KERNELS_MOVE_H

#include "backends/vulkan/dispatch.h"
#include "weft/op_params.h"

/* A part of `whole` that begins at the indices in `start`, clipped so that the part fits. */
typedef struct weft__vulkan_window {
    const weft_slice_params *params;
    const weft_tensor *start, *whole;
    bool put; /* `whole` is written, otherwise read */
} weft__vulkan_window;

typedef struct weft__vulkan_move_args {
    weft_dims shape;
    int64_t size;  /* bytes per element: 1, 2, 4 or 8 */
    uint64_t from; /* address of element 0 */
    int64_t from_strides[WEFT_MAX_DIMS];
    uint64_t to;
    int64_t to_strides[WEFT_MAX_DIMS];
    bool fill; /* fills every element with `value` (in its low bytes) and reads nothing */
    uint64_t value;
    const weft__vulkan_window *window; /* NULL: none */
    bool independent;                  /* as in weft__vulkan_launch */
} weft__vulkan_move_args;

weft_status weft__vulkan_move(const weft_call *call, const weft__vulkan_move_args *args);

/* Sets `bytes` bytes at `to` to zero, a multiple of 4. */
weft_status weft__vulkan_clear(const weft_call *call, uint64_t to, int64_t bytes);

/* A kernel for rows: copies in[0] to row-major order. */
weft_kernel weft__vulkan_move_all;

#endif
