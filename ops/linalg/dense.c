/* ops/linalg/dense.c -- complex float64 matrices for the reference kernels. */
#include <math.h>

#include "ops/linalg/linalg.h"

int64_t weft__batches(const weft_tensor *t, int core)
{
    int64_t n = 1;
    for (int i = 0; i < t->shape.n - core; i++) {
        n *= t->shape.at[i];
    }
    return n;
}

int64_t weft__rows_of(const weft_tensor *t)
{
    return t->shape.at[t->shape.n - 2];
}

int64_t weft__columns_of(const weft_tensor *t)
{
    return t->shape.at[t->shape.n - 1];
}

void weft__load(const weft_tensor *t, int64_t first, int64_t n, number *out)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == WEFT_COMPLEX64) {
            const weft_complex64 *z =
                (const weft_complex64 *)t->data + weft_tensor_offset(t, first + i);
            out[i] = CMPLX(z->re, z->im);
        } else {
            out[i] = weft_tensor_get(t, first + i);
        }
    }
}

void weft__store(const weft_tensor *t, int64_t first, int64_t n, const number *in)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == WEFT_COMPLEX64) {
            weft_complex64 *z = (weft_complex64 *)t->data + weft_tensor_offset(t, first + i);
            *z = (weft_complex64){(float)creal(in[i]), (float)cimag(in[i])};
        } else {
            weft_tensor_set(t, first + i, creal(in[i]));
        }
    }
}

void weft__store_nan(const weft_tensor *t, int64_t first, int64_t n)
{
    number nan = CMPLX(NAN, t->dtype == WEFT_COMPLEX64 ? NAN : 0);
    for (int64_t i = 0; i < n; i++) {
        weft__store(t, first + i, 1, &nan);
    }
}

bool weft__all_finite(const number *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(creal(x[i])) || !isfinite(cimag(x[i]))) {
            return false;
        }
    }
    return true;
}

number *weft__room(const weft_call *call, int64_t n)
{
    number *room = weft_malloc((size_t)(n + 1) * sizeof *room);
    if (!room) {
        weft_fail(WEFT_MEMORY, "%s: out of memory for %lld numbers", call->op->name, (long long)n);
    }
    return room;
}

void weft__adjoint_of(const number *a, int64_t rows, int64_t columns, number *out)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            out[j * rows + i] = conj(a[i * columns + j]);
        }
    }
}

number weft__fix_phase(number *x, int64_t n, int64_t step)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, cabs(x[i * step]));
    }
    int64_t at = 0;
    while (at < n && !(cabs(x[at * step]) >= 0.999 * largest)) {
        at++;
    }
    if (at == n || largest == 0) {
        return 1;
    }
    number factor = conj(x[at * step]) / cabs(x[at * step]);
    for (int64_t i = 0; i < n; i++) {
        x[i * step] *= factor;
    }
    return factor;
}

void weft__substitute(const number *a, int64_t n, bool upper, bool unit, number *x, int64_t k)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t i = upper ? n - 1 - step : step;
        int64_t from = upper ? i + 1 : 0, to = upper ? n : i;
        for (int64_t c = 0; c < k; c++) {
            number sum = x[i * k + c];
            for (int64_t j = from; j < to; j++) {
                sum -= a[i * n + j] * x[j * k + c];
            }
            x[i * k + c] = unit ? sum : sum / a[i * n + i];
        }
    }
}

/* ---- infer ---------------------------------------------------------------------------------- */

bool weft__expect_matrix(const weft_array *node, int i, weft_why *why)
{
    weft_dtype dtype = input_dtype(node, i);
    weft_dims shape = input_shape(node, i);
    char text[WEFT_SHAPE_TEXT];
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT64 && dtype != WEFT_COMPLEX64) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    if (shape.n < 2) {
        return weft_because(why, "expected (..., M, N), got %s", weft__shape_text(&shape, text));
    }
    if (shape.at[shape.n - 1] > INT32_MAX || shape.at[shape.n - 2] > INT32_MAX) {
        return weft_because(why, "a matrix of %s is too large", weft__shape_text(&shape, text));
    }
    return true;
}

bool weft__expect_square(const weft_array *node, int i, weft_why *why)
{
    weft_dims shape = input_shape(node, i);
    char text[WEFT_SHAPE_TEXT];
    if (!weft__expect_matrix(node, i, why)) {
        return false;
    }
    return shape.at[shape.n - 1] == shape.at[shape.n - 2] ||
           weft_because(why, "expected square matrices (..., N, N), got %s",
                        weft__shape_text(&shape, text));
}

weft_dims weft__with_core(const weft_dims *shape, int64_t rows, int64_t columns)
{
    weft_dims out = *shape;
    out.at[out.n - 2] = rows;
    if (columns < 0) {
        out.n--;
    } else {
        out.at[out.n - 1] = columns;
    }
    return out;
}

weft_dtype weft__real_dtype(weft_dtype dtype)
{
    return dtype == WEFT_COMPLEX64 ? WEFT_FLOAT32 : dtype;
}
