/* ops/conv/conv.h -- what the files of this folder share. */
#ifndef OPS_CONV_CONV_H
#define OPS_CONV_CONV_H

#include "ops/kernel.h"
#include "weft/conv.h"

/* Spatial axes: those between the first and the last. */
enum { CONV_AXES = 3 };

extern const weft_op weft_op_conv, weft_op_conv_weight_grad;
extern const weft_field weft__conv_fields[];

/* Checks ranks, dtypes, groups and parameters of x and of a weight of this shape; `out` gets the
 * result's shape. */
bool weft__conv_shape(const weft_conv_params *p, const weft_dims *x, const weft_dims *weight,
                      weft_dims *out, weft_why *why);
/* Inputs 0 and 1 have one dtype, a real one. */
bool weft__conv_dtypes(const weft_array *node, weft_why *why);

weft_array *weft__conv(weft_array *x, weft_array *weight, const weft_conv_params *p);
/* The cotangents of x (which had this shape), and of the weight, from that of the result. */
weft_array *weft__conv_input_grad(weft_array *ct, weft_array *weight, const weft_dims *x,
                                  const weft_conv_params *p);
weft_array *weft__conv_weight_grad(weft_array *x, weft_array *ct, const weft_dims *weight,
                                   const weft_conv_params *p);

/* Puts axis `from` (counted from the front) at place `to`. */
weft_array *weft__conv_move(weft_array *x, int from, int to);

/* The input's element along one axis that tap j of output o meets, or -1: padding, or a zero
 * between elements. */
static inline int64_t conv_place(const weft_conv_params *p, int axis, int64_t length, int64_t o,
                                 int64_t j)
{
    int64_t at = o * p->stride.at[axis] + j * p->kernel_dilation.at[axis] - p->pad_low.at[axis];
    int64_t place = at / p->input_dilation.at[axis];
    return at < 0 || at % p->input_dilation.at[axis] != 0 || place >= length ? -1 : place;
}

#endif
