/* ops/batch.h -- helpers of vmap rules: shapes and arrays with a leading batch axis. */
#ifndef OPS_BATCH_H
#define OPS_BATCH_H

#include "ops/common.h"

/* (...) as (size, ...). vmap calls no rule for arrays that already have the maximum rank. */
static inline weft_dims with_batch(weft_dims shape, int64_t size)
{
    weft_dims out = {.n = shape.n + 1, .at = {size}};
    for (int i = 0; i < shape.n; i++) {
        out.at[i + 1] = shape.at[i];
    }
    return out;
}

/* x with the batch axis in front; broadcast if it has none. */
static inline weft_array *batch_of(weft_array *x, bool batched, int64_t size)
{
    return batched ? x : weft_broadcast_to(x, with_batch(weft_shape(x), size));
}

/* (size, B, ...) as (size B, ...), and back to (size, B, ...). */
static inline weft_array *merge_batch(weft_array *x)
{
    weft_dims shape = weft_shape(x), merged = {.n = shape.n - 1};
    for (int i = 0; i < merged.n; i++) {
        merged.at[i] = i == 0 ? shape.at[0] * shape.at[1] : shape.at[i + 1];
    }
    return weft_ok(x) ? weft_reshape(x, merged) : x;
}

static inline weft_array *split_batch(weft_array *x, int64_t size, int64_t B)
{
    weft_dims shape = weft_shape(x);
    shape.at[0] = B;
    return weft_ok(x) ? weft_reshape(x, with_batch(shape, size)) : x;
}

/* Moves axis `from` of x to the front. */
static inline weft_array *axis_to_front(weft_array *x, int from)
{
    weft_dims order = {.n = weft_ndim(x)};
    for (int i = 0; i < order.n; i++) {
        order.at[i] = i == 0 ? from : i <= from ? i - 1 : i;
    }
    return weft_ok(x) ? weft_transpose(x, order) : x;
}

#endif
