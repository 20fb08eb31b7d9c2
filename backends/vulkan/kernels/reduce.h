/* backends/vulkan/kernels/reduce.h -- reductions of runs of elements, also used as the first step
 * of other kernels. */
#ifndef BACKENDS_VULKAN_KERNELS_REDUCE_H
#define BACKENDS_VULKAN_KERNELS_REDUCE_H

#include "backends/vulkan/kernels/walk.h"

/* The ops of reduce_sum.comp and reduce_bits.comp. */
typedef enum reduce_op {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_PROD,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_ALL,
    REDUCE_ANY,
    REDUCE_SQUARES /* reduce_sum.comp */
} reduce_op;

/* The arguments in shaders/reduce_push.glsl. */
typedef struct reduce_push {
    uint64_t x, result;
    uint32_t origin, outputs, count, parts, chunk, total;
    walk_axes kept, reduced;
} reduce_push;

typedef struct reduction {
    const weft__vulkan_shader *shader;
    uint32_t constants[3];             /* the shader's own constants, from 5 on */
    uint32_t part_bytes;               /* bytes of a partial result */
    uint32_t lanes, n_kept, n_reduced; /* the first constants */
    reduce_push push;
} reduction;

/* Writes the results of all parts of the rows to the address where the rows' op reads them
 * (rows->from), as [part][row]. Of `how` only the shader and its own constants are used. */
weft_status weft__vulkan_reduce_rows(const weft_call *call, const reduction *how,
                                     const row_push *rows, uint32_t n_kept);

/* sum_squares of float arrays with 16 and 32 bits. */
bool weft__vulkan_sum_squares_fits(const weft_call *call);
int64_t weft__vulkan_sum_squares_workspace(const weft_call *call);
weft_status weft__vulkan_sum_squares(const weft_call *call);

/* For rows of the reductions: sum mean prod max min all any logsumexp, argmax and argmin. */
bool weft__vulkan_reduce_fits(const weft_call *call);
bool weft__vulkan_reduce_copied_fits(const weft_call *call);
int64_t weft__vulkan_reduce_workspace(const weft_call *call);
weft_status weft__vulkan_reduce(const weft_call *call);

/* For rows of ops along an axis: softmax and log_softmax, their gradients, scans, sort and argsort.
 */
bool weft__vulkan_softmax_fits(const weft_call *call);
bool weft__vulkan_cumsum_fits(const weft_call *call);
bool weft__vulkan_scan_fits(const weft_call *call);
bool weft__vulkan_sort_fits(const weft_call *call);
bool weft__vulkan_sort_copied_fits(const weft_call *call);
int64_t weft__vulkan_softmax_workspace(const weft_call *call);
int64_t weft__vulkan_cumsum_workspace(const weft_call *call);
int64_t weft__vulkan_sort_workspace(const weft_call *call);
weft_status weft__vulkan_softmax(const weft_call *call);
weft_status weft__vulkan_softmax_grad(const weft_call *call);
weft_status weft__vulkan_cumsum(const weft_call *call);
weft_status weft__vulkan_scan(const weft_call *call);
weft_status weft__vulkan_sort(const weft_call *call);

#endif
