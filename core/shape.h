/* core/shape.h -- arithmetic on shapes, axes and strides. */
#ifndef CORE_SHAPE_H
#define CORE_SHAPE_H

#include "weft/op.h"

enum { WEFT_SHAPE_TEXT = 160 };

/* Writes "(2, 3)" to `out` and returns `out`, so that it can be used as an argument. */
const char *weft__shape_text(const weft_dims *shape, char out[WEFT_SHAPE_TEXT]);

/* The functions below accept lists from callers with more than WEFT_MAX_DIMS numbers: they have no
 * size, differ from all others and broadcast with none. */

/* The product of the dims: 1 for rank 0; -1 when it overflows int64. */
int64_t weft__shape_size(const weft_dims *shape);

bool weft__shape_equal(const weft_dims *a, const weft_dims *b);

/* NumPy's broadcasting; false when the shapes are incompatible. */
bool weft__shape_broadcast(const weft_dims *a, const weft_dims *b, weft_dims *out);

/* Row-major strides in elements. */
void weft__strides_contiguous(const weft_dims *shape, int64_t *strides);

/* `axis` counted from the front, or -1 when it is out of range. */
int weft__axis_front(int64_t axis, int ndim);

/* Axes in the form that ops store: counted from the end (-1 is the last), ascending, distinct. n =
 * -1 means all. False, with the reason, when one is out of range or duplicate. */
bool weft__axes_from_end(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why);

#endif
