/* ops/common.h -- helpers shared by the ops. */
#ifndef OPS_COMMON_H
#define OPS_COMMON_H

#include "core/lengths.h"
#include "core/shape.h"
#include "weft/op.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/tape.h"
#include "weft/transforms.h"

/* Shape and dtype of a node's input i. */
static inline weft_dims input_shape(const weft_array *node, int i)
{
    return weft_shape(weft_node_input(node, i));
}

static inline weft_dtype input_dtype(const weft_array *node, int i)
{
    return weft_dtype_of(weft_node_input(node, i));
}

static inline weft_array *apply1(const weft_op *op, weft_array *x, const void *params)
{
    return weft_apply(op, &x, 1, params);
}

static inline weft_array *apply2(const weft_op *op, weft_array *a, weft_array *b,
                                 const void *params)
{
    weft_array *inputs[] = {a, b};
    return weft_apply(op, inputs, 2, params);
}

static inline weft_array *apply3(const weft_op *op, weft_array *a, weft_array *b, weft_array *c,
                                 const void *params)
{
    weft_array *inputs[] = {a, b, c};
    return weft_apply(op, inputs, 3, params);
}

/* For weft_op.is_identity. */
static inline bool always_identity(const void *params, int n_inputs)
{
    (void)params, (void)n_inputs;
    return true;
}

/* Real functions take integers and bool as float32. */
/* Closes the innermost scope and moves two or three results to its parent. */
static inline void close_with(weft_array **a, weft_array **b)
{
    weft_array *results[] = {*a, *b};
    weft_scope_close_n(results, 2);
    *a = results[0];
    *b = results[1];
}

static inline void close_with_three(weft_array **a, weft_array **b, weft_array **c)
{
    weft_array *results[] = {*a, *b, *c};
    weft_scope_close_n(results, 3);
    *a = results[0];
    *b = results[1];
    *c = results[2];
}

/* Whether the dtype is an integer or bool. */
static inline bool is_whole(const weft_array *x)
{
    weft_class klass = weft_dtype_class(weft_dtype_of(x));
    return klass == WEFT_CLASS_INTEGER || klass == WEFT_CLASS_BOOL;
}

static inline weft_array *as_inexact(weft_array *x)
{
    return is_whole(x) ? weft_astype(x, WEFT_FLOAT32) : x;
}

#endif
