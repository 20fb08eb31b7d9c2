/* backends/cpu/rows.c -- accesses tensors (..., E) as rows of float32. */
#include "backends/cpu/rows.h"

bool weft__cpu_narrow(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
}

bool weft__cpu_narrow_inputs(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (weft_dtype_is_float(call->in[i].dtype) && !weft__cpu_narrow(call->in[i].dtype))
            return false;
    return true;
}

bool weft__cpu_row_stride(const weft_tensor *x, int64_t *rows, int64_t *stride)
{
    *rows = 1;
    *stride = x->shape.n ? x->shape.at[x->shape.n - 1] : 1;
    bool first = true;
    for (int i = x->shape.n - 2; i >= 0; i--) {
        if (x->shape.at[i] == 1)
            continue;
        if (first)
            *stride = x->strides[i];
        else if (x->strides[i] != *rows * *stride)
            return false;
        *rows *= x->shape.at[i];
        first = false;
    }
    return true;
}

cpu_rows weft__cpu_rows_of(const weft_tensor *t)
{
    cpu_rows rows = {.t = t,
                     .kernels = weft__cpu_kernels(),
                     .width = t->shape.n ? t->shape.at[t->shape.n - 1] : 1,
                     .plain = t->dtype == WEFT_FLOAT32};
    rows.even = weft__cpu_row_stride(t, &rows.n, &rows.stride);
    rows.n = 1;
    for (int i = 0; i < t->shape.n - 1; i++)
        rows.n *= t->shape.at[i];
    return rows;
}

void *weft__cpu_row(const cpu_rows *rows, int64_t i)
{
    int64_t offset = rows->even ? i * rows->stride : weft_tensor_offset(rows->t, i * rows->width);
    return (char *)rows->t->data + offset * (int64_t)weft_dtype_size(rows->t->dtype);
}

const float *weft__cpu_row_read(const cpu_rows *rows, int64_t i, float *scratch)
{
    const void *row = weft__cpu_row(rows, i);
    if (rows->plain)
        return row;
    rows->kernels->decode(rows->t->dtype, row, scratch, rows->width);
    return scratch;
}

float *weft__cpu_row_target(const cpu_rows *rows, int64_t i, float *scratch)
{
    return rows->plain ? weft__cpu_row(rows, i) : scratch;
}

void weft__cpu_row_done(const cpu_rows *rows, int64_t i, const float *scratch)
{
    if (!rows->plain)
        rows->kernels->encode(rows->t->dtype, scratch, weft__cpu_row(rows, i), rows->width);
}

int64_t weft__cpu_row_room(int64_t width)
{
    return (width + 15) / 16 * 16;
}
