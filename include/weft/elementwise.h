/* weft/elementwise.h -- functions of each element by itself.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_ELEMENTWISE_H
#define WEFT_ELEMENTWISE_H

#include "weft/array.h"

/* Complex numbers. Functions have the branch cuts of C99 and NumPy; comparisons, maximum and
 * minimum go by the real parts, equal ones by the imaginary parts. Gradients of a real loss L are
 * dL/d(re z) + i dL/d(im z): a cotangent is multiplied by the conjugate of the slope.
 *
 * Where a function has no derivative, gradients are: 0 for abs and sign at 0, a half to each
 * operand for maximum and minimum of equal numbers, 0 for relu at 0, and 0 for what is piecewise
 * constant (floor, round, sign, comparisons). */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise: one input ----------------------------------------------------------------- */

WEFT_API weft_array *weft_positive(weft_array *x); /* x */
WEFT_API weft_array *weft_negative(weft_array *x);
WEFT_API weft_array *weft_abs(weft_array *x);  /* complex64: float32 magnitude */
WEFT_API weft_array *weft_sign(weft_array *x); /* complex64: x / |x| */
WEFT_API weft_array *weft_square(weft_array *x);
WEFT_API weft_array *weft_sqrt(weft_array *x);
WEFT_API weft_array *weft_rsqrt(weft_array *x);
WEFT_API weft_array *weft_reciprocal(weft_array *x);
WEFT_API weft_array *weft_exp(weft_array *x);
WEFT_API weft_array *weft_expm1(weft_array *x);
WEFT_API weft_array *weft_log(weft_array *x);
WEFT_API weft_array *weft_log1p(weft_array *x);
WEFT_API weft_array *weft_log2(weft_array *x);
WEFT_API weft_array *weft_log10(weft_array *x);
WEFT_API weft_array *weft_sin(weft_array *x);
WEFT_API weft_array *weft_cos(weft_array *x);
WEFT_API weft_array *weft_tan(weft_array *x);
WEFT_API weft_array *weft_arcsin(weft_array *x);
WEFT_API weft_array *weft_arccos(weft_array *x);
WEFT_API weft_array *weft_arctan(weft_array *x);
WEFT_API weft_array *weft_sinh(weft_array *x);
WEFT_API weft_array *weft_cosh(weft_array *x);
WEFT_API weft_array *weft_tanh(weft_array *x);
WEFT_API weft_array *weft_arcsinh(weft_array *x);
WEFT_API weft_array *weft_arccosh(weft_array *x);
WEFT_API weft_array *weft_arctanh(weft_array *x);
WEFT_API weft_array *weft_degrees(weft_array *x); /* of radians */
WEFT_API weft_array *weft_radians(weft_array *x); /* of degrees */
WEFT_API weft_array *weft_erf(weft_array *x);
WEFT_API weft_array *weft_erfinv(weft_array *x);
WEFT_API weft_array *weft_sigmoid(weft_array *x);
WEFT_API weft_array *weft_softplus(weft_array *x);
WEFT_API weft_array *weft_relu(weft_array *x);
WEFT_API weft_array *weft_silu(weft_array *x);      /* x sigmoid(x) */
WEFT_API weft_array *weft_gelu(weft_array *x);      /* x (1 + erf(x / sqrt 2)) / 2 */
WEFT_API weft_array *weft_gelu_tanh(weft_array *x); /* Hendrycks & Gimpel's tanh form */
WEFT_API weft_array *weft_floor(weft_array *x);     /* these four: integers unchanged */
WEFT_API weft_array *weft_ceil(weft_array *x);
WEFT_API weft_array *weft_round(weft_array *x); /* half to even */
WEFT_API weft_array *weft_trunc(weft_array *x);
/* To so many decimals: round(x 10^d) / 10^d, negative ones before the point; integers exactly. */
WEFT_API weft_array *weft_round_decimals(weft_array *x, int decimals);
WEFT_API weft_array *weft_isnan(weft_array *x); /* these six: bool */
WEFT_API weft_array *weft_isinf(weft_array *x);
WEFT_API weft_array *weft_isfinite(weft_array *x);
WEFT_API weft_array *weft_isposinf(weft_array *x);
WEFT_API weft_array *weft_isneginf(weft_array *x);
WEFT_API weft_array *weft_logical_not(weft_array *x);
WEFT_API weft_array *weft_bitwise_invert(weft_array *x);

/* NaN becomes `nan`, infinities *posinf and *neginf, or where these are NULL the largest and the
 * lowest number of the dtype. NULL options: all zero. Complex numbers by their parts. */
typedef struct weft_nan_to_num_options {
    double nan;
    const double *posinf, *neginf;
} weft_nan_to_num_options;
WEFT_API weft_array *weft_nan_to_num(weft_array *x, const weft_nan_to_num_options *options);

/* The parts of complex64 as float32, and a complex64 of two real arrays. Of a real array: itself,
 * zeros, itself. */
WEFT_API weft_array *weft_real(weft_array *x);
WEFT_API weft_array *weft_imag(weft_array *x);
WEFT_API weft_array *weft_conjugate(weft_array *x);
WEFT_API weft_array *weft_complex(weft_array *re, weft_array *im);

/* Conversion. Float to integer saturates and NaN gives 0; to bool is x != 0; complex drops the
 * imaginary part. */
WEFT_API weft_array *weft_astype(weft_array *x, weft_dtype dtype);

/* ---- Elementwise: two and three inputs ------------------------------------------------------ */

WEFT_API weft_array *weft_add(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_subtract(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_multiply(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_divide(weft_array *a, weft_array *b); /* integers divide as float32 */
/* The floor of the exact quotient of floats below 2^23 (float64: 2^52), as in NumPy: 1 over 0.1 is
 * 9. Integers round down too; x / 0 is 0. */
WEFT_API weft_array *weft_floor_divide(weft_array *a, weft_array *b);
/* a - b floor(a / b), exact: it has the sign of b. Integers: x % 0 is 0. */
WEFT_API weft_array *weft_remainder(weft_array *a, weft_array *b);
/* Both of the two above. */
WEFT_API void weft_divmod(weft_array *a, weft_array *b, weft_array **quotient,
                          weft_array **remainder) WEFT_NONNULL(3, 4);
WEFT_API weft_array *weft_power(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_maximum(weft_array *a, weft_array *b); /* NaN wins */
WEFT_API weft_array *weft_minimum(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_arctan2(weft_array *y, weft_array *x);
WEFT_API weft_array *weft_logaddexp(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_equal(weft_array *a, weft_array *b); /* comparisons: bool */
WEFT_API weft_array *weft_not_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_xor(weft_array *a, weft_array *b);
/* |a - b| <= atol + rtol |b|, or a == b; bool. NumPy's defaults: 1e-5, 1e-8, false. In float32
 * at least. */
WEFT_API weft_array *weft_isclose(weft_array *a, weft_array *b, double rtol, double atol,
                                  bool equal_nan);
WEFT_API weft_array *weft_bitwise_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_xor(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_left_shift(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_right_shift(weft_array *a, weft_array *b);
/* condition ? a : b; condition is taken as bool. */
WEFT_API weft_array *weft_where(weft_array *condition, weft_array *a, weft_array *b);
WEFT_API weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high); /* NULL: open */
/* The gates of gated MLPs: silu(gate) up, and gelu_tanh(gate) up. */
WEFT_API weft_array *weft_swiglu(weft_array *gate, weft_array *up);
WEFT_API weft_array *weft_geglu(weft_array *gate, weft_array *up);

/* With a weak scalar: the result has x's dtype if x is a float (or float32 if x is an integer and
 * the value has a fraction). Comparisons: bool. */
WEFT_API weft_array *weft_add_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_scalar_subtract(double value, weft_array *x); /* value - x */
WEFT_API weft_array *weft_scale(weft_array *x, double value);
WEFT_API weft_array *weft_divide_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_scalar_divide(double value, weft_array *x); /* value / x */
WEFT_API weft_array *weft_floor_divide_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_remainder_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_power_scalar(weft_array *x, double exponent);
WEFT_API weft_array *weft_maximum_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_minimum_scalar(weft_array *x, double value);
/* An infinite end is open. */
WEFT_API weft_array *weft_clip_scalar(weft_array *x, double low, double high);
WEFT_API weft_array *weft_equal_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_not_equal_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_less_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_less_equal_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_greater_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_greater_equal_scalar(weft_array *x, double value);
/* condition ? x : value */
WEFT_API weft_array *weft_where_scalar(weft_array *condition, weft_array *x, double value);
/* cap tanh(x / cap) */
WEFT_API weft_array *weft_softcap(weft_array *x, double cap);

#ifdef __cplusplus
}
#endif
#endif
