/* ops/reduce/reduce.h -- what the reductions share. */
#ifndef OPS_REDUCE_REDUCE_H
#define OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"

/* The table of weft_reduce_params. */
extern const weft_field weft__reduce_fields[];

/* The cases that every reduction has: one, some and all axes, kept and not. */
enum { REDUCE_CASES = 6 };
extern const weft_case weft__reduce_cases[REDUCE_CASES];

/* The shape after reducing input 0. */
bool weft__reduced_shape(const weft_array *node, weft_dims *out, weft_why *why);

/* Infer of reductions without a value for no elements: the reduced axes must not be empty. The
 * dtype stays. */
bool weft__infer_nonempty(const weft_array *node, weft_spec *out, weft_why *why);

/* The dtype in which sums and products of `dtype` are returned. */
weft_dtype weft__sum_dtype(weft_dtype dtype);

/* Canonicalises the axes and applies the op. */
weft_array *weft__reduce(const weft_op *op, weft_array *x, weft_dims axes, bool keepdims);

/* x itself; if the axis is WEFT_FLATTENED, x as one axis, and then *axis is that. */
weft_array *weft__flattened(weft_array *x, int *axis);

/* x with the axes (negative, sorted) brought to the end and joined there: (kept..., joined). What
 * has their order and shape before they are joined is turned back by transposing with `back`. */
weft_array *weft__axes_together(weft_array *x, const weft_dims *axes, weft_dims *back,
                                weft_dims *shape);

/* Something of the node's own shape, stretched to the shape of its input 0. */
weft_array *weft__unreduce(weft_array *node, weft_array *reduced);

/* Walks a reduction: element r in [0, count) of those that make output o is element
 * weft__reduced_element(...) of the input, in row-major order. */
typedef struct reduction {
    weft_dims in;                /* the input's shape */
    bool reduced[WEFT_MAX_DIMS]; /* by axis of the input */
    int64_t count;
} reduction;

reduction weft__reduction(const weft_call *call);
int64_t weft__reduced_element(const reduction *walk, int64_t o, int64_t r);

#endif
