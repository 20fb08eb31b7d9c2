/* ops/reduce/reduce.h -- functions shared by the reductions. */
#ifndef OPS_REDUCE_REDUCE_H
#define OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"

/* The field table of weft_reduce_params. */
extern const weft_field weft__reduce_fields[];

/* Test cases of all reductions: one, some and all axes, with and without keepdims. */
enum { REDUCE_CASES = 6 };
extern const weft_case weft__reduce_cases[REDUCE_CASES];

/* The shape after reducing input 0. */
bool weft__reduced_shape(const weft_array *node, weft_dims *out, weft_why *why);

/* Infer of reductions that are undefined for no elements: the reduced axes must not be empty. The
 * dtype stays. */
bool weft__infer_nonempty(const weft_array *node, weft_spec *out, weft_why *why);

/* The dtype of sums and products of `dtype`. */
weft_dtype weft__sum_dtype(weft_dtype dtype);

/* Canonicalizes the axes and applies the op. */
weft_array *weft__reduce(const weft_op *op, weft_array *x, weft_dims axes, bool keepdims);

/* Returns x unless the axis is WEFT_FLATTENED; then x as one axis, and *axis becomes that axis. */
weft_array *weft__flattened(weft_array *x, int *axis);

/* x with the axes (negative, sorted) moved to the end and joined: (kept..., joined). Transposing by
 * `back` restores the order of axes of arrays with the shape before joining. */
weft_array *weft__axes_together(weft_array *x, const weft_dims *axes, weft_dims *back,
                                weft_dims *shape);

/* Broadcasts an array of the node's shape to the shape of its input 0. */
weft_array *weft__unreduce(weft_array *node, weft_array *reduced);

/* Enumerates the elements of a reduction: the inputs of output o are elements
 * weft__reduced_element(...) for r in [0, count), in row-major order. */
typedef struct reduction {
    weft_dims in;                /* the input's shape */
    bool reduced[WEFT_MAX_DIMS]; /* per axis of the input */
    int64_t count;
} reduction;

reduction weft__reduction(const weft_call *call);
int64_t weft__reduced_element(const reduction *walk, int64_t o, int64_t r);

#endif
