/* core/eval/choose.c -- selects the kernel for a call. */
#include "core/eval/choose.h"

#include "core/device.h"

static bool letter_fits(char letter, weft_dtype dtype)
{
    static const char letters[WEFT_DTYPE_COUNT + 1] = "?\1\1uU\1\1ilhbfdc";
    switch (letter) {
    case '*':
        return true;
    case 'F':
        return weft_dtype_is_float(dtype);
    case 'I':
        return weft_dtype_is_integer(dtype);
    default:
        return letters[dtype] == letter;
    }
}

static bool signature_fits(const weft_kernel_row *row, const weft_call *call)
{
    const char *s = row->signature;
    for (int i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const weft_tensor *t = i < call->n_inputs ? &call->in[i] : &call->out[i - call->n_inputs];
        if ((s && !letter_fits(*s, t->dtype)) || (t->encoding && !(row->takes_encoded >> i & 1))) {
            return false;
        }
        s = s && s[1] ? s + 1 : s;
    }
    return !row->fits || row->fits(call);
}

bool weft__layout_fits(weft_layout layout, const weft_tensor *t)
{
    if (layout == WEFT_STRIDED || t->encoding) {
        return true;
    }
    int last = t->shape.n - 1;
    if (layout == WEFT_LAST_DIM) {
        return last < 0 || t->shape.at[last] == 1 || t->strides[last] == 1;
    }
    return weft_tensor_is_contiguous(t);
}

const weft_kernel_row *weft__choose_row(weft_device *device, const weft_call *call)
{
    int n;
    const weft_kernel_row *const *rows = weft__device_rows(device, call->op, &n);
    const weft_kernel_row *with_copies = NULL;
    for (int i = 0; i < n; i++) {
        if (!signature_fits(rows[i], call)) {
            continue;
        }
        bool as_it_is = true;
        for (int k = 0; k < call->n_inputs && as_it_is; k++) {
            as_it_is = weft__layout_fits(rows[i]->layout, &call->in[k]);
        }
        if (as_it_is) {
            return rows[i];
        }
        with_copies = with_copies ? with_copies : rows[i];
    }
    return with_copies;
}
