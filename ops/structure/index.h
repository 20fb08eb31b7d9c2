/* ops/structure/index.h -- what the indexing ops share. */
#ifndef OPS_STRUCTURE_INDEX_H
#define OPS_STRUCTURE_INDEX_H

#include "ops/kernel.h"

/* Every value of values goes to element place(i) of x and is added there; sums are taken in double
 * (integers: in 64 bits) and rounded once. This is the definition of scatter_add and
 * scatter_add_along_axis. */
typedef weft_status weft__place(const weft_call *call, int64_t i, int64_t *out);
weft_status weft__scatter_add(const weft_call *call, weft__place *place);

/* Infer of both: the dtypes of x, indices and values. */
bool weft__scatter_dtypes(const weft_array *node, weft_why *why);

/* A weft__place of take, scatter_add and scatter: params begin with the axis. */
weft_status weft__taken_from(const weft_call *call, int64_t i, int64_t *out);

/* The same of take_along_axis, scatter_add_along_axis and put_along_axis, and infer of the latter
 * two, but for dtypes. */
weft_status weft__named_element(const weft_call *call, int64_t i, int64_t *out);
/* Cases of the ops that add or put values along an axis. */
enum { WEFT__SCATTER_ALONG_CASES = 3 };
extern const weft_case weft__scatter_along_cases[WEFT__SCATTER_ALONG_CASES];
bool weft__scatter_along_shapes(const weft_array *node, weft_spec *out, weft_why *why);

/* Infer of scatter_add and scatter, but for dtypes. */
bool weft__scatter_shapes(const weft_array *node, int64_t axis, weft_spec *out, weft_why *why);

/* x with values combined into the places at indices on the axis (scatter_add or scatter); values
 * have x's dtype. */
weft_array *weft__scatter_rows(weft_array *x, weft_array *indices, weft_array *values, int64_t axis,
                               weft_combine combine);

/* Places in an array: k index arrays of one shape, for distinct axes that count from the front and
 * ascend. */
typedef struct weft__points {
    int k;
    int axes[WEFT_MAX_DIMS];
    weft_array *indices[WEFT_MAX_DIMS];
} weft__points;

/* x at the points: (the indices' shape, x's other axes). */
weft_array *weft__take_points(weft_array *x, const weft__points *points);
/* x with updates of such a shape. */
weft_array *weft__scatter_points(weft_array *x, const weft__points *points, weft_array *updates,
                                 weft_combine combine);

/* 0, 1, ... n - 1 along one axis of `rank`, with 1 on the others; beside `like`. */
weft_array *weft__ramp(weft_array *like, int64_t n, int axis, int rank);

/* Indices as bounded_index makes them. */
weft_array *weft__bounded(weft_array *indices, int64_t length, weft_bounds mode);

/* Vmap of scatter_add and scatter. */
bool weft__scatter_vmap(weft_array *const *in, const bool *batched, int64_t size, int64_t axis,
                        weft_combine combine, weft_array **out);

/* The table of weft_slice_params; and *shape becomes that of the slice, or false when the slice
 * leaves it. */
extern const weft_field weft__slice_fields[];
bool weft__sliced_shape(const weft_slice_params *p, weft_dims *shape, weft_why *why);

/* First place and number of places of start:stop:step on an axis of `length`. */
void weft__slice_span(int64_t length, int64_t start, int64_t stop, int64_t step, int64_t *first,
                      int64_t *size);

/* The slice of x, as params of slice; false: *failed. */
bool weft__slice_of(weft_array *x, const char *op, weft_dims axes, weft_dims starts,
                    weft_dims stops, weft_dims steps, weft_slice_params *out, weft_array **failed);
/* x with `update`, which broadcasts to the slice, combined into it. */
weft_array *weft__slice_combine(weft_array *x, weft_array *update, const weft_slice_params *slice,
                                weft_combine combine);

#endif
