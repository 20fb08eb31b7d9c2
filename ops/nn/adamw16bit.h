/* ops/nn/adamw16bit.h -- AdamW with 16-bit moments and stochastic rounding, for the optimizer. */
#ifndef OPS_NN_ADAMW16BIT_H
#define OPS_NN_ADAMW16BIT_H

#include "weft/array.h"
#include "weft/op_params.h"

/* weft_adamw with parameter, m and v in any float dtypes but float16, of which bfloat16 is rounded
 * randomly; `key` is a random key, uint32 (2), and `hyper` as for weft_adamw. Computed in float32,
 * or float64 for a float64 parameter. out[] receives the new parameter, m and v. */
void weft__adamw16bit(weft_array *parameter, weft_array *gradient, weft_array *const state[2],
                      weft_array *hyper, weft_array *key, const weft_adamw_params *params,
                      weft_array *out[3]);

/* The random numbers with which the parameter, m and v of `shape` are rounded: uint32 below 2^16,
 * independent in pairs. */
void weft__rounding_bits(weft_array *key, weft_dims shape, weft_array *bits[3]);

/* float x -> dtype. For bfloat16: with bits uniform in 0 ... 2^16 - 1, one of the two numbers next
 * to x (as float32), and x on average. Numbers of bfloat16, infinities and NaN stay; beyond the
 * largest number it is that. */
weft_array *weft__stochastic_round(weft_array *x, weft_array *bits, weft_dtype dtype);

#endif
