/* ops/structure/index.c -- adds values at indices, for the reference kernels of scatter_add and
 * scatter_add_along_axis. */
#include "ops/structure/index.h"

bool weft__scatter_dtypes(const weft_array *node, weft_why *why)
{
    weft_dtype x = input_dtype(node, 0), values = input_dtype(node, 2);
    if (!weft__expect_indices(node, 1, why)) {
        return false;
    }
    if (x != values) {
        return weft_because(why, "values of %s for %s", weft_dtype_name(values),
                            weft_dtype_name(x));
    }
    if (x == WEFT_BOOL) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(x));
    }
    return true;
}

static weft_status add_reals(const weft_call *call, weft__target_index *place, double *sums)
{
    const weft_tensor *x = &call->in[0], *values = &call->in[2];
    int64_t size = weft_tensor_size(x), count = weft_tensor_size(values), to;
    for (int64_t i = 0; i < size; i++) {
        sums[i] = weft_tensor_get(x, i);
    }
    for (int64_t i = 0; i < count; i++) {
        weft_status status = place(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        sums[to] += weft_tensor_get(values, i);
    }
    for (int64_t i = 0; i < size; i++) {
        weft_tensor_set(&call->out[0], i, sums[i]);
    }
    return WEFT_OK;
}

/* The real and imaginary parts of sum i are sums[2 i] and sums[2 i + 1]. */
static weft_status add_complex(const weft_call *call, weft__target_index *place, double *sums)
{
    const weft_tensor *x = &call->in[0], *values = &call->in[2];
    int64_t size = weft_tensor_size(x), count = weft_tensor_size(values), to;
    for (int64_t i = 0; i < size; i++) {
        get_complex(x, i, &sums[2 * i], &sums[2 * i + 1]);
    }
    for (int64_t i = 0; i < count; i++) {
        double re, im;
        weft_status status = place(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        get_complex(values, i, &re, &im);
        sums[2 * to] += re;
        sums[2 * to + 1] += im;
    }
    for (int64_t i = 0; i < size; i++) {
        set_complex(&call->out[0], i, sums[2 * i], sums[2 * i + 1]);
    }
    return WEFT_OK;
}

static weft_status add_integers(const weft_call *call, weft__target_index *place, uint64_t *sums)
{
    const weft_tensor *x = &call->in[0], *values = &call->in[2];
    int64_t size = weft_tensor_size(x), count = weft_tensor_size(values), to;
    for (int64_t i = 0; i < size; i++) {
        sums[i] = (uint64_t)weft_tensor_get_int(x, i);
    }
    for (int64_t i = 0; i < count; i++) {
        weft_status status = place(call, i, &to);
        if (status != WEFT_OK) {
            return status;
        }
        sums[to] += (uint64_t)weft_tensor_get_int(values, i);
    }
    for (int64_t i = 0; i < size; i++) {
        weft_tensor_set_int(&call->out[0], i, (int64_t)sums[i]);
    }
    return WEFT_OK;
}

weft_status weft__scatter_add(const weft_call *call, weft__target_index *place)
{
    size_t size = (size_t)weft_tensor_size(&call->in[0]);
    weft_dtype dtype = call->in[0].dtype;
    void *sums = weft_calloc(size ? size : 1, 2 * sizeof(double));
    if (!sums) {
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %zu sums", call->op->name, size);
    }
    weft_status status = dtype == WEFT_COMPLEX64      ? add_complex(call, place, sums)
                         : weft_dtype_is_float(dtype) ? add_reals(call, place, sums)
                                                      : add_integers(call, place, sums);
    weft_free(sums);
    return status;
}
