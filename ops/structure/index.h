/* ops/structure/index.h -- functions shared by the indexing ops. */
#ifndef OPS_STRUCTURE_INDEX_H
#define OPS_STRUCTURE_INDEX_H

#include "ops/kernel.h"

/* Adds element i of values to the element of x that target(i) returns. Sums are accumulated in
 * double (integers: in 64 bits) and rounded once. This defines scatter_add and
 * scatter_add_along_axis. */
typedef weft_status weft__target_index(const weft_call *call, int64_t i, int64_t *out);
weft_status weft__scatter_add(const weft_call *call, weft__target_index *place);

/* Checks the dtypes of x, indices and values for both ops. */
bool weft__scatter_dtypes(const weft_array *node, weft_why *why);

/* The target index for take, scatter_add and scatter, whose params begin with the axis. */
weft_status weft__target_along_axis(const weft_call *call, int64_t i, int64_t *out);

/* The same for take_along_axis, scatter_add_along_axis and put_along_axis; and infer of the latter
 * two except for dtypes. */
weft_status weft__named_element(const weft_call *call, int64_t i, int64_t *out);
/* Test cases of the ops that add or put values along an axis. */
enum { WEFT__SCATTER_ALONG_CASES = 3 };
extern const weft_case weft__scatter_along_cases[WEFT__SCATTER_ALONG_CASES];
bool weft__scatter_along_shapes(const weft_array *node, weft_spec *out, weft_why *why);

/* Infer of scatter_add and scatter except for dtypes. */
bool weft__scatter_shapes(const weft_array *node, int64_t axis, weft_spec *out, weft_why *why);

/* Combines values with the elements of x at indices along the axis (scatter_add or scatter); values
 * have x's dtype. */
weft_array *weft__scatter_rows(weft_array *x, weft_array *indices, weft_array *values, int64_t axis,
                               weft_combine combine);

/* Points in an array: k index arrays of one shape, for distinct axes, counted from the front and
 * ascending. */
typedef struct weft__points {
    int k;
    int axes[WEFT_MAX_DIMS];
    weft_array *indices[WEFT_MAX_DIMS];
} weft__points;

/* x at the points: (the indices' shape, x's other axes). */
weft_array *weft__take_points(weft_array *x, const weft__points *points);
/* x with updates of that shape combined at the points. */
weft_array *weft__scatter_points(weft_array *x, const weft__points *points, weft_array *updates,
                                 weft_combine combine);

/* 0, 1, ..., n - 1 along one axis of `rank` axes, the others having length 1; on the device of
 * `like`. */
weft_array *weft__ramp(weft_array *like, int64_t n, int axis, int rank);

/* Indices passed through bounded_index. */
weft_array *weft__bounded(weft_array *indices, int64_t length, weft_bounds mode);

/* Vmap of scatter_add and scatter. */
bool weft__scatter_vmap(weft_array *const *in, const bool *batched, int64_t size, int64_t axis,
                        weft_combine combine, weft_array **out);

/* The field table of weft_slice_params; and the shape of a slice of *shape (false: the slice is out
 * of range). */
extern const weft_field weft__slice_fields[];
bool weft__sliced_shape(const weft_slice_params *p, weft_dims *shape, weft_why *why);

/* The first index and the number of indices of start:stop:step on an axis of `length`. */
void weft__slice_span(int64_t length, int64_t start, int64_t stop, int64_t step, int64_t *first,
                      int64_t *size);

/* The slice of x as parameters of the slice op; false: *failed is set. */
bool weft__slice_of(weft_array *x, const char *op, weft_dims axes, weft_dims starts,
                    weft_dims stops, weft_dims steps, weft_slice_params *out, weft_array **failed);
/* Combines `update`, broadcast to the slice, into that slice of x. */
weft_array *weft__slice_combine(weft_array *x, weft_array *update, const weft_slice_params *slice,
                                weft_combine combine);

#endif
