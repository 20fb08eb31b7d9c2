/* backends/vulkan/kernels/product_epilogue.c -- ops that a product applies to its result: the sum
 * with a residual, and the gate over two products with the same rows. */
#include "backends/vulkan/kernels/product_plan.h"
#include "weft/tape.h"

static bool is_sum(const weft_call_epilogue *e)
{
    const weft_tape *tape = weft_op_tape(e->op, e->result.dtype);
    return e->n_results == 1 && e->n_operands == 2 && tape && tape->n_steps == 1 &&
           tape->steps[0].code == WEFT_TAPE_ADD;
}

static int gate_of(const weft_call_epilogue *e)
{
    if (e->n_results != 2 || e->n_operands != 2) {
        return WEFT__VULKAN_NO_GATE;
    }
    return e->op == weft_op_find("swiglu")  ? WEFT__VULKAN_SWIGLU
           : e->op == weft_op_find("geglu") ? WEFT__VULKAN_GEGLU
                                            : WEFT__VULKAN_NO_GATE;
}

/* What is added to the result. */
static const weft_tensor *residual_of(const weft_call *call)
{
    const weft_call_epilogue *e = call->epilogue;
    return &call->in[e->operands[0] < 0 ? e->operands[1] : e->operands[0]];
}

bool weft__vulkan_product_takes(const weft_call *call, const weft__vulkan_product *own)
{
    const weft_call_epilogue *e = call->epilogue;
    const bool gate = gate_of(e) != WEFT__VULKAN_NO_GATE;
    product_plan plan;
    if (own->has_bias || own->terms == 0 || e->result.dtype == WEFT_FLOAT64 ||
        (!gate && (!is_sum(e) || !weft_tensor_is_contiguous(residual_of(call))))) {
        return false;
    }
    weft__product_make_plan(&plan, own, weft__vulkan_cores_of(call));
    return !plan.swapped && (!gate || plan.way == BY_COLUMNS);
}

void weft__vulkan_product_join(const weft_call *call, weft__vulkan_product *p, uint64_t twin)
{
    const weft_call_epilogue *e = call->epilogue;
    if (!e) {
        return;
    }
    if (twin) {
        p->gate = gate_of(e);
        p->twin = e->operands[0] == -1 ? twin : p->b.address;
        p->b.address = e->operands[0] == -1 ? p->b.address : twin;
        return;
    }
    const weft_tensor *residual = residual_of(call);
    p->residual = p->has_bias = true;
    p->bias_dtype = residual->dtype;
    p->bias = weft__vulkan_address(residual);
}
