/* ops/elementwise/complex.c -- real and imaginary parts, conjugate and magnitude. */
#include "ops/elementwise/elementwise.h"

enum { NO_TEST_BUT_COMPLEX = NO_TEST_FLOATS | NO_TEST_WHOLE };

/* Infers ops from complex64 to float32. */
static bool measure_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (input_dtype(node, 0) != WEFT_COMPLEX64) {
        return weft_because(why, "expected complex64, got %s",
                            weft_dtype_name(input_dtype(node, 0)));
    }
    out[0] = (weft_spec){.dtype = WEFT_FLOAT32, .shape = input_shape(node, 0)};
    return true;
}

static weft_array *times_i(weft_array *x)
{
    static const weft_complex64 i = {0, 1};
    return weft_multiply(x, weft_from_data(&i, WEFT_COMPLEX64, (weft_dims){0}));
}

/* ---- magnitude ------------------------------------------------------------------------------ */

static void complex_abs_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = weft_multiply(cts[0], weft_sign(operand(node, 0)));
    }
}

static void complex_abs_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    weft_array *along = weft_conjugate(weft_sign(operand(node, 0)));
    out[0] = weft_real(weft_multiply(along, tangents[0]));
}

const weft_op weft_op_complex_abs = {
    .name = "complex_abs",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .infer = measure_infer,
    .formula = {.complex_ = "abs(a)"},
    .vjp = complex_abs_vjp,
    .jvp = complex_abs_jvp,
    .takes_leading_axis = true,
    .no_test_dtypes = NO_TEST_BUT_COMPLEX,
};

/* ---- parts ---------------------------------------------------------------------------------- */

static void imag_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = times_i(cts[0]);
    }
}

const weft_op weft_op_imag = {
    .name = "imag",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .infer = measure_infer,
    .formula = {.complex_ = "imag(a)"},
    .vjp = imag_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .no_test_dtypes = NO_TEST_BUT_COMPLEX,
};

weft_array *weft_imag(weft_array *x)
{
    if (weft_ok(x) && weft_dtype_of(x) != WEFT_COMPLEX64) {
        return weft_zeros_like(x);
    }
    return weft_apply(&weft_op_imag, &x, 1, NULL);
}

weft_array *weft_real(weft_array *x)
{
    bool is_complex = weft_ok(x) && weft_dtype_of(x) == WEFT_COMPLEX64;
    return is_complex ? weft_astype(x, WEFT_FLOAT32) : x;
}

static void join_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = weft_real(cts[0]);
    }
    if (wanted[1]) {
        grads[1] = weft_imag(cts[0]);
    }
}

/* The parts are inputs as complex numbers, whose imaginary parts are ignored. */
const weft_op weft_op_join = {
    .name = "join",
    .family = WEFT_ELEMENTWISE,
    .arity = 2,
    .formula = {.complex_ = "join(a, b)"},
    .vjp = join_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .no_test_dtypes = NO_TEST_BUT_COMPLEX,
};

weft_array *weft_complex(weft_array *re, weft_array *im)
{
    weft_scope_open();
    if (weft_ok(re) && weft_ok(im) &&
        (weft_dtype_of(re) == WEFT_COMPLEX64 || weft_dtype_of(im) == WEFT_COMPLEX64)) {
        return weft_scope_close(weft_error_array("complex: expected real parts, got %s and %s",
                                                 weft_dtype_name(weft_dtype_of(re)),
                                                 weft_dtype_name(weft_dtype_of(im))));
    }
    return weft_scope_close(elementwise2(&weft_op_join, weft_astype(re, WEFT_COMPLEX64),
                                         weft_astype(im, WEFT_COMPLEX64)));
}

/* ---- conjugate ------------------------------------------------------------------------------ */

static void conjugate_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                          weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = weft_conjugate(cts[0]);
    }
}

const weft_op weft_op_conjugate = {
    .name = "conjugate",
    .family = WEFT_ELEMENTWISE,
    .arity = 1,
    .formula = {.complex_ = "conj(a)"},
    .vjp = conjugate_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .no_test_dtypes = NO_TEST_BUT_COMPLEX,
};

weft_array *weft_conjugate(weft_array *x)
{
    bool is_complex = weft_ok(x) && weft_dtype_of(x) == WEFT_COMPLEX64;
    return is_complex ? elementwise1(&weft_op_conjugate, x) : x;
}
