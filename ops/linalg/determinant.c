/* ops/linalg/determinant.c -- determinants, and sign and logarithm of determinants. */
#include <math.h>

#include "ops/linalg/linalg.h"

/* The product of U's diagonal as a sign (of magnitude 1, or 0) and a logarithm. */
static void of_factors(const number *a, int64_t n, const int64_t *pivots, number *sign,
                       double *logarithm)
{
    *sign = 1;
    *logarithm = 0;
    for (int64_t i = 0; i < n; i++) {
        number d = a[i * n + i];
        double size = cabs(d);
        *sign *= size == 0 ? 0 : d / size * (pivots[i] == i ? 1 : -1);
        *logarithm += log(size);
    }
}

static weft_status reference(const weft_call *call, bool logarithmic)
{
    const weft_tensor *in = &call->in[0];
    int64_t n = weft__columns_of(in);
    number *a = weft__room(call, n * n + n);
    if (!a) {
        return WEFT_MEMORY;
    }
    int64_t *pivots = (int64_t *)(void *)(a + n * n);
    for (int64_t b = 0; b < weft__batches(in, 2); b++) {
        number sign = CMPLX(NAN, NAN), size = NAN;
        double logarithm = NAN;
        weft__load(in, b * n * n, n * n, a);
        if (weft__all_finite(a, n * n)) {
            weft__lu(a, n, n, pivots);
            of_factors(a, n, pivots, &sign, &logarithm);
        }
        if (logarithmic) {
            size = logarithm;
            weft__store(&call->out[1], b, 1, &size);
        } else if (isfinite(creal(sign))) {
            sign = sign == 0 ? 0 : sign * exp(logarithm);
        }
        weft__store(&call->out[0], b, 1, &sign);
    }
    weft_free(a);
    return WEFT_OK;
}

static weft_status det_reference(const weft_call *call)
{
    return reference(call, false);
}

static weft_status slogdet_reference(const weft_call *call)
{
    return reference(call, true);
}

/* ---- derivatives ---------------------------------------------------------------------------- */

static weft_array *times_inverse(weft_array *scalars, weft_array *a)
{
    weft_array *factor = weft_expand_dims(weft_expand_dims(scalars, -1), -1);
    return weft_multiply(factor, weft__adjoint(weft_inv(a)));
}

/* d det(A) = det(A) tr(A^{-1} dA) (Jacobi) */
static void det_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = times_inverse(weft_multiply(cts[0], weft__conj(node)), weft_node_input(node, 0));
    }
}

/* d log|det A| is the real part of tr(A^{-1} dA). A real sign is constant; a complex one rotates by
 * the imaginary part. */
static void slogdet_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                        weft_array **grads)
{
    weft_array *a = weft_node_input(node, 0), *scalars = cts[1];
    if (!wanted[0]) {
        return;
    }
    if (weft_dtype_of(a) == WEFT_COMPLEX64) {
        scalars = scalars ? weft_astype(scalars, WEFT_COMPLEX64) : NULL;
        if (cts[0]) {
            weft_array *turn = weft_multiply(cts[0], weft__conj(weft_pick(node, 0)));
            weft_array *real = weft_astype(weft__real_part(turn), WEFT_COMPLEX64);
            scalars = weft__plus(scalars, weft_subtract(turn, real));
        }
    }
    grads[0] = scalars ? times_inverse(scalars, a) : NULL;
}

/* ---- the ops -------------------------------------------------------------------------------- */

static bool det_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape = input_shape(node, 0);
    shape.n = shape.n < 2 ? shape.n : shape.n - 2;
    return weft__expect_square(node, 0, why) && set_spec(out, input_dtype(node, 0), &shape);
}

static bool slogdet_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    return det_infer(node, out, why) &&
           set_spec(&out[1], weft__real_dtype(out[0].dtype), &out[0].shape);
}

static const weft_case cases[] = {
    {.name = "batch", .n_inputs = 1, .in = {{.shape = DIMS(3, 4, 4)}}},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(1, 1)}}},
    {.name = "none", .n_inputs = 1, .in = {{.shape = DIMS(0, 3, 3)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(2, 0, 0)}}},
};

const weft_op weft_op_det = {
    .name = "det",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = det_infer,
    .vjp = det_vjp,
    .takes_leading_axis = true,
    .reference = det_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-18, /* conditioning */
};

const weft_op weft_op_slogdet = {
    .name = "slogdet",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .n_outputs = 2,
    .infer = slogdet_infer,
    .vjp = slogdet_vjp,
    .takes_leading_axis = true,
    .reference = slogdet_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = NOT_MATRIX_DTYPES,
    .tolerance = 0x1p-18, /* conditioning */
};

weft_array *weft_det(weft_array *a)
{
    weft_scope_open();
    return weft_scope_close(
        weft__as_given(apply1(&weft_op_det, weft__matrix("det", a, true), NULL), a));
}

void weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm)
{
    weft_scope_open();
    weft_array *node = apply1(&weft_op_slogdet, weft__matrix("slogdet", a, true), NULL);
    *sign = weft__as_given(weft_pick(node, 0), a);
    *logarithm = weft__as_given(weft_pick(node, 1), a);
    close_with(sign, logarithm);
}
