/* ops/kernel.c -- checks of axes and indices for infer functions and reference kernels. */
#include <math.h>

#include "ops/kernel.h"

const weft_field weft__axis_fields[] = {
    WEFT_FIELD(INT, weft_axis_params, axis),
    WEFT_FIELD(BOOL, weft_axis_params, keepdims),
    WEFT_FIELDS_END,
};

static int front_of(int64_t axis, int ndim, weft_why *why)
{
    int front = weft__axis_front(axis, ndim);
    if (front < 0) {
        weft_because(why, "axis %lld is out of range for rank %d", (long long)axis, ndim);
    }
    return front;
}

static bool from_end(int64_t axis, weft_why *why)
{
    return axis < 0 ||
           weft_because(why, "axis %lld: parameters count axes from the end", (long long)axis);
}

int weft__check_axis(int64_t axis, int ndim, weft_why *why)
{
    return from_end(axis, why) ? front_of(axis, ndim, why) : -1;
}

bool weft__expect_indices(const weft_array *node, int i, weft_why *why)
{
    const weft_dtype dtype = input_dtype(node, i);
    return weft_dtype_is_integer(dtype) ||
           weft_because(why, "indices: expected integers, got %s", weft_dtype_name(dtype));
}

bool weft__list_fits(const char *op, const weft_dims *list, weft_array **failed)
{
    const bool fits = list->n <= WEFT_MAX_DIMS;
    *failed = fits ? NULL
                   : weft_error_array("%s: expected at most %d numbers, got %d", op, WEFT_MAX_DIMS,
                                      list->n);
    return fits;
}

bool weft__axis_from_end(const char *op, weft_array *x, int64_t axis, int64_t *out,
                         weft_array **failed)
{
    if (!weft_ok(x)) {
        *failed = x;
        return false;
    }
    weft_why why;
    int front = front_of(axis, weft_ndim(x), &why);
    if (front < 0) {
        *failed = weft_error_array("%s: %s", op, why.text);
        return false;
    }
    *out = front - weft_ndim(x);
    return true;
}

bool weft__axes_in_order(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why)
{
    weft_dims sorted;
    if (axes->n < 0 || axes->n > ndim) {
        return weft_because(why, "%d axes for rank %d", axes->n, ndim);
    }
    if (!weft__axes_from_end(axes, ndim, &sorted, why)) {
        return false;
    }
    *out = *axes;
    for (int i = 0; i < axes->n; i++) {
        out->at[i] = weft__axis_front(axes->at[i], ndim) - ndim;
    }
    return true;
}

bool weft__check_axes(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why)
{
    for (int i = 0; i < axes->n; i++) {
        if (!from_end(axes->at[i], why)) {
            return false;
        }
    }
    return weft__axes_in_order(axes, ndim, out, why);
}

weft_status weft__index_at(const weft_call *call, const weft_tensor *indices, int64_t i,
                           int64_t length, int64_t *out)
{
    int64_t index = weft_tensor_get_int(indices, i);
    int64_t wrapped = index < 0 && indices->dtype != WEFT_UINT64 ? index + length : index;
    if ((wrapped < 0 || wrapped >= length) && length > 0 && !weft_index_checks()) {
        wrapped = wrapped < 0 ? 0 : length - 1;
    }
    if (wrapped < 0 || wrapped >= length) {
        return weft_fail(WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                         call->op->name, (long long)index, (long long)length);
    }
    *out = wrapped;
    return WEFT_OK;
}

static bool complex_sorts_before(const weft_tensor *s, int64_t a, const weft_tensor *t, int64_t b)
{
    double x[2], y[2];
    get_complex(s, a, &x[0], &x[1]);
    get_complex(t, b, &y[0], &y[1]);
    if (isnan(x[0]) || isnan(x[1])) {
        return false;
    }
    return isnan(y[0]) || isnan(y[1]) || x[0] < y[0] || (x[0] == y[0] && x[1] < y[1]);
}

bool weft__sorts_before(const weft_tensor *s, int64_t a, const weft_tensor *t, int64_t b)
{
    if (t->dtype == WEFT_COMPLEX64) {
        return complex_sorts_before(s, a, t, b);
    }
    if (weft_dtype_is_float(t->dtype)) {
        double x = weft_tensor_get(s, a), y = weft_tensor_get(t, b);
        return x < y || (isnan(y) && !isnan(x));
    }
    int64_t x = weft_tensor_get_int(s, a), y = weft_tensor_get_int(t, b);
    return t->dtype == WEFT_UINT64 ? (uint64_t)x < (uint64_t)y : x < y;
}

weft_array *weft__zeros_on_device_of(weft_array *like, weft_dims shape, weft_dtype dtype)
{
    return weft_to(weft_zeros(shape, dtype), weft_device_of(like));
}
