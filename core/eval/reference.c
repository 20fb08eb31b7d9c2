/* core/eval/reference.c -- what a backend without kernels of its own falls back to. */
#include "core/eval/plan.h"

static bool is_whole(const weft_tape *tape)
{
    return tape->klass == WEFT_CLASS_INTEGER || tape->klass == WEFT_CLASS_BOOL;
}

weft_status weft__reference_elementwise(const weft_call *call, const weft_tape *tape)
{
    if (tape->klass == WEFT_CLASS_COMPLEX) {
        return weft_fail(WEFT_UNSUPPORTED, "%s: unsupported for complex64 on %s", call->op->name,
                         weft_device_name(call->device));
    }
    const weft_tensor *out = &call->out[0];
    weft_dtype dtype = call->in[call->n_inputs - 1].dtype;
    int64_t n = weft_tensor_size(out);
    for (int64_t i = 0; i < n; i++) {
        if (is_whole(tape)) {
            int64_t values[4] = {0};
            for (int k = 0; k < call->n_inputs; k++) {
                values[k] = weft_tensor_get_int(&call->in[k], i);
            }
            weft_tensor_set_int(out, i, weft_tape_eval_int(tape, values, dtype));
        } else {
            double values[4] = {0};
            for (int k = 0; k < call->n_inputs; k++) {
                values[k] = weft_tensor_get(&call->in[k], i);
            }
            weft_tensor_set(out, i, weft_tape_eval(tape, values));
        }
    }
    return WEFT_OK;
}

weft_status weft__reference_copy(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    size_t element = weft_dtype_size(out->dtype);
    int64_t n = weft_tensor_size(out);
    for (int64_t i = 0; i < n; i++) {
        const char *from = (const char *)in->data + weft_tensor_offset(in, i) * (int64_t)element;
        char *to = (char *)out->data + weft_tensor_offset(out, i) * (int64_t)element;
        for (size_t b = 0; b < element; b++) {
            to[b] = from[b];
        }
    }
    return WEFT_OK;
}
