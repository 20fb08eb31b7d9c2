/* backends/vulkan/kernels/scan.c -- cumulative products, extremes and log-sums, and linear
 * recurrences along an axis. Short or interleaved rows are scanned by one invocation each, others
 * by a workgroup. */
#include <string.h>

#include "backends/vulkan/kernels/reduce.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

static bool is_named(const weft_call *call, const char *name)
{
    return strcmp(call->op->name, name) == 0;
}

bool weft__vulkan_scan_fits(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    row_push push;
    return weft__vulkan_walk_fits(call) && weft__vulkan_rows(call, p->axis, &push) > 0;
}

/* The bits of the lowest or highest value of a dtype. */
static uint64_t extreme_bits(weft_dtype dtype, bool lowest)
{
    int size = 8 * (int)weft_dtype_size(dtype);
    uint64_t sign = UINT64_C(1) << (size - 1), all = UINT64_MAX >> (64 - size);
    uint64_t infinity;
    switch (dtype) {
    case WEFT_FLOAT16:
        infinity = 0x7c00;
        break;
    case WEFT_BFLOAT16:
        infinity = 0x7f80;
        break;
    case WEFT_FLOAT32:
        infinity = 0x7f800000;
        break;
    case WEFT_FLOAT64:
        infinity = UINT64_C(0x7ff0000000000000);
        break;
    case WEFT_BOOL:
        return lowest ? 0 : 1;
    default:
        if (weft_dtype_is_signed(dtype)) {
            return lowest ? sign : all ^ sign;
        }
        return lowest ? 0 : all;
    }
    return lowest ? infinity | sign : infinity;
}

static const weft__vulkan_shader *shader_of(const weft_call *call)
{
    weft_dtype out = call->out[0].dtype;
    bool wide = out == WEFT_FLOAT64, bytes = weft_dtype_size(out) == 1;
    if (is_named(call, "logcumsumexp")) {
        return wide ? &weft__shader_scan_logsum_f64 : &weft__shader_scan_logsum;
    }
    if (is_named(call, "linear_scan")) {
        return wide ? &weft__shader_scan_linear_f64 : &weft__shader_scan_linear;
    }
    if (!is_named(call, "cumprod")) {
        return bytes ? &weft__shader_scan_extreme_bytes : &weft__shader_scan_extreme;
    }
    if (!weft_dtype_is_float(out)) {
        return bytes ? &weft__shader_scan_product_bytes : &weft__shader_scan_product_bits;
    }
    return wide ? &weft__shader_scan_product_f64 : &weft__shader_scan_product;
}

weft_status weft__vulkan_scan(const weft_call *call)
{
    const weft_scan_params *p = call->params;
    row_push push;
    uint32_t n_kept = weft__vulkan_rows(call, p->axis, &push);
    bool linear = is_named(call, "linear_scan");
    bool product = is_named(call, "cumprod") && call->out[0].dtype == WEFT_FLOAT64;
    bool smallest = is_named(call, "cummin") || is_named(call, "cumargmin");
    bool places = is_named(call, "cumargmax") || is_named(call, "cumargmin");
    /* Products of later parts may overflow where the definition multiplies by 0. */
    bool in_order = linear || product;
    bool alone = in_order || push.count <= 64 || (push.inner >= 32 && push.rows >= 4096);
    uint32_t lanes = alone ? 1 : WALK_GROUP;
    push.x = weft__vulkan_lowest(&call->in[0], &push.origin);
    push.result = weft__vulkan_address(&call->out[0]);
    push.from = linear ? weft__vulkan_address(&call->in[1]) : 0;
    push.to = extreme_bits(call->in[0].dtype, !smallest);
    if (p->reverse) {
        push.origin += (push.count - 1) * (uint32_t)push.stride;
        push.stride = -push.stride;
    }
    weft__vulkan_launch launch = {
        .shader = shader_of(call),
        .n_constants = 8,
        .constants = {lanes, n_kept, call->in[0].dtype, call->out[0].dtype, p->reverse,
                      p->inclusive, smallest, places},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(push.rows, WALK_GROUP / lanes),
    };
    return weft__vulkan_dispatch(call, &launch);
}
