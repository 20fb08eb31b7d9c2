/* backends/vulkan/kernels/product_prologue.c -- rms_norm of the rows of a product with few rows:
 * each workgroup of matvec.comp normalizes them itself. */
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "weft/op_params.h"

enum { ROOM = 16 << 10, OTHERS = 8 << 10 }; /* bytes of shared memory: for rows, and for sums */

static const weft_tensor *weight_of(const weft_call *call)
{
    const weft_norm_params *params = call->prologue->params;
    return params->has_weight ? &call->in[call->n_inputs - 1] : NULL;
}

bool weft__vulkan_product_takes_norm(const weft_call *call, const weft__vulkan_product *own)
{
    if (call->prologue->op != weft_op_find("rms_norm")) {
        return false;
    }
    const weft_tensor *weight = weight_of(call);
    const int64_t bytes = own->rows * own->terms * (int64_t)weft_dtype_size(own->a.dtype);
    product_plan plan;
    weft__product_make_plan(&plan, own, weft__vulkan_cores_of(call));
    return plan.way == BY_COLUMNS && !plan.swapped && plan.batches == 1 && bytes > 0 &&
           bytes % (16 * own->rows) == 0 && bytes <= ROOM &&
           bytes + OTHERS <= weft__vulkan_shared(call) &&
           (!weight || (weight->dtype != WEFT_FLOAT64 && weft_tensor_is_contiguous(weight)));
}

void weft__vulkan_product_normalize(const weft_call *call, weft__vulkan_product *p)
{
    if (!call->prologue) {
        return;
    }
    const weft_norm_params *params = call->prologue->params;
    const weft_tensor *weight = weight_of(call);
    p->norm.on = true;
    p->norm.dtype = weight ? weight->dtype : WEFT_FLOAT32;
    p->norm.weight = weft__vulkan_address_or_0(weight);
    p->norm.eps = (float)params->eps;
    p->norm.offset = (float)params->offset;
}
