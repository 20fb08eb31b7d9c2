/* backends/vulkan/kernels/product.h -- any matrix product of floats: which shader, in which pieces.
 */
#ifndef BACKENDS_VULKAN_KERNELS_PRODUCT_H
#define BACKENDS_VULKAN_KERNELS_PRODUCT_H

#include "backends/vulkan/dispatch.h"

/* An operand; its strides are in elements and have any sign. `outer` is along the rows of the first
 * and the columns of the second, `term` along what is summed. */
typedef struct weft__vulkan_factor {
    weft_dtype dtype;
    uint32_t format; /* of quantised rows (codes.glsl), whose record is at the address; 0: none */
    uint64_t address;
    int64_t outer, term;
    int64_t batch[4];
} weft__vulkan_factor;

/* y = a b + bias, y row-major: batches of (rows, columns). The bias has a stride of 0 or more. */
typedef struct weft__vulkan_product {
    int64_t rows, columns, terms;
    int64_t sizes[4]; /* of the batch axes; 1 where there are fewer */
    weft__vulkan_factor a, b;
    weft_dtype y_dtype;
    uint64_t y;
    bool has_bias;
    weft_dtype bias_dtype;
    uint64_t bias;
    int64_t bias_stride;
} weft__vulkan_product;

/* Bytes; needs no addresses. */
int64_t weft__vulkan_product_workspace(const weft_call *call, const weft__vulkan_product *p);
weft_status weft__vulkan_product_run(const weft_call *call, const weft__vulkan_product *p,
                                     uint64_t workspace);

/* y = the sum of `parts` blocks of `count` float32 numbers, one after another, in their order. */
weft_status weft__vulkan_sum_parts(const weft_call *call, uint64_t sums, int64_t parts,
                                   int64_t count, uint64_t y, weft_dtype y_dtype);

/* An operand that is a matrix: its axes. */
weft__vulkan_factor weft__vulkan_matrix(const weft_tensor *t, int outer_axis, int term_axis);

/* No stride of an input is negative. The shaders index from an address, and there are drivers for
 * which an index is never below 0. */
bool weft__vulkan_goes_forward(const weft_call *call);

/* linear_cross_entropy.c; dense_fits: when the inputs are made row-major first; encoded_fits: with
 * an encoded weight. */
extern weft_kernel weft__vulkan_linear_cross_entropy;
bool weft__vulkan_linear_cross_entropy_fits(const weft_call *call);
bool weft__vulkan_linear_cross_entropy_dense_fits(const weft_call *call);
bool weft__vulkan_linear_cross_entropy_encoded_fits(const weft_call *call);
int64_t weft__vulkan_linear_cross_entropy_workspace(const weft_call *call);

#endif
