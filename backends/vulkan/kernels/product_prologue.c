/* backends/vulkan/kernels/product_prologue.c -- rms_norm of the rows of a product with few rows, or
 * of rotated heads: each workgroup normalizes the rows that it reads itself. */
#include <string.h>

#include "backends/vulkan/kernels/product_plan.h"
#include "weft/op_params.h"

enum { ROOM = 16 << 10, OTHERS = 8 << 10 }; /* bytes of shared memory: for rows, and for sums */

static const weft_tensor *weight_of(const weft_call *call)
{
    const weft_norm_params *params = call->prologue->params;
    return params->has_weight ? &call->in[call->n_inputs - 1] : NULL;
}

bool weft__vulkan_row_norm_fits(const weft_call *call, int64_t rows, int64_t width)
{
    if (call->prologue->op != weft_op_find("rms_norm") || call->in[0].dtype == WEFT_FLOAT64) {
        return false;
    }
    const weft_tensor *weight = weight_of(call);
    const int64_t bytes = width * (int64_t)weft_dtype_size(call->in[0].dtype);
    return bytes > 0 && bytes % 16 == 0 && rows * bytes <= ROOM &&
           rows * bytes + OTHERS <= weft__vulkan_shared(call) &&
           (!weight || (weight->dtype != WEFT_FLOAT64 && weft_tensor_is_contiguous(weight)));
}

weft__vulkan_row_norm weft__vulkan_row_norm_of(const weft_call *call)
{
    if (!call->prologue) {
        return (weft__vulkan_row_norm){.on = false};
    }
    const weft_norm_params *params = call->prologue->params;
    const weft_tensor *weight = weight_of(call);
    return (weft__vulkan_row_norm){.on = true,
                                   .dtype = weight ? weight->dtype : WEFT_FLOAT32,
                                   .weight = weft__vulkan_address_or_0(weight),
                                   .eps = (float)params->eps,
                                   .offset = (float)params->offset};
}

void weft__vulkan_row_norm_constants(const weft__vulkan_row_norm *norm, weft_dtype dtype,
                                     uint64_t row, uint32_t starts, int64_t width,
                                     weft__vulkan_launch *launch)
{
    const uint32_t piece = 16 / (uint32_t)weft_dtype_size(dtype);
    uint32_t threads;
    const bool whole =
        weft__vulkan_norm_pieces(dtype, (uint32_t)width, starts, row | norm->weight, &threads) > 0;
    const uint32_t constants[] = {norm->dtype, threads, whole ? piece : 1, (uint32_t)width / piece};
    memcpy(launch->constants + 11, constants, sizeof constants);
    launch->n_constants = 15;
}

bool weft__vulkan_product_takes_norm(const weft_call *call, const weft__vulkan_product *own)
{
    product_plan plan;
    weft__product_make_plan(&plan, own, weft__vulkan_cores_of(call));
    return plan.way == BY_COLUMNS && !plan.swapped && plan.batches == 1 &&
           weft__vulkan_row_norm_fits(call, own->rows, own->terms);
}

void weft__vulkan_product_normalize(const weft_call *call, weft__vulkan_product *p)
{
    p->norm = weft__vulkan_row_norm_of(call);
}
