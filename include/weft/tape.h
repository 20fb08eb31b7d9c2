/* weft/tape.h -- elementwise formulas as typed tapes.
 *
 * The formula of an elementwise op is parsed once into a tape: instructions over values that are
 * numbered in order, operands first. The CPU's generated kernels, its chain interpreter, shader
 * writers and users' own ops all read tapes.
 *
 * Grammar: C expressions over the operands a, b, c, d; numbers; + - * / % and unary minus;
 * < <= > >= == !=; && || !; & | ^ ~ << >>; ?: (both sides are computed); parentheses; the names pi,
 * inf, nan and, in integer formulas, bits (the width of the dtype); and these functions:
 *
 *   real:    abs sign floor ceil rint trunc sqrt rsqrt exp expm1 log log1p log2 log10
 *            sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfinv
 *            pow atan2 min max isnan isinf isfinite
 *   integer: abs sign min max pow
 *   complex: abs sign rint sqrt rsqrt exp expm1 log log1p log2 log10
 *            sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
 *            pow min max isnan isinf isfinite conj
 *            imag(x) (the imaginary part as a real number), join(x, y) (re x + i re y)
 *
 * Bool formulas have comparisons, logic and ?: only; complex ones lack % and bits.
 *
 * Complex numbers are ordered by real part, then by imaginary part. Branch cuts are those of C99.
 * Integer arithmetic wraps; x / 0 and x % 0 are 0; MIN / -1 is MIN; a shift by the width or more is
 * 0, or -1 for x >> y with x < 0; pow with a negative exponent is 1 / pow, truncated. Integer
 * division rounds towards minus infinity. The result of %, integer or real, has the sign of the
 * divisor. min and max return NaN if either operand is NaN.
 */
#ifndef WEFT_TAPE_H
#define WEFT_TAPE_H

#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A table. clang-format would make it a column. */
/* clang-format off */
typedef enum weft_tape_code {
    WEFT_TAPE_CONST = 0,
    WEFT_TAPE_BITS, /* the width of the dtype */
    /* unary */
    WEFT_TAPE_NEG, WEFT_TAPE_NOT, WEFT_TAPE_BITNOT, WEFT_TAPE_ABS, WEFT_TAPE_SIGN,
    WEFT_TAPE_FLOOR, WEFT_TAPE_CEIL, WEFT_TAPE_RINT, WEFT_TAPE_TRUNC, WEFT_TAPE_SQRT,
    WEFT_TAPE_RSQRT, WEFT_TAPE_EXP, WEFT_TAPE_EXPM1, WEFT_TAPE_LOG, WEFT_TAPE_LOG1P,
    WEFT_TAPE_LOG2, WEFT_TAPE_LOG10, WEFT_TAPE_SIN, WEFT_TAPE_COS, WEFT_TAPE_TAN, WEFT_TAPE_ASIN,
    WEFT_TAPE_ACOS, WEFT_TAPE_ATAN, WEFT_TAPE_SINH, WEFT_TAPE_COSH, WEFT_TAPE_TANH,
    WEFT_TAPE_ASINH, WEFT_TAPE_ACOSH, WEFT_TAPE_ATANH, WEFT_TAPE_CONJ, WEFT_TAPE_IMAG,
    WEFT_TAPE_ERF, WEFT_TAPE_ERFINV, WEFT_TAPE_ISNAN, WEFT_TAPE_ISINF, WEFT_TAPE_ISFINITE,
    /* rounding to float16 or bfloat16; only between merged formulas */
    WEFT_TAPE_ROUND16, WEFT_TAPE_ROUNDB,
    /* binary */
    WEFT_TAPE_ADD, WEFT_TAPE_SUB, WEFT_TAPE_MUL, WEFT_TAPE_DIV, WEFT_TAPE_MOD, WEFT_TAPE_MIN,
    WEFT_TAPE_MAX, WEFT_TAPE_POW, WEFT_TAPE_ATAN2, WEFT_TAPE_JOIN, WEFT_TAPE_LT, WEFT_TAPE_LE,
    WEFT_TAPE_EQ, WEFT_TAPE_NE, WEFT_TAPE_AND, WEFT_TAPE_OR, WEFT_TAPE_BITAND, WEFT_TAPE_BITOR,
    WEFT_TAPE_BITXOR, WEFT_TAPE_SHL, WEFT_TAPE_SHR,
    /* ternary: x ? y : z */
    WEFT_TAPE_SELECT,
    WEFT_TAPE_CODE_COUNT
} weft_tape_code;
/* clang-format on */

enum {
    WEFT_TAPE_MAX_STEPS = 48,
    WEFT_TAPE_MAX_OPERANDS = 32 /* of merged tapes; those of one op have WEFT_MAX_OPERANDS */
};

/* One instruction. Values are numbered: i < n_operands is operand i, n_operands + k the result of
 * instruction k. Comparisons give 1 or 0 in the type of the class. */
typedef struct weft_tape_step {
    unsigned char code;     /* weft_tape_code */
    unsigned char value[3]; /* values read */
    double constant;        /* of WEFT_TAPE_CONST */
} weft_tape_step;

struct weft_tape_part;

typedef struct weft_tape {
    weft_class klass;
    int n_operands;
    int n_steps; /* the last step is the result; 0 steps: the result is operand 0 */
    weft_tape_step steps[WEFT_TAPE_MAX_STEPS];
    const struct weft_tape_part *parts; /* the ops that the tape was merged from, or NULL */
    int n_parts;
} weft_tape;

/* One op of a merged tape, for backends that have a kernel for that op: its own tape, and which
 * values of the merged tape are its operands and its result. `rounding` is WEFT_TAPE_ROUND16 or
 * WEFT_TAPE_ROUNDB, whose value is then the result, or 0. */
typedef struct weft_tape_part {
    const weft_tape *tape;
    unsigned char operand[8]; /* WEFT_MAX_OPERANDS */
    unsigned char result;
    unsigned char rounding;
} weft_tape_part;

/* Parses a formula. On an error returns false and writes a message with the position to `why` (size
 * bytes). */
WEFT_API bool weft_tape_parse(const char *formula, weft_class klass, int n_operands, weft_tape *out,
                              char *why, size_t size) WEFT_NONNULL(4);

/* Evaluates a tape for one element, in double with libm: the reference for all kernels. Integer
 * tapes use weft_tape_eval_int, which has the width and sign of `dtype`. */
WEFT_API double weft_tape_eval(const weft_tape *tape, const double *operands) WEFT_NONNULL(1);
WEFT_API int64_t weft_tape_eval_int(const weft_tape *tape, const int64_t *operands,
                                    weft_dtype dtype) WEFT_NONNULL(1);

/* The number of operands of a code (0 for a constant), and its name, a static string. */
WEFT_API int weft_tape_arity(weft_tape_code code);
WEFT_API const char *weft_tape_code_name(weft_tape_code code);

#ifdef __cplusplus
}
#endif
#endif
