/* backends/vulkan/kernels/product.h -- matrix products of floats: selects the shader and divides
 * the work. */
#ifndef BACKENDS_VULKAN_KERNELS_PRODUCT_H
#define BACKENDS_VULKAN_KERNELS_PRODUCT_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/nn.h"
#include "weft/backend.h"

/* An operand. Strides are in elements and may be negative. `outer` is the stride along the rows of
 * the first or the columns of the second operand, `term` along the summed axis. */
typedef struct weft__vulkan_factor {
    weft_dtype dtype;
    uint32_t format; /* of quantized rows (codes.glsl), whose record is at the address; 0: not
                      * quantized */
    bool aligned;    /* quantized: matvec_codes.glsl can read whole words */
    uint64_t address;
    int64_t outer, term;
    int64_t batch[4];
} weft__vulkan_factor;

/* y = a b + bias, y row-major: batches of (rows, columns). The bias has a stride >= 0. */
typedef struct weft__vulkan_product {
    int64_t rows, columns, terms;
    int64_t sizes[4]; /* of the batch axes; 1 for missing ones */
    bool separate;    /* every batch has the bits of a product of its own */
    weft__vulkan_factor a, b;
    weft_dtype y_dtype;
    uint64_t y;
    bool has_bias;
    weft_dtype bias_dtype;
    uint64_t bias;
    int64_t bias_stride;
    bool residual; /* the bias is laid out as y, and added to the rounded product */
    /* y is a gate over a b and a twin, of the strides and format of b; no bias. */
    enum { WEFT__VULKAN_NO_GATE, WEFT__VULKAN_SWIGLU, WEFT__VULKAN_GEGLU } gate;
    uint64_t twin;
    weft__vulkan_row_norm norm; /* of the rows of a, before the product */
} weft__vulkan_product;

/* The bytes; does not use addresses. */
int64_t weft__vulkan_product_workspace(const weft_call *call, const weft__vulkan_product *p);
weft_status weft__vulkan_product_run(const weft_call *call, const weft__vulkan_product *p,
                                     uint64_t workspace);

/* product_epilogue.c: `own` is the product of the call's op alone, b's address that of its first
 * result. Whether the call's epilogue can be a part of it, with the same bits. */
bool weft__vulkan_product_takes(const weft_call *call, const weft__vulkan_product *own);
/* Adds the call's epilogue to `p`; twin: the second matrix, as b. Without one: nothing. */
void weft__vulkan_product_join(const weft_call *call, weft__vulkan_product *p, uint64_t twin);
/* product_prologue.c: the same for the call's prologue, a norm of the rows. */
bool weft__vulkan_product_takes_norm(const weft_call *call, const weft__vulkan_product *own);
void weft__vulkan_product_normalize(const weft_call *call, weft__vulkan_product *p);
/* Inputs of the call's op itself. */
static inline int weft__vulkan_own_inputs(const weft_call *call)
{
    return call->epilogue   ? call->epilogue->n_inputs
           : call->prologue ? call->n_inputs - (call->prologue->n_inputs - 1)
                            : call->n_inputs;
}

/* y = the sum of `parts` consecutive blocks of `count` float32 numbers, in order. */
weft_status weft__vulkan_sum_parts(const weft_call *call, uint64_t sums, int64_t parts,
                                   int64_t count, uint64_t y, weft_dtype y_dtype);

/* An operand from the given axes of a tensor. */
weft__vulkan_factor weft__vulkan_matrix(const weft_tensor *t, int outer_axis, int term_axis);

/* Whether no stride of an input is negative. The shaders index from an address, and some drivers
 * treat indices as unsigned. */
bool weft__vulkan_goes_forward(const weft_call *call);

#endif
