/* core/tape.c -- the table of tape codes. */
#include "core/tape_codes.h"

const weft__tape_code_info weft__tape_codes[WEFT_TAPE_CODE_COUNT] = {
    [WEFT_TAPE_CONST] = {"const", 0, TAPE_ALL, false},
    [WEFT_TAPE_BITS] = {"bits", 0, TAPE_INTEGER, false},
    [WEFT_TAPE_NEG] = {"neg", 1, TAPE_ORDERED | TAPE_COMPLEX, false},
    [WEFT_TAPE_NOT] = {"not", 1, TAPE_ALL, false},
    [WEFT_TAPE_BITNOT] = {"bitnot", 1, TAPE_INTEGER, false},
    [WEFT_TAPE_ABS] = {"abs", 1, TAPE_ORDERED | TAPE_COMPLEX, true},
    [WEFT_TAPE_SIGN] = {"sign", 1, TAPE_ORDERED | TAPE_COMPLEX, true},
    [WEFT_TAPE_FLOOR] = {"floor", 1, TAPE_REAL, true},
    [WEFT_TAPE_CEIL] = {"ceil", 1, TAPE_REAL, true},
    [WEFT_TAPE_RINT] = {"rint", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_TRUNC] = {"trunc", 1, TAPE_REAL, true},
    [WEFT_TAPE_SQRT] = {"sqrt", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_RSQRT] = {"rsqrt", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_EXP] = {"exp", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_EXPM1] = {"expm1", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_LOG] = {"log", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_LOG1P] = {"log1p", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_LOG2] = {"log2", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_LOG10] = {"log10", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_SIN] = {"sin", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_COS] = {"cos", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_TAN] = {"tan", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ASIN] = {"asin", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ACOS] = {"acos", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ATAN] = {"atan", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_SINH] = {"sinh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_COSH] = {"cosh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_TANH] = {"tanh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ASINH] = {"asinh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ACOSH] = {"acosh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ATANH] = {"atanh", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_CONJ] = {"conj", 1, TAPE_COMPLEX, true},
    [WEFT_TAPE_IMAG] = {"imag", 1, TAPE_COMPLEX, true},
    [WEFT_TAPE_ERF] = {"erf", 1, TAPE_REAL, true},
    [WEFT_TAPE_ERFINV] = {"erfinv", 1, TAPE_REAL, true},
    [WEFT_TAPE_ISNAN] = {"isnan", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ISINF] = {"isinf", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ISFINITE] = {"isfinite", 1, TAPE_REAL | TAPE_COMPLEX, true},
    [WEFT_TAPE_ROUND16] = {"round16", 1, TAPE_REAL, false},
    [WEFT_TAPE_ROUNDB] = {"roundb", 1, TAPE_REAL, false},
    [WEFT_TAPE_ADD] = {"add", 2, TAPE_ORDERED | TAPE_COMPLEX, false},
    [WEFT_TAPE_SUB] = {"sub", 2, TAPE_ORDERED | TAPE_COMPLEX, false},
    [WEFT_TAPE_MUL] = {"mul", 2, TAPE_ORDERED | TAPE_COMPLEX, false},
    [WEFT_TAPE_DIV] = {"div", 2, TAPE_ORDERED | TAPE_COMPLEX, false},
    [WEFT_TAPE_MOD] = {"mod", 2, TAPE_ORDERED, false},
    [WEFT_TAPE_MIN] = {"min", 2, TAPE_ORDERED | TAPE_COMPLEX, true},
    [WEFT_TAPE_MAX] = {"max", 2, TAPE_ORDERED | TAPE_COMPLEX, true},
    [WEFT_TAPE_POW] = {"pow", 2, TAPE_ORDERED | TAPE_COMPLEX, true},
    [WEFT_TAPE_ATAN2] = {"atan2", 2, TAPE_REAL, true},
    [WEFT_TAPE_JOIN] = {"join", 2, TAPE_COMPLEX, true},
    [WEFT_TAPE_LT] = {"lt", 2, TAPE_ALL, false},
    [WEFT_TAPE_LE] = {"le", 2, TAPE_ALL, false},
    [WEFT_TAPE_EQ] = {"eq", 2, TAPE_ALL, false},
    [WEFT_TAPE_NE] = {"ne", 2, TAPE_ALL, false},
    [WEFT_TAPE_AND] = {"and", 2, TAPE_ALL, false},
    [WEFT_TAPE_OR] = {"or", 2, TAPE_ALL, false},
    [WEFT_TAPE_BITAND] = {"bitand", 2, TAPE_INTEGER, false},
    [WEFT_TAPE_BITOR] = {"bitor", 2, TAPE_INTEGER, false},
    [WEFT_TAPE_BITXOR] = {"bitxor", 2, TAPE_INTEGER, false},
    [WEFT_TAPE_SHL] = {"shl", 2, TAPE_INTEGER, false},
    [WEFT_TAPE_SHR] = {"shr", 2, TAPE_INTEGER, false},
    [WEFT_TAPE_SELECT] = {"select", 3, TAPE_ALL, false},
};

int weft_tape_arity(weft_tape_code code)
{
    return (unsigned)code < WEFT_TAPE_CODE_COUNT ? weft__tape_codes[code].arity : 0;
}

const char *weft_tape_code_name(weft_tape_code code)
{
    return (unsigned)code < WEFT_TAPE_CODE_COUNT ? weft__tape_codes[code].name : "none";
}
