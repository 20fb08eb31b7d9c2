/* core/tape_eval.c -- evaluates a tape for one element. This is the definition of the values. */
#include <math.h>

#include "core/tape_codes.h"

/* ---- Real and bool: double with the C library's functions ----------------------------------- */

static double sign_of(double x)
{
    return isnan(x) ? x : (double)((x > 0) - (x < 0));
}

static double minimum(double x, double y)
{
    return x < y || isnan(x) ? x : y;
}

static double maximum(double x, double y)
{
    return x > y || isnan(x) ? x : y;
}

/* The remainder with the sign of the divisor. */
static double modulo(double x, double y)
{
    double r = fmod(x, y);
    if (r == 0) {
        return copysign(0, y);
    }
    return (r < 0) != (y < 0) ? r + y : r;
}

/* First approximation for 0 < p < 1, by Winitzki's formula. */
static double erfinv_guess(double p, double rest)
{
    const double k = 0.147;
    double l = log(rest * (1 + p));
    double half = 2 / (3.14159265358979323846 * k) + l / 2;
    return sqrt(sqrt(half * half - l / k) - half);
}

/* Halley's method on erf, or on erfc where erf is too flat. */
static double inverse_erf(double x)
{
    double p = fabs(x), rest = 1 - p;
    if (!(p < 1)) {
        return p == 1 ? copysign((double)INFINITY, x) : (double)NAN;
    }
    if (p < 1e-8) {
        return x * 0.88622692545275801365; /* sqrt(pi) / 2 */
    }
    double y = erfinv_guess(p, rest);
    for (int i = 0; i < 4; i++) {
        double error = p < 0.5 ? erf(y) - p : rest - erfc(y);
        double step = error / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

/* Functions of the C library that use exp, log or an angle. */
static double transcendental(weft_tape_code code, double x)
{
    switch (code) {
    case WEFT_TAPE_EXP:
        return exp(x);
    case WEFT_TAPE_EXPM1:
        return expm1(x);
    case WEFT_TAPE_LOG:
        return log(x);
    case WEFT_TAPE_LOG1P:
        return log1p(x);
    case WEFT_TAPE_LOG2:
        return log2(x);
    case WEFT_TAPE_LOG10:
        return log10(x);
    case WEFT_TAPE_SIN:
        return sin(x);
    case WEFT_TAPE_COS:
        return cos(x);
    case WEFT_TAPE_TAN:
        return tan(x);
    case WEFT_TAPE_ASIN:
        return asin(x);
    case WEFT_TAPE_ACOS:
        return acos(x);
    case WEFT_TAPE_ATAN:
        return atan(x);
    case WEFT_TAPE_SINH:
        return sinh(x);
    case WEFT_TAPE_COSH:
        return cosh(x);
    case WEFT_TAPE_TANH:
        return tanh(x);
    case WEFT_TAPE_ASINH:
        return asinh(x);
    case WEFT_TAPE_ACOSH:
        return acosh(x);
    case WEFT_TAPE_ATANH:
        return atanh(x);
    case WEFT_TAPE_ERF:
        return erf(x);
    case WEFT_TAPE_ERFINV:
        return inverse_erf(x);
    default:
        return (double)NAN; /* no other code has one operand */
    }
}

static double unary(weft_tape_code code, double x)
{
    switch (code) {
    case WEFT_TAPE_NEG:
        return -x;
    case WEFT_TAPE_NOT:
        return x == 0;
    case WEFT_TAPE_ABS:
        return fabs(x);
    case WEFT_TAPE_SIGN:
        return sign_of(x);
    case WEFT_TAPE_FLOOR:
        return floor(x);
    case WEFT_TAPE_CEIL:
        return ceil(x);
    case WEFT_TAPE_RINT:
        return nearbyint(x);
    case WEFT_TAPE_TRUNC:
        return trunc(x);
    case WEFT_TAPE_SQRT:
        return sqrt(x);
    case WEFT_TAPE_RSQRT:
        return 1 / sqrt(x);
    case WEFT_TAPE_ISNAN:
        return isnan(x) != 0;
    case WEFT_TAPE_ISINF:
        return isinf(x) != 0;
    case WEFT_TAPE_ISFINITE:
        return isfinite(x) != 0;
    case WEFT_TAPE_ROUND16:
        return (double)weft_float16_to_float(weft_float_to_float16((float)x));
    case WEFT_TAPE_ROUNDB:
        return (double)weft_bfloat16_to_float(weft_float_to_bfloat16((float)x));
    default:
        return transcendental(code, x);
    }
}

static double binary(weft_tape_code code, double x, double y)
{
    switch (code) {
    case WEFT_TAPE_ADD:
        return x + y;
    case WEFT_TAPE_SUB:
        return x - y;
    case WEFT_TAPE_MUL:
        return x * y;
    case WEFT_TAPE_DIV:
        return x / y;
    case WEFT_TAPE_MOD:
        return modulo(x, y);
    case WEFT_TAPE_MIN:
        return minimum(x, y);
    case WEFT_TAPE_MAX:
        return maximum(x, y);
    case WEFT_TAPE_POW:
        return pow(x, y);
    case WEFT_TAPE_ATAN2:
        return atan2(x, y);
    case WEFT_TAPE_LT:
        return x < y;
    case WEFT_TAPE_LE:
        return x <= y;
    case WEFT_TAPE_EQ:
        return x == y;
    case WEFT_TAPE_NE:
        return x != y;
    case WEFT_TAPE_AND:
        return x != 0 && y != 0;
    case WEFT_TAPE_OR:
        return x != 0 || y != 0;
    default:
        return (double)NAN; /* the other codes are for integers only */
    }
}

double weft_tape_eval(const weft_tape *tape, const double *operands)
{
    double values[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {0};
    int n = tape->n_operands;
    for (int i = 0; i < n; i++) {
        values[i] = operands[i];
    }
    for (int i = 0; i < tape->n_steps; i++) {
        const weft_tape_step *s = &tape->steps[i];
        weft_tape_code code = (weft_tape_code)s->code;
        double x = values[s->value[0]], y = values[s->value[1]], z = values[s->value[2]];
        int arity = weft_tape_arity(code);
        values[n + i] = arity == 0   ? s->constant
                        : arity == 1 ? unary(code, x)
                        : arity == 2 ? binary(code, x, y)
                        : x != 0     ? y
                                     : z;
    }
    return tape->n_steps ? values[n + tape->n_steps - 1] : values[0];
}

/* ---- Integers: 64 bits, reduced to the dtype's width after every step ------------------------ */

typedef struct integer_type {
    int bits;
    bool is_signed;
} integer_type;

static int64_t narrow(uint64_t x, integer_type t)
{
    int spare = 64 - t.bits;
    return t.is_signed ? (int64_t)(x << spare) >> spare : (int64_t)(x << spare >> spare);
}

static bool less(int64_t x, int64_t y, integer_type t)
{
    return t.is_signed ? x < y : (uint64_t)x < (uint64_t)y;
}

static int64_t floor_divide(int64_t x, int64_t y, integer_type t)
{
    if (y == 0) {
        return 0;
    }
    if (!t.is_signed) {
        return (int64_t)((uint64_t)x / (uint64_t)y);
    }
    if (y == -1) {
        return (int64_t)(0 - (uint64_t)x);
    }
    int64_t q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static int64_t power(int64_t x, int64_t y, integer_type t)
{
    if (t.is_signed && y < 0) {
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    }
    uint64_t result = 1, factor = (uint64_t)x;
    for (uint64_t rest = (uint64_t)y; rest; rest >>= 1) {
        result = rest & 1 ? result * factor : result;
        factor *= factor;
    }
    return (int64_t)result;
}

static int64_t shift(weft_tape_code code, int64_t x, int64_t y, integer_type t)
{
    if ((uint64_t)y >= (uint64_t)t.bits) {
        return code == WEFT_TAPE_SHR && t.is_signed && x < 0 ? -1 : 0;
    }
    if (code == WEFT_TAPE_SHL) {
        return (int64_t)((uint64_t)x << y);
    }
    return t.is_signed ? x >> y : (int64_t)((uint64_t)x >> y);
}

static int64_t integer_unary(weft_tape_code code, int64_t x, integer_type t)
{
    bool negative = t.is_signed && x < 0;
    switch (code) {
    case WEFT_TAPE_NEG:
        return (int64_t)(0 - (uint64_t)x);
    case WEFT_TAPE_NOT:
        return x == 0;
    case WEFT_TAPE_BITNOT:
        return ~x;
    case WEFT_TAPE_ABS:
        return negative ? (int64_t)(0 - (uint64_t)x) : x;
    case WEFT_TAPE_SIGN:
        return negative ? -1 : x != 0;
    default:
        return 0; /* the other codes are for reals only */
    }
}

static int64_t integer_binary(weft_tape_code code, int64_t x, int64_t y, integer_type t)
{
    switch (code) {
    case WEFT_TAPE_ADD:
        return (int64_t)((uint64_t)x + (uint64_t)y);
    case WEFT_TAPE_SUB:
        return (int64_t)((uint64_t)x - (uint64_t)y);
    case WEFT_TAPE_MUL:
        return (int64_t)((uint64_t)x * (uint64_t)y);
    case WEFT_TAPE_DIV:
        return floor_divide(x, y, t);
    case WEFT_TAPE_MOD:
        return y == 0 ? 0 : (int64_t)((uint64_t)x - (uint64_t)floor_divide(x, y, t) * (uint64_t)y);
    case WEFT_TAPE_MIN:
        return less(x, y, t) ? x : y;
    case WEFT_TAPE_MAX:
        return less(x, y, t) ? y : x;
    case WEFT_TAPE_POW:
        return power(x, y, t);
    case WEFT_TAPE_LT:
        return less(x, y, t);
    case WEFT_TAPE_LE:
        return !less(y, x, t);
    case WEFT_TAPE_EQ:
        return x == y;
    case WEFT_TAPE_NE:
        return x != y;
    case WEFT_TAPE_AND:
        return x != 0 && y != 0;
    case WEFT_TAPE_OR:
        return x != 0 || y != 0;
    case WEFT_TAPE_BITAND:
        return x & y;
    case WEFT_TAPE_BITOR:
        return x | y;
    case WEFT_TAPE_BITXOR:
        return x ^ y;
    case WEFT_TAPE_SHL:
    case WEFT_TAPE_SHR:
        return shift(code, x, y, t);
    default:
        return 0; /* the other codes are for reals only */
    }
}

int64_t weft_tape_eval_int(const weft_tape *tape, const int64_t *operands, weft_dtype dtype)
{
    integer_type t = {8 * (int)weft_dtype_size(dtype), weft_dtype_is_signed(dtype)};
    int64_t values[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {0};
    int n = tape->n_operands;
    for (int i = 0; i < n; i++) {
        values[i] = operands[i];
    }
    for (int i = 0; i < tape->n_steps; i++) {
        const weft_tape_step *s = &tape->steps[i];
        weft_tape_code code = (weft_tape_code)s->code;
        int64_t x = values[s->value[0]], y = values[s->value[1]], z = values[s->value[2]];
        int arity = weft_tape_arity(code);
        int64_t value = code == WEFT_TAPE_CONST  ? (int64_t)s->constant
                        : code == WEFT_TAPE_BITS ? t.bits
                        : arity == 1             ? integer_unary(code, x, t)
                        : arity == 2             ? integer_binary(code, x, y, t)
                        : x != 0                 ? y
                                                 : z;
        values[n + i] = narrow((uint64_t)value, t);
    }
    return tape->n_steps ? values[n + tape->n_steps - 1] : values[0];
}
