/* core/eval/complex_step.c -- evaluates the codes of complex tapes; the definition of their values.
 */
#include "core/eval/complex_step.h"

#include <math.h>

typedef weft__wide_complex wide;

wide weft__wide_complex_of(double re, double im)
{
    const double parts[2] = {re, im};
    wide z;
    __builtin_memcpy(&z, parts, sizeof z);
    return z;
}

static wide of(double re, double im)
{
    return weft__wide_complex_of(re, im);
}

static bool is_true(wide x)
{
    return creal(x) != 0 || cimag(x) != 0;
}

static bool is_nan(wide x)
{
    return isnan(creal(x)) || isnan(cimag(x));
}

static bool less(wide x, wide y)
{
    return creal(x) < creal(y) || (creal(x) == creal(y) && cimag(x) < cimag(y));
}

/* e^x cos y - 1 without cancellation. */
static wide less_one_exp(wide z)
{
    double half = sin(cimag(z) / 2), less = expm1(creal(z));
    return of(less * cos(cimag(z)) - 2 * half * half, exp(creal(z)) * sin(cimag(z)));
}

static wide log_one_more(wide z)
{
    double x = creal(z), y = cimag(z), gain = x * (x + 2) + y * y;
    double re = fabs(gain) < 0.5 ? 0.5 * log1p(gain) : log(hypot(1 + x, y));
    return of(re, atan2(y, 1 + x));
}

static wide power(wide x, wide y)
{
    if (!is_true(y)) {
        return 1;
    }
    if (!is_true(x)) {
        return creal(y) > 0 ? 0 : of((double)NAN, (double)NAN);
    }
    return cpow(x, y);
}

/* Division by a real 0 divides each part by itself. */
static wide divide(wide x, wide y)
{
    if (!is_true(y)) {
        double zero = fabs(creal(y));
        return of(creal(x) / zero, cimag(x) / zero);
    }
    return x / y;
}

static wide function(weft_tape_code code, wide x)
{
    switch (code) {
    case WEFT_TAPE_SQRT:
        return csqrt(x);
    case WEFT_TAPE_EXP:
        return cexp(x);
    case WEFT_TAPE_LOG:
        return clog(x);
    case WEFT_TAPE_SIN:
        return csin(x);
    case WEFT_TAPE_COS:
        return ccos(x);
    case WEFT_TAPE_TAN:
        return ctan(x);
    case WEFT_TAPE_ASIN:
        return casin(x);
    case WEFT_TAPE_ACOS:
        return cacos(x);
    case WEFT_TAPE_ATAN:
        return catan(x);
    case WEFT_TAPE_SINH:
        return csinh(x);
    case WEFT_TAPE_COSH:
        return ccosh(x);
    case WEFT_TAPE_TANH:
        return ctanh(x);
    case WEFT_TAPE_ASINH:
        return casinh(x);
    case WEFT_TAPE_ACOSH:
        return cacosh(x);
    case WEFT_TAPE_ATANH:
        return catanh(x);
    case WEFT_TAPE_CONJ:
        return conj(x);
    case WEFT_TAPE_RSQRT:
        return divide(1, csqrt(x));
    case WEFT_TAPE_EXPM1:
        return less_one_exp(x);
    case WEFT_TAPE_LOG1P:
        return log_one_more(x);
    case WEFT_TAPE_LOG2:
        return of(creal(clog(x)) / log(2), cimag(clog(x)) / log(2));
    case WEFT_TAPE_LOG10:
        return of(creal(clog(x)) / log(10), cimag(clog(x)) / log(10));
    default: /* the parser allows no other code in a complex formula */
        return (double)NAN;
    }
}

static wide unary(weft_tape_code code, wide x)
{
    double re = creal(x), im = cimag(x), length = cabs(x);
    switch (code) {
    case WEFT_TAPE_NEG:
        return -x;
    case WEFT_TAPE_NOT:
        return !is_true(x);
    case WEFT_TAPE_ABS:
        return length;
    case WEFT_TAPE_SIGN:
        return length == 0 ? x : of(re / length, im / length);
    case WEFT_TAPE_RINT:
        return of(nearbyint(re), nearbyint(im));
    case WEFT_TAPE_IMAG:
        return im;
    case WEFT_TAPE_ISNAN:
        return is_nan(x);
    case WEFT_TAPE_ISINF:
        return isinf(re) || isinf(im);
    case WEFT_TAPE_ISFINITE:
        return isfinite(re) && isfinite(im);
    default:
        return function(code, x);
    }
}

static wide binary(weft_tape_code code, wide x, wide y)
{
    switch (code) {
    case WEFT_TAPE_ADD:
        return x + y;
    case WEFT_TAPE_SUB:
        return x - y;
    case WEFT_TAPE_MUL:
        return x * y;
    case WEFT_TAPE_DIV:
        return divide(x, y);
    case WEFT_TAPE_POW:
        return power(x, y);
    case WEFT_TAPE_MIN:
        return is_nan(x) || (less(x, y) && !is_nan(y)) ? x : y;
    case WEFT_TAPE_MAX:
        return is_nan(x) || (less(y, x) && !is_nan(y)) ? x : y;
    case WEFT_TAPE_JOIN:
        return of(creal(x), creal(y));
    case WEFT_TAPE_LT:
        return less(x, y);
    case WEFT_TAPE_LE:
        return less(x, y) || x == y;
    case WEFT_TAPE_EQ:
        return x == y;
    case WEFT_TAPE_NE:
        return x != y;
    case WEFT_TAPE_AND:
        return is_true(x) && is_true(y);
    default: /* WEFT_TAPE_OR */
        return is_true(x) || is_true(y);
    }
}

wide weft__complex_step(const weft_tape_step *step, const wide *values)
{
    wide x = values[step->value[0]], y = values[step->value[1]], z = values[step->value[2]];
    weft_tape_code code = (weft_tape_code)step->code;
    switch (weft_tape_arity(code)) {
    case 0:
        return step->constant;
    case 1:
        return unary(code, x);
    case 2:
        return binary(code, x, y);
    default:
        return is_true(x) ? y : z;
    }
}
