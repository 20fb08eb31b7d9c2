/* ops/nn/adamw8bit.h -- AdamW with moments of 8 bits, for the optimizer. */
#ifndef OPS_NN_ADAMW8BIT_H
#define OPS_NN_ADAMW8BIT_H

#include "weft/array.h"
#include "weft/op_params.h"

enum { WEFT__MOMENT_BLOCK = 256 };

static inline int64_t weft__moment_blocks(int64_t size)
{
    return (size + WEFT__MOMENT_BLOCK - 1) / WEFT__MOMENT_BLOCK;
}

/* weft_adamw for a parameter whose moments have 8 bits: state has m and v, uint8 in its shape, and
 * their scales, float32 (blocks); `hyper` is weft_adamw's, float32 or float64. out[] has the new
 * parameter and the new state. */
void weft__adamw8bit(weft_array *parameter, weft_array *gradient, weft_array *const state[4],
                     weft_array *hyper, const weft_adamw_params *params, weft_array *out[5]);

/* Codes with the scales of their blocks as values, and values as codes, of the first moment or of
 * the second. */
weft_array *weft__moment_decode(weft_array *codes, weft_array *scale, bool second,
                                weft_dtype dtype);
weft_array *weft__moment_encode(weft_array *x, bool second, weft_array **scale);

#endif
