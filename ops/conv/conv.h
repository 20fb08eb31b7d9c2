/* ops/conv/conv.h -- functions shared by the convolutions. */
#ifndef OPS_CONV_CONV_H
#define OPS_CONV_CONV_H

#include "ops/kernel.h"
#include "weft/conv.h"

/* Most spatial axes, which are those between the first and the last axis. */
enum { CONV_AXES = 3 };

extern const weft_op weft_op_conv, weft_op_conv_weight_grad;
extern const weft_field weft__conv_fields[];

/* Checks ranks, dtypes, groups and parameters for x and a weight of these shapes; `out` gets the
 * shape of the result. */
bool weft__conv_shape(const weft_conv_params *p, const weft_dims *x, const weft_dims *weight,
                      weft_dims *out, weft_why *why);
/* Checks that inputs 0 and 1 have the same real dtype. */
bool weft__conv_dtypes(const weft_array *node, weft_why *why);

weft_array *weft__conv(weft_array *x, weft_array *weight, const weft_conv_params *p);
/* The cotangents of x (of the given shape) and of the weight, from the cotangent of the result. */
weft_array *weft__conv_input_grad(weft_array *ct, weft_array *weight, const weft_dims *x,
                                  const weft_conv_params *p);
weft_array *weft__conv_weight_grad(weft_array *x, weft_array *ct, const weft_dims *weight,
                                   const weft_conv_params *p);

/* Moves axis `from` (counted from the front) to position `to`. */
weft_array *weft__conv_move(weft_array *x, int from, int to);

/* The index along one axis of the input element that tap j of output o reads, or -1 in the padding
 * or between dilated elements. */
static inline int64_t conv_input_index(const weft_conv_params *p, int axis, int64_t length,
                                       int64_t o, int64_t j)
{
    int64_t at = o * p->stride.at[axis] + j * p->kernel_dilation.at[axis] - p->pad_low.at[axis];
    int64_t place = at / p->input_dilation.at[axis];
    return at < 0 || at % p->input_dilation.at[axis] != 0 || place >= length ? -1 : place;
}

#endif
