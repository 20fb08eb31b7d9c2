/* core/eval/reference.c -- fallback kernels for backends without their own: elementwise and copy.
 */
#include "core/eval/complex_step.h"

#include <math.h>

#include "core/eval/plan.h"

static bool is_whole(const weft_tape *tape)
{
    return tape->klass == WEFT_CLASS_INTEGER || tape->klass == WEFT_CLASS_BOOL;
}

static weft__wide_complex load_complex(const weft_tensor *t, int64_t i)
{
    if (t->dtype != WEFT_COMPLEX64) {
        return weft_tensor_get(t, i);
    }
    const float *pair = (const float *)t->data + 2 * weft_tensor_offset(t, i);
    return weft__wide_complex_of((double)pair[0], (double)pair[1]);
}

static void store_complex(const weft_tensor *t, int64_t i, weft__wide_complex value)
{
    if (t->dtype != WEFT_COMPLEX64) {
        weft_tensor_set(t, i, creal(value));
        return;
    }
    float *pair = (float *)t->data + 2 * weft_tensor_offset(t, i);
    pair[0] = (float)creal(value);
    pair[1] = (float)cimag(value);
}

static void complex_elementwise(const weft_call *call, const weft_tape *tape)
{
    int64_t n = weft_tensor_size(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        weft__wide_complex values[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {0};
        for (int k = 0; k < call->n_inputs; k++) {
            values[k] = load_complex(&call->in[k], i);
        }
        int last = 0;
        for (int k = 0; k < tape->n_steps; k++) {
            last = tape->n_operands + k;
            values[last] = weft__complex_step(&tape->steps[k], values);
        }
        store_complex(&call->out[0], i, values[last]);
    }
}

weft_status weft__reference_elementwise(const weft_call *call, const weft_tape *tape)
{
    if (tape->klass == WEFT_CLASS_COMPLEX) {
        complex_elementwise(call, tape);
        return WEFT_OK;
    }
    const weft_tensor *out = &call->out[0];
    weft_dtype dtype = call->in[call->n_inputs - 1].dtype;
    int64_t n = weft_tensor_size(out);
    for (int64_t i = 0; i < n; i++) {
        if (is_whole(tape)) {
            int64_t values[WEFT_TAPE_MAX_OPERANDS] = {0};
            for (int k = 0; k < call->n_inputs; k++) {
                values[k] = weft_tensor_get_int(&call->in[k], i);
            }
            weft_tensor_set_int(out, i, weft_tape_eval_int(tape, values, dtype));
        } else {
            double values[WEFT_TAPE_MAX_OPERANDS] = {0};
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
