/* ops/nn/adamw8bit.h -- AdamW with 8-bit moments, for the optimizer. */
#ifndef OPS_NN_ADAMW8BIT_H
#define OPS_NN_ADAMW8BIT_H

#include "weft/array.h"
#include "weft/op_params.h"

enum { WEFT__MOMENT_BLOCK = 256 };

static inline int64_t weft__moment_blocks(int64_t size)
{
    return (size + WEFT__MOMENT_BLOCK - 1) / WEFT__MOMENT_BLOCK;
}

/* weft_adamw for a parameter with 8-bit moments: state has m and v, uint8 in the parameter's shape,
 * and their scales, float32 (blocks); `hyper` is as for weft_adamw, float32 or float64. out[]
 * receives the new parameter and the new state. */
void weft__adamw8bit(weft_array *parameter, weft_array *gradient, weft_array *const state[4],
                     weft_array *hyper, const weft_adamw_params *params, weft_array *out[5]);

/* Decodes codes with the scales of their blocks, and encodes values, of the first or the second
 * moment. */
weft_array *weft__moment_decode(weft_array *codes, weft_array *scale, bool second,
                                weft_dtype dtype);
weft_array *weft__moment_encode(weft_array *x, bool second, weft_array **scale);

#endif
