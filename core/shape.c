/* core/shape.c -- arithmetic on shapes, axes and strides. */
#include "core/shape.h"

#include <stdio.h>

const char *weft__shape_text(const weft_dims *shape, char out[WEFT_SHAPE_TEXT])
{
    if (shape->n > WEFT_MAX_DIMS) {
        snprintf(out, WEFT_SHAPE_TEXT, "(%d axes)", shape->n);
        return out;
    }
    size_t length = (size_t)snprintf(out, WEFT_SHAPE_TEXT, "(");
    for (int i = 0; i < shape->n && length < WEFT_SHAPE_TEXT; i++) {
        length += (size_t)snprintf(out + length, WEFT_SHAPE_TEXT - length, "%s%lld", i ? ", " : "",
                                   (long long)shape->at[i]);
    }
    if (length < WEFT_SHAPE_TEXT) {
        snprintf(out + length, WEFT_SHAPE_TEXT - length, "%s)", shape->n == 1 ? "," : "");
    }
    return out;
}

int64_t weft__shape_size(const weft_dims *shape)
{
    int64_t size = 1;
    bool empty = false;
    if (shape->n > WEFT_MAX_DIMS) {
        return -1;
    }
    for (int i = 0; i < shape->n; i++) {
        if (shape->at[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(size, shape->at[i], &size)) {
            return -1;
        }
    }
    return empty ? 0 : size;
}

bool weft__shape_equal(const weft_dims *a, const weft_dims *b)
{
    if (a->n != b->n || a->n > WEFT_MAX_DIMS) {
        return false;
    }
    for (int i = 0; i < a->n; i++) {
        if (a->at[i] != b->at[i]) {
            return false;
        }
    }
    return true;
}

bool weft__shape_broadcast(const weft_dims *a, const weft_dims *b, weft_dims *out)
{
    weft_dims result = {.n = a->n > b->n ? a->n : b->n};
    if (result.n > WEFT_MAX_DIMS) {
        return false;
    }
    for (int i = 1; i <= result.n; i++) {
        int64_t da = i <= a->n ? a->at[a->n - i] : 1;
        int64_t db = i <= b->n ? b->at[b->n - i] : 1;
        if (da != db && da != 1 && db != 1) {
            return false;
        }
        result.at[result.n - i] = da == 1 ? db : da;
    }
    *out = result;
    return true;
}

bool weft_broadcast_shapes(const weft_dims *shapes, int n, weft_dims *out)
{
    weft_dims all = {0};
    for (int i = 0; i < n; i++) {
        if (!weft__shape_broadcast(&all, &shapes[i], &all)) {
            return false;
        }
    }
    *out = all;
    return true;
}

void weft__strides_contiguous(const weft_dims *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = shape->n - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->at[i];
    }
}

int weft__axis_front(int64_t axis, int ndim)
{
    if (axis < 0) {
        axis += ndim;
    }
    return axis >= 0 && axis < ndim ? (int)axis : -1;
}

bool weft__axes_from_end(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why)
{
    bool named[WEFT_MAX_DIMS] = {false};
    if (axes->n > WEFT_MAX_DIMS) {
        return weft_because(why, "expected at most %d axes, got %d", WEFT_MAX_DIMS, axes->n);
    }
    for (int i = 0; i < axes->n; i++) {
        int front = weft__axis_front(axes->at[i], ndim);
        if (front < 0) {
            return weft_because(why, "axis %lld is out of range for rank %d",
                                (long long)axes->at[i], ndim);
        }
        if (named[front]) {
            return weft_because(why, "axis %lld is named twice", (long long)axes->at[i]);
        }
        named[front] = true;
    }
    weft_dims result = {0};
    for (int i = 0; i < ndim; i++) {
        if (axes->n < 0 || named[i]) {
            result.at[result.n++] = i - ndim;
        }
    }
    *out = result;
    return true;
}
