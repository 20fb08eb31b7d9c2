/* backends/vulkan/kernels/attention_append.c -- what attention_few.comp needs to rotate a token and
 * to write it to the caches. */
#include "backends/vulkan/kernels/attention.h"
#include "backends/vulkan/kernels/move.h"
#include "backends/vulkan/kernels/structure.h"

/* Layout as in attention_few.comp. */
typedef struct token {
    uint64_t k, v, positions, frequencies, start, fault;
    uint32_t k_at[2], v_at[2], positions_at, pairs;
    float amplitude, turn;
    uint32_t fault_code, unused;
} token;

/* What is not written stays as it was: where a result does not lie over its cache, that is copied
 * first. */
static weft_status copy_caches(const weft_call *call)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        const weft_tensor *from = &call->in[1 + i], *to = &call->out[2 + i];
        if (weft__vulkan_address_or_0(from) != weft__vulkan_address_or_0(to)) {
            weft_call copy = *call;
            copy.in = from;
            copy.out = to;
            copy.n_inputs = copy.n_outputs = 1;
            status = weft__vulkan_move_all(&copy);
        }
    }
    return status;
}

uint64_t weft__vulkan_attention_append_record(const weft_call *call)
{
    const weft_attention_append_params *params = call->params;
    const weft_tensor *k = &call->in[APPEND_K], *v = &call->in[APPEND_V];
    const weft_tensor *positions = &call->in[APPEND_POSITIONS];
    const weft_tensor *frequencies = &call->in[APPEND_FREQUENCIES];
    if (copy_caches(call) != WEFT_OK) {
        return 0;
    }
    uint32_t k_at[3], v_at[3];
    weft__vulkan_attention_strides(k, 3, k_at);
    weft__vulkan_attention_strides(v, 3, v_at);
    const token record = {
        .k = weft__vulkan_address_or_0(k),
        .v = weft__vulkan_address_or_0(v),
        .positions = weft__vulkan_address_or_0(positions),
        .frequencies = weft__vulkan_address_or_0(frequencies),
        .start = weft__vulkan_address(&call->in[APPEND_START]),
        .fault = weft__vulkan_fault(call),
        .k_at = {k_at[0], k_at[2]},
        .v_at = {v_at[0], v_at[2]},
        .positions_at = positions->shape.n == 2 ? (uint32_t)positions->strides[0] : 0,
        .pairs = (uint32_t)frequencies->shape.at[0],
        .amplitude = (float)params->rope.amplitude,
        .turn = params->rope.inverse ? -1 : 1,
        .fault_code =
            weft__vulkan_fault_code(call, weft__vulkan_bad_index, call->in[1].shape.at[1])};
    return weft__vulkan_record(call, &record, sizeof record);
}

void weft__vulkan_attention_append_constants(const weft_call *call, uint32_t out[APPEND_CONSTANTS])
{
    const weft_attention_append_params *params = call->params;
    out[0] = call->in[APPEND_POSITIONS].dtype;
    out[1] = params->rope.interleaved;
    out[2] = call->in[APPEND_START].dtype;
}
