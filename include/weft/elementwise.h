/* weft/elementwise.h -- elementwise functions.
 *
 * Shapes: a function of one array keeps its shape; functions of several arrays broadcast them.
 * Dtypes: the result has the promoted dtype of the inputs, unless a comment says otherwise;
 * functions of real numbers (square roots, exponentials, logarithms, trigonometric and hyperbolic
 * functions, erf, sigmoid and the like) convert integers and bool to float32. Further rules: ops.h.
 */
#ifndef WEFT_ELEMENTWISE_H
#define WEFT_ELEMENTWISE_H

#include "weft/array.h"

/* Complex numbers: functions have the branch cuts of C99 and NumPy. Comparisons, maximum and
 * minimum compare the real parts and, where these are equal, the imaginary parts. The gradient of a
 * real loss L is dL/d(re z) + i dL/d(im z): a cotangent is multiplied by the conjugate of the
 * derivative.
 *
 * Gradients at points without a derivative: 0 for abs, sign and relu at 0; one half for each
 * operand of maximum and minimum where they are equal; 0 for piecewise constant functions (floor,
 * round, sign, comparisons). */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise: one input ----------------------------------------------------------------- */

/* Each function returns the value that its name or the comment beside it says, for each element. */
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
WEFT_API weft_array *weft_floor(weft_array *x); /* this and the next three: integers unchanged */
WEFT_API weft_array *weft_ceil(weft_array *x);
WEFT_API weft_array *weft_round(weft_array *x); /* half to even */
WEFT_API weft_array *weft_trunc(weft_array *x);
/* round(x 10^decimals) / 10^decimals; negative `decimals` round to tens, hundreds and so on.
 * Integers are rounded exactly and stay integers. */
WEFT_API weft_array *weft_round_decimals(weft_array *x, int decimals);
WEFT_API weft_array *weft_isnan(weft_array *x); /* bool, as the next five */
WEFT_API weft_array *weft_isinf(weft_array *x);
WEFT_API weft_array *weft_isfinite(weft_array *x);
WEFT_API weft_array *weft_isposinf(weft_array *x); /* these two: complex is an error, as in NumPy */
WEFT_API weft_array *weft_isneginf(weft_array *x);
WEFT_API weft_array *weft_logical_not(weft_array *x);
WEFT_API weft_array *weft_bitwise_invert(weft_array *x);

/* x with every NaN replaced by `nan`, infinity by *posinf and minus infinity by *neginf. Where
 * posinf or neginf is NULL, the largest or the lowest finite number of the dtype is used. The parts
 * of complex numbers are replaced separately. NULL options: all zero. */
typedef struct weft_nan_to_num_options {
    double nan;
    const double *posinf, *neginf;
} weft_nan_to_num_options;
WEFT_API weft_array *weft_nan_to_num(weft_array *x, const weft_nan_to_num_options *options);

/* The real part, imaginary part (float32 for complex64) and conjugate. For a real array these are
 * x, zeros and x. weft_complex makes a complex64 array of two real ones. */
WEFT_API weft_array *weft_real(weft_array *x);
WEFT_API weft_array *weft_imag(weft_array *x);
WEFT_API weft_array *weft_conjugate(weft_array *x);
WEFT_API weft_array *weft_complex(weft_array *re, weft_array *im);

/* x converted to `dtype`. Floats outside the range of an integer dtype become its nearest limit,
 * and NaN becomes 0. Conversion to bool is x != 0. Conversion from complex to real drops the
 * imaginary part. An encoded array is decoded. */
WEFT_API weft_array *weft_astype(weft_array *x, weft_dtype dtype);

/* ---- Elementwise: two and three inputs ------------------------------------------------------ */

/* The functions of elements that their names say. */
WEFT_API weft_array *weft_add(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_subtract(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_multiply(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_divide(weft_array *a, weft_array *b); /* integers divide as float32 */
/* The floor of the exact quotient of floats below 2^23 (float64: 2^52), as in NumPy: 1 over 0.1 is
 * 9. Integers round down too; x / 0 is 0. */
WEFT_API weft_array *weft_floor_divide(weft_array *a, weft_array *b);
/* a - b floor(a / b), exact: it has the sign of b. Integers: x % 0 is 0. */
WEFT_API weft_array *weft_remainder(weft_array *a, weft_array *b);
/* Sets *quotient to weft_floor_divide(a, b) and *remainder to weft_remainder(a, b). */
WEFT_API void weft_divmod(weft_array *a, weft_array *b, weft_array **quotient,
                          weft_array **remainder) WEFT_NONNULL(3, 4);
/* a^b, the larger and the smaller (NaN if either is NaN), and the angle of the point (x, y).
 * weft_logaddexp is log(exp(a) + exp(b)). Comparisons and logic return bool. */
WEFT_API weft_array *weft_power(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_maximum(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_minimum(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_arctan2(weft_array *y, weft_array *x);
WEFT_API weft_array *weft_logaddexp(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_not_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_xor(weft_array *a, weft_array *b);
/* bool: |a - b| <= atol + rtol |b|, or a == b; with equal_nan also where both are NaN. Computed in
 * at least float32. NumPy's defaults: rtol 1e-5, atol 1e-8, equal_nan false. */
WEFT_API weft_array *weft_isclose(weft_array *a, weft_array *b, double rtol, double atol,
                                  bool equal_nan);
/* Bitwise operations of integers and bool. A shift by the width of the dtype or more, or by a
 * negative number, gives 0, and -1 to the right for negative numbers, as in NumPy. */
WEFT_API weft_array *weft_bitwise_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_xor(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_left_shift(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_right_shift(weft_array *a, weft_array *b);
/* condition ? a : b. The condition is converted to bool. */
WEFT_API weft_array *weft_where(weft_array *condition, weft_array *a, weft_array *b);
/* x limited to [low, high]; a bound that is NULL does not limit. */
WEFT_API weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high);
/* The activations of gated MLPs: silu(gate) up and gelu_tanh(gate) up. */
WEFT_API weft_array *weft_swiglu(weft_array *gate, weft_array *up);
WEFT_API weft_array *weft_geglu(weft_array *gate, weft_array *up);

/* The same functions with a scalar operand, which does not take part in promotion: the result has
 * x's dtype, or float32 if x is an integer and the value has a fraction. Comparisons return bool.
 */
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
/* x limited to [low, high]. An infinite bound does not limit. */
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
