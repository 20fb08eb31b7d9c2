/* weft/indexing.h -- elements at places that an array of integers says.
 *
 * Indices are integers of any dtype; negative ones count from the end. One that is out of range
 * fails the evaluation, which names op, index and length (weft_set_index_checks);
 * weft_clip_indices and weft_wrap_indices make indices that cannot be. Indices get no gradient.
 * Common rules: ops.h.
 */
#ifndef WEFT_INDEXING_H
#define WEFT_INDEXING_H

#include "weft/array.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* x with `axis` replaced by the shape of `indices` (integers; negative count from the end). */
WEFT_API weft_array *weft_take(weft_array *x, weft_array *indices, int axis);
/* out[..., i, ...] = x[..., indices[..., i, ...], ...]; equal shapes off the axis. */
WEFT_API weft_array *weft_take_along_axis(weft_array *x, weft_array *indices, int axis);
/* x plus values at indices along the axis; repeated indices add up, in index order. */
WEFT_API weft_array *weft_scatter_add_along_axis(weft_array *x, weft_array *indices,
                                                 weft_array *values, int axis);
/* x with the values put at indices along the axis; the last of repeated indices counts. The shapes
 * of indices and values are equal. */
WEFT_API weft_array *weft_put_along_axis(weft_array *x, weft_array *indices, weft_array *values,
                                         int axis);
/* weft_take from x's elements in row-major order. */
WEFT_API weft_array *weft_take_flat(weft_array *x, weft_array *indices);
/* Rows of table (V, E) at ids (...): (..., E). */
WEFT_API weft_array *weft_embedding(weft_array *table, weft_array *ids);

/* ---- Several axes at once, as MLX has them -------------------------------------------------- */

/* indices[i], of shapes that broadcast to (I...), has places on axes[i]; at each begins a slice of
 * slice_sizes, which names every axis of x; slices begin at 0 on the axes without indices. Result:
 * (I..., slice_sizes...). */
WEFT_API weft_array *weft_gather(weft_array *x, weft_array *const *indices, int n, weft_dims axes,
                                 weft_dims slice_sizes);
/* x with updates (I..., slice sizes...) at such places: put there (the last of repeated ones
 * counts, in row-major order), added, multiplied, or the extreme of what is there and what comes.
 * Elements that tie in an extreme share its gradient evenly. The order does not depend on threads.
 * scatter_prod has exact first and second derivatives where factors are 0. Complex numbers compare
 * as in weft/reduce.h. */
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
/* x where the mask (which broadcasts to x) is false, and where it is true the elements of `values`,
 * one after the other in row-major order. `values` must have as many. */
WEFT_API weft_array *weft_masked_scatter(weft_array *x, weft_array *mask, weft_array *values);

/* ---- NumPy's expressions -------------------------------------------------------------------- */

typedef enum weft_index_kind {
    WEFT_INDEX_INTEGER,  /* start: that place; the axis goes */
    WEFT_INDEX_SLICE,    /* start:stop:step */
    WEFT_INDEX_NEWAXIS,  /* an axis of 1 */
    WEFT_INDEX_ELLIPSIS, /* the axes that no other item names, once */
    WEFT_INDEX_ARRAY     /* places by an array of integers */
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

static inline weft_index_item weft_places(weft_array *indices)
{
    weft_index_item item = {WEFT_INDEX_ARRAY, 0, 0, 1, indices};
    return item;
}

/* x[items]: x[:, 0, idx] is weft_index(x, items, 3) of {weft_every(), weft_at(0),
 * weft_places(idx)}, or WEFT_INDEX(x, weft_every(), weft_at(0), weft_places(idx)). Axes that are
 * not named are taken whole. Arrays broadcast together (I...), integers beside arrays with them;
 * their axes become (I...) where they stand if they stand side by side, and in front of everything
 * if not. Without arrays the result is a view. Masks: weft_where, weft_masked_scatter. */
WEFT_API weft_array *weft_index(weft_array *x, const weft_index_item *items, int n);
/* x with values, which broadcast to the shape of x[items], put there, added, multiplied, or the
 * extremes of both; of several values for one place each counts, and of those put there the last.
 */
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

/* Indices for an axis of `length` (1 or more) from any: those below 0 become 0 and those past the
 * end the last one; or all are taken modulo the length. int32 where the length allows, else int64.
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
