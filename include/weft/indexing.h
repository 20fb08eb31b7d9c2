/* weft/indexing.h -- reading and writing elements at integer indices.
 *
 * Indices are integers of any dtype; negative ones count from the end. An index out of range makes
 * the evaluation fail with a message that names op, index and length (weft_set_index_checks);
 * weft_clip_indices and weft_wrap_indices bring indices into range. Indices have no gradient.
 * Results have x's dtype and, where elements of x are replaced, x's shape. Common rules: ops.h.
 */
#ifndef WEFT_INDEXING_H
#define WEFT_INDEXING_H

#include "weft/array.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* The slices of x at `indices` along the axis: x's shape with the axis replaced by the shape of
 * `indices`. */
WEFT_API weft_array *weft_take(weft_array *x, weft_array *indices, int axis);
/* out[..., i, ...] = x[..., indices[..., i, ...], ...]; equal shapes off the axis. */
WEFT_API weft_array *weft_take_along_axis(weft_array *x, weft_array *indices, int axis);
/* x with values added at indices along the axis. The values of a repeated index are all added, in
 * the order of the indices. */
WEFT_API weft_array *weft_scatter_add_along_axis(weft_array *x, weft_array *indices,
                                                 weft_array *values, int axis);
/* x with the elements at indices along the axis set to values; of a repeated index the last value
 * is stored. The shapes of indices and values are equal. */
WEFT_API weft_array *weft_put_along_axis(weft_array *x, weft_array *indices, weft_array *values,
                                         int axis);
/* weft_take from x flattened: the shape of `indices`. */
WEFT_API weft_array *weft_take_flat(weft_array *x, weft_array *indices);
/* Rows of table (V, E) at ids (...): (..., E). */
WEFT_API weft_array *weft_embedding(weft_array *table, weft_array *ids);

/* ---- Several axes at once, as MLX has them -------------------------------------------------- */

/* Slices of x: indices[i] has their starts on axes[i], the shapes of all indices being broadcast to
 * (I...). slice_sizes has a size for every axis of x; on axes without indices slices start at 0.
 * Returns (I..., slice_sizes...). */
WEFT_API weft_array *weft_gather(weft_array *x, weft_array *const *indices, int n, weft_dims axes,
                                 weft_dims slice_sizes);
/* x with the slices at such indices set to updates (I..., slice sizes...); with repeated indices
 * the last update in row-major order is stored. The others add, multiply, or take the larger or
 * smaller element; elements that tie share the gradient evenly. The order does not depend on the
 * number of threads. weft_scatter_prod has exact first and second derivatives where factors are 0.
 * Complex numbers compare as in reduce.h. */
WEFT_API weft_array *weft_scatter(weft_array *x, weft_array *const *indices, int n,
                                  weft_array *updates, weft_dims axes);
WEFT_API weft_array *weft_scatter_add(weft_array *x, weft_array *const *indices, int n,
                                      weft_array *updates, weft_dims axes);
WEFT_API weft_array *weft_scatter_prod(weft_array *x, weft_array *const *indices, int n,
                                       weft_array *updates, weft_dims axes);
WEFT_API weft_array *weft_scatter_max(weft_array *x, weft_array *const *indices, int n,
                                      weft_array *updates, weft_dims axes);
WEFT_API weft_array *weft_scatter_min(weft_array *x, weft_array *const *indices, int n,
                                      weft_array *updates, weft_dims axes);
/* x with the elements where the mask is true replaced by the elements of `values`, in row-major
 * order. The mask is broadcast to x's shape; `values` must have as many elements as it has true
 * ones. */
WEFT_API weft_array *weft_masked_scatter(weft_array *x, weft_array *mask, weft_array *values);

/* ---- NumPy's expressions -------------------------------------------------------------------- */

typedef enum weft_index_kind {
    WEFT_INDEX_INTEGER,  /* start: the index; the axis is removed */
    WEFT_INDEX_SLICE,    /* start:stop:step */
    WEFT_INDEX_NEWAXIS,  /* an axis of 1 */
    WEFT_INDEX_ELLIPSIS, /* all axes that no other item names; at most one */
    WEFT_INDEX_ARRAY     /* an array of integer indices */
} weft_index_kind;

typedef struct weft_index_item {
    weft_index_kind kind;
    int64_t start, stop, step;
    weft_array *array;
} weft_index_item;

static inline weft_index_item weft_at(int64_t i)
{
    weft_index_item item = {WEFT_INDEX_INTEGER, i, 0, 1, NULL};
    return item;
}

static inline weft_index_item weft_from_to_by(int64_t start, int64_t stop, int64_t step)
{
    weft_index_item item = {WEFT_INDEX_SLICE, start, stop, step, NULL};
    return item;
}

static inline weft_index_item weft_from_to(int64_t start, int64_t stop)
{
    return weft_from_to_by(start, stop, 1);
}

static inline weft_index_item weft_every(void) /* ":" */
{
    return weft_from_to_by(0, INT64_MAX, 1);
}

static inline weft_index_item weft_newaxis(void)
{
    weft_index_item item = {WEFT_INDEX_NEWAXIS, 0, 0, 1, NULL};
    return item;
}

static inline weft_index_item weft_ellipsis(void) /* "..." */
{
    weft_index_item item = {WEFT_INDEX_ELLIPSIS, 0, 0, 1, NULL};
    return item;
}

static inline weft_index_item weft_indices(weft_array *indices)
{
    weft_index_item item = {WEFT_INDEX_ARRAY, 0, 0, 1, indices};
    return item;
}

/* x[items] as in NumPy: x[:, 0, idx] is WEFT_INDEX(x, weft_every(), weft_at(0), weft_indices(idx)).
 * Axes without an item are kept whole. Index arrays, and integers beside them, are broadcast
 * together to (I...); these axes replace those of the arrays if they are adjacent, else they are
 * the first axes of the result. Without index arrays the result is a view. For masks use weft_where
 * and weft_masked_scatter. */
WEFT_API weft_array *weft_index(weft_array *x, const weft_index_item *items, int n);
/* x with x[items] set to values, which are broadcast to its shape; of several values for one
 * element the last is stored. The others add, multiply, or take the larger or smaller element, and
 * use all values. */
WEFT_API weft_array *weft_index_update(weft_array *x, const weft_index_item *items, int n,
                                       weft_array *values);
WEFT_API weft_array *weft_index_add(weft_array *x, const weft_index_item *items, int n,
                                    weft_array *values);
WEFT_API weft_array *weft_index_multiply(weft_array *x, const weft_index_item *items, int n,
                                         weft_array *values);
WEFT_API weft_array *weft_index_maximum(weft_array *x, const weft_index_item *items, int n,
                                        weft_array *values);
WEFT_API weft_array *weft_index_minimum(weft_array *x, const weft_index_item *items, int n,
                                        weft_array *values);

#ifndef __cplusplus
#define WEFT_INDEX(x, ...)                                                                         \
    weft_index((x), (const weft_index_item[]){__VA_ARGS__},                                        \
               (int)(sizeof((const weft_index_item[]){__VA_ARGS__}) / sizeof(weft_index_item)))
#endif

/* ---- Indices out of range ------------------------------------------------------------------- */

/* Indices in range for an axis of `length`, at least 1: clipped to [0, length - 1], or taken modulo
 * the length. The shape is that of `indices`; the dtype is int32 if the length allows, else int64.
 */
WEFT_API weft_array *weft_clip_indices(weft_array *indices, int64_t length);
WEFT_API weft_array *weft_wrap_indices(weft_array *indices, int64_t length);

/* Whether kernels look for indices out of range (the default), in all threads, when they run.
 * Without, such an index means the nearest element on the CPU (an empty axis still fails); on other
 * devices nothing changes: they find it out as they read. What the look costs: docs/performance.md.
 */
WEFT_API void weft_set_index_checks(bool on);
WEFT_API bool weft_index_checks(void);

#ifdef __cplusplus
}

/* WEFT_INDEX in C++17. */
inline weft_array *weft_index_list(weft_array *x, std::initializer_list<weft_index_item> items)
{
    return weft_index(x, items.begin(), static_cast<int>(items.size()));
}
#define WEFT_INDEX(x, ...) weft_index_list((x), {__VA_ARGS__})
#endif
#endif
