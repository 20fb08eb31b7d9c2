/* tests/core/test_tape.c -- weft/tape.h: the grammar of formulas, its errors, and evaluation. */
#include "weft/tape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static bool parse(const char *formula, weft_class klass, weft_tape *tape)
{
    char why[256] = "";
    if (!weft_tape_parse(formula, klass, 4, tape, why, sizeof why)) {
        CHECK_FAIL("%s", why);
        return false;
    }
    return true;
}

static double real(const char *formula, double a, double b, double c)
{
    weft_tape tape;
    double operands[4] = {a, b, c, 0};
    return parse(formula, WEFT_CLASS_REAL, &tape) ? weft_tape_eval(&tape, operands) : (double)NAN;
}

static int64_t whole(const char *formula, weft_dtype dtype, int64_t a, int64_t b)
{
    weft_tape tape;
    int64_t operands[4] = {a, b, 0, 0};
    return parse(formula, WEFT_CLASS_INTEGER, &tape) ? weft_tape_eval_int(&tape, operands, dtype)
                                                     : INT64_C(-99999);
}

/* These warnings are about missing parentheses, and about floats as conditions. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wfloat-conversion"

/* Each formula beside the same expression as C reads it. */
static void precedence_is_that_of_c(void)
{
    double a = 3, b = 5, c = 2;
#define SAME(...) CHECK_CLOSE(real(#__VA_ARGS__, a, b, c), (double)(__VA_ARGS__), 1e-12)
    SAME(a + b * c);
    SAME((a + b) * c);
    SAME(a - b - c);
    SAME(a / b / c);
    SAME(a / b * c);
    SAME(-a * b + c);
    SAME(-a - -b);
    SAME(a * -b);
    SAME(a<b == c> b);
    SAME(a + b < c * b);
    SAME(a < b && b < c || c < a);
    SAME(a < b || b < c && c < a);
    SAME(!a + 1);
    SAME(!(a < b));
    SAME(a > b ? a : b > c ? b : c);
    SAME(a < b ? c < a ? 1 : 2 : 3);
    SAME(a <= 3 && b >= 5 && c != 1);
#undef SAME
}

static void integer_precedence_is_that_of_c(void)
{
    int64_t a = 13, b = 7;
#define SAME(...) CHECK_EQ_INT(whole(#__VA_ARGS__, WEFT_INT64, a, b), (int64_t)(__VA_ARGS__))
    SAME((a & b) | (a ^ b));
    SAME(a << 2 + 1);
    SAME(a >> 1 << 2);
    SAME(a & 4 | b & 3);
    SAME(a ^ b & 5);
    SAME(a & b ^ 5);
    SAME(~a + b);
    SAME(-a >> 1);
    SAME(a & b == 5);
    SAME(a << 1 < b << 2);
    SAME(a % b * 2);
#undef SAME
}

#pragma GCC diagnostic pop

static void numbers_are_exact(void)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"1.5", 1.5},
        {".25", .25},
        {"0.1", 0.1},
        {"1e10", 1e10},
        {"1E-3", 1e-3},
        {"2.5e+3", 2.5e3},
        {"1.", 1},
        {"123456789012345678", 123456789012345678.0},
        {"0.044715", .044715},
        {"0.70710678118654752440", 0.70710678118654752440},
        {"1.12837916709551257390", 1.12837916709551257390},
        {"1e-320", 1e-320},
        {"1e308", 1e308},
        {"0.000001", 1e-6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = real(cases[i].text, 0, 0, 0);
        CHECK_BYTES(&value, &cases[i].value, sizeof value);
    }
    CHECK_CLOSE(real("pi", 0, 0, 0), 3.14159265358979323846, 0);
    CHECK(isnan(real("nan", 0, 0, 0)));
    CHECK(real("inf", 0, 0, 0) == (double)INFINITY);
    CHECK(real("-inf", 0, 0, 0) == -(double)INFINITY);
}

static void functions_equal_the_c_library(void)
{
#define SAME(name, x) CHECK_CLOSE(real(#name "(a)", x, 0, 0), name(x), 0)
    SAME(floor, -1.5);
    SAME(ceil, -1.5);
    SAME(rint, 2.5);
    SAME(trunc, -1.5);
    SAME(sqrt, 2.0);
    SAME(exp, 1.5);
    SAME(expm1, 1e-10);
    SAME(log, 2.5);
    SAME(log1p, 1e-10);
    SAME(log2, 10.0);
    SAME(sin, 1e22);
    SAME(cos, 2.0);
    SAME(tan, 2.0);
    SAME(asin, 0.5);
    SAME(acos, 0.5);
    SAME(atan, 0.5);
    SAME(sinh, 1.5);
    SAME(cosh, 1.5);
    SAME(tanh, 0.5);
    SAME(erf, 0.5);
#undef SAME
    CHECK_CLOSE(real("rsqrt(a)", 4, 0, 0), 0.5, 0);
    CHECK_CLOSE(real("abs(a)", -4, 0, 0), 4, 0);
    CHECK_CLOSE(real("sign(a)", -4, 0, 0), -1, 0);
    CHECK(isnan(real("sign(a)", (double)NAN, 0, 0)));
    CHECK_CLOSE(real("pow(a, b)", 2, 0.5, 0), pow(2, 0.5), 0);
    CHECK_CLOSE(real("atan2(a, b)", 1, -1, 0), atan2(1, -1), 0);
    CHECK_CLOSE(real("isnan(a) + 2 * isnan(b)", (double)NAN, 1, 0), 1, 0);
    CHECK_CLOSE(real("isinf(a) + 2 * isinf(b)", -(double)INFINITY, 1, 0), 1, 0);
    CHECK_CLOSE(real("isfinite(a) + 2 * isfinite(b)", (double)INFINITY, 1, 0), 2, 0);
}

static void erfinv_inverts_erf(void)
{
    for (double x = -0.999; x < 1; x += 0.037) {
        CHECK_CLOSE(erf(real("erfinv(a)", x, 0, 0)), x, 4e-16);
    }
    for (double q = 1e-3; q > 1e-15; q /= 7) {
        CHECK_RELATIVE(erfc(real("erfinv(a)", 1 - q, 0, 0)), 1 - (1 - q), 1e-12);
    }
    CHECK_RELATIVE(real("erfinv(a)", 1e-12, 0, 0), 0.88622692545275801365e-12, 1e-15);
    CHECK(real("erfinv(a)", 1, 0, 0) == (double)INFINITY);
    CHECK(real("erfinv(a)", -1, 0, 0) == -(double)INFINITY);
    CHECK(isnan(real("erfinv(a)", 1.5, 0, 0)));
}

static void nan_wins_min_and_max(void)
{
    double nan = (double)NAN;
    CHECK(isnan(real("min(a, b)", nan, 1, 0)) && isnan(real("min(a, b)", 1, nan, 0)));
    CHECK(isnan(real("max(a, b)", nan, 1, 0)) && isnan(real("max(a, b)", 1, nan, 0)));
    CHECK_CLOSE(real("min(a, b)", 2, 1, 0), 1, 0);
    CHECK_CLOSE(real("max(a, b)", 2, 1, 0), 2, 0);
}

static void remainder_has_the_divisors_sign(void)
{
    CHECK_CLOSE(real("a % b", 7, 3, 0), 1, 0);
    CHECK_CLOSE(real("a % b", -7, 3, 0), 2, 0);
    CHECK_CLOSE(real("a % b", 7, -3, 0), -2, 0);
    CHECK_CLOSE(real("a % b", -7, -3, 0), -1, 0);
    CHECK(isnan(real("a % b", 1, 0, 0)));
    CHECK_EQ_INT(whole("a % b", WEFT_INT32, -7, 3), 2);
    CHECK_EQ_INT(whole("a % b", WEFT_INT32, 7, -3), -2);
    CHECK_EQ_INT(whole("a / b", WEFT_INT32, -7, 3), -3);
    CHECK_EQ_INT(whole("a / b", WEFT_INT32, 7, -3), -3);
    CHECK_EQ_INT(whole("a / b", WEFT_INT32, -6, 3), -2);
}

static void integers_wrap_at_their_width(void)
{
    CHECK_EQ_INT(whole("a + b", WEFT_INT8, 127, 1), -128);
    CHECK_EQ_INT(whole("a + b", WEFT_UINT8, 255, 2), 1);
    CHECK_EQ_INT(whole("(a + b) / 2", WEFT_INT8, 127, 1), -64);
    CHECK_EQ_INT(whole("a * b", WEFT_INT32, 65536, 65536), 0);
    CHECK_EQ_INT(whole("a + b", WEFT_INT64, INT64_MAX, 1), INT64_MIN);
    CHECK_EQ_INT(whole("-a", WEFT_INT16, -32768, 0), -32768);
    CHECK_EQ_INT(whole("abs(a)", WEFT_INT64, INT64_MIN, 0), INT64_MIN);
    CHECK_EQ_INT(whole("-a", WEFT_UINT16, 1, 0), 65535);
    CHECK_EQ_INT(whole("~a", WEFT_UINT8, 1, 0), 254);
    CHECK_EQ_INT(whole("a < b", WEFT_UINT64, 1, -1), 1); /* -1 is the largest */
    CHECK_EQ_INT(whole("a < b", WEFT_INT64, 1, -1), 0);
    CHECK_EQ_INT(whole("max(a, b)", WEFT_UINT64, 1, -1), -1);
}

static void integer_division_never_traps(void)
{
    CHECK_EQ_INT(whole("a / b", WEFT_INT32, 5, 0), 0);
    CHECK_EQ_INT(whole("a % b", WEFT_INT32, 5, 0), 0);
    CHECK_EQ_INT(whole("a / b", WEFT_UINT64, -1, 0), 0);
    CHECK_EQ_INT(whole("a / b", WEFT_INT64, INT64_MIN, -1), INT64_MIN);
    CHECK_EQ_INT(whole("a % b", WEFT_INT64, INT64_MIN, -1), 0);
    CHECK_EQ_INT(whole("a / b", WEFT_INT8, -128, -1), -128);
    CHECK_EQ_INT(whole("a / b", WEFT_UINT64, -1, 2), INT64_MAX);
}

static void shifts_by_the_width_leave_the_sign(void)
{
    CHECK_EQ_INT(whole("a << b", WEFT_INT8, 1, 7), -128);
    CHECK_EQ_INT(whole("a << b", WEFT_INT8, 1, 8), 0);
    CHECK_EQ_INT(whole("a >> b", WEFT_INT8, -128, 7), -1);
    CHECK_EQ_INT(whole("a >> b", WEFT_INT8, -128, 8), -1);
    CHECK_EQ_INT(whole("a >> b", WEFT_INT64, -1, 64), -1);
    CHECK_EQ_INT(whole("a >> b", WEFT_UINT8, 200, 8), 0);
    CHECK_EQ_INT(whole("a << b", WEFT_UINT64, 1, 63), INT64_MIN);
    CHECK_EQ_INT(whole("a >> b", WEFT_UINT64, -1, 63), 1);
    CHECK_EQ_INT(whole("a << b", WEFT_INT32, 1, -1), 0);
    CHECK_EQ_INT(whole("bits", WEFT_UINT16, 0, 0), 16);
    CHECK_EQ_INT(whole("a >> (bits - 1)", WEFT_UINT32, 0x80000000, 0), 1);
}

static void integer_powers(void)
{
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, 3, 4), 81);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, -2, 31), INT32_MIN);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, 0, 0), 1);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT8, 2, 8), 0);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, 2, -1), 0);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, -1, -3), -1);
    CHECK_EQ_INT(whole("pow(a, b)", WEFT_INT32, 1, -3), 1);
}

static void truth_in_bool_formulas(void)
{
    static const char *const formulas[] = {"a && b", "a || b", "a != b",
                                           "!a",     "a < b",  "a ? b : 1"};
    static const int expected[][4] = {{0, 0, 0, 1}, {0, 1, 1, 1}, {0, 1, 1, 0},
                                      {1, 1, 0, 0}, {0, 1, 0, 0}, {1, 1, 0, 1}};
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        weft_tape tape;
        if (parse(formulas[i], WEFT_CLASS_BOOL, &tape)) {
            for (int k = 0; k < 4; k++) {
                double operands[4] = {k >> 1, k & 1, 0, 0};
                CHECK_EQ_INT(weft_tape_eval(&tape, operands), expected[i][k]);
            }
        }
    }
}

static void equal_parts_are_shared(void)
{
    weft_tape tape;
    CHECK(parse("(a < 0 ? exp(-abs(a)) : 1) / (1 + exp(-abs(a)))", WEFT_CLASS_REAL, &tape));
    int exps = 0;
    for (int i = 0; i < tape.n_steps; i++) {
        exps += tape.steps[i].code == WEFT_TAPE_EXP;
    }
    CHECK_EQ_INT(exps, 1);
    CHECK_EQ_INT(tape.n_steps, 9); /* 0 < abs neg exp 1 ?: + / */
}

static void an_operand_alone(void)
{
    weft_tape tape;
    CHECK(parse(" ( a ) ", WEFT_CLASS_REAL, &tape));
    CHECK_EQ_INT(tape.n_steps, 0);
    CHECK_CLOSE(real("a", 7, 8, 9), 7, 0);
    CHECK_CLOSE(real("b", 7, 8, 9), 8, 0);
    CHECK_CLOSE(real("(c)", 7, 8, (double)INFINITY), (double)INFINITY, 0);
}

static void steps_read_only_what_is_before_them(void)
{
    weft_tape tape;
    CHECK(parse("a * (b + 2) % sin(c) ? max(a, d) : pow(b, 3) - 2 / a", WEFT_CLASS_REAL, &tape));
    for (int i = 0; i < tape.n_steps; i++) {
        for (int k = 0; k < weft_tape_arity((weft_tape_code)tape.steps[i].code); k++) {
            CHECK(tape.steps[i].value[k] < tape.n_operands + i);
        }
    }
}

static void expect_error(const char *formula, weft_class klass, int n_operands, const char *message)
{
    weft_tape tape;
    char why[256] = "";
    if (weft_tape_parse(formula, klass, n_operands, &tape, why, sizeof why)) {
        CHECK_FAIL("%s: expected an error", formula);
    } else {
        CHECK_CONTAINS(why, message);
        CHECK_CONTAINS(why, "position");
    }
}

static void errors_say_where_and_what(void)
{
    expect_error("", WEFT_CLASS_REAL, 1, "position 1: expected a value, got the end");
    expect_error("a +", WEFT_CLASS_REAL, 1, "position 4: expected a value, got the end");
    expect_error("a + * 2", WEFT_CLASS_REAL, 1, "position 5: expected a value, got '*'");
    expect_error("(a + 2", WEFT_CLASS_REAL, 1, "expected ')', got the end");
    expect_error("a 2", WEFT_CLASS_REAL, 1, "position 3: expected an operator or the end, got '2'");
    expect_error("sin a", WEFT_CLASS_REAL, 1, "position 5: expected '('");
    expect_error("max(a)", WEFT_CLASS_REAL, 1, "expected ','");
    expect_error("sin(a, a)", WEFT_CLASS_REAL, 1, "expected ')'");
    expect_error("a + b", WEFT_CLASS_REAL, 1, "position 5: 'b' is unknown");
    expect_error("sine(a)", WEFT_CLASS_REAL, 1, "'sine' is unknown");
    expect_error("a ? 1", WEFT_CLASS_REAL, 1, "expected ':'");
    expect_error("1e", WEFT_CLASS_REAL, 1, "exponent");
    expect_error(".", WEFT_CLASS_REAL, 1, "expected a number");
    expect_error("1e999", WEFT_CLASS_REAL, 1, "out of range");
    expect_error("A", WEFT_CLASS_REAL, 1, "got 'A'");
    expect_error("add(a, a)", WEFT_CLASS_REAL, 1, "'add' is unknown");
}

static void errors_of_class(void)
{
    expect_error("a & a", WEFT_CLASS_REAL, 1, "bitand has no meaning in real formulas");
    expect_error("a << 1", WEFT_CLASS_REAL, 1, "shl");
    expect_error("bits", WEFT_CLASS_REAL, 1, "bits");
    expect_error("sin(a)", WEFT_CLASS_INTEGER, 1, "sin has no meaning in integer formulas");
    expect_error("a + 0.5", WEFT_CLASS_INTEGER, 1, "whole number");
    expect_error("a * 1e16", WEFT_CLASS_INTEGER, 1, "whole number");
    expect_error("a + a", WEFT_CLASS_BOOL, 1, "add has no meaning in bool formulas");
    expect_error("a && 2", WEFT_CLASS_BOOL, 1, "expected 0 or 1");
    expect_error("a % a", WEFT_CLASS_COMPLEX, 1, "mod has no meaning in complex formulas");
    expect_error("erf(a)", WEFT_CLASS_COMPLEX, 1, "erf");
}

/* Deep nesting, endless chains and long formulas are refused. */
static void bounds(void)
{
    char text[20001];
    memset(text, '(', 20000);
    text[20000] = '\0';
    expect_error(text, WEFT_CLASS_REAL, 1, "nested deeper");
    memset(text, '-', 20000);
    expect_error(text, WEFT_CLASS_REAL, 1, "nested deeper");
    for (int i = 0; i < 20000; i += 4) {
        memcpy(text + i, "a?a:", 4);
    }
    expect_error(text, WEFT_CLASS_REAL, 1, "nested deeper");
    size_t n = 0;
    for (int i = 0; i < 60; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%sa * %d", i ? " + " : "", i + 2);
    }
    expect_error(text, WEFT_CLASS_REAL, 1, "more than 48 steps");
    memset(text, '9', 20000);
    text[20000] = '\0';
    expect_error(text, WEFT_CLASS_REAL, 1, "out of range");
}

static void messages_fit_the_callers_buffer(void)
{
    weft_tape tape;
    char why[8];
    memset(why, 'x', sizeof why);
    CHECK(!weft_tape_parse("nonsense(a)", WEFT_CLASS_REAL, 1, &tape, why, sizeof why));
    CHECK(memchr(why, '\0', sizeof why) != NULL);
}

static void codes_have_names_and_arities(void)
{
    for (int i = 0; i < WEFT_TAPE_CODE_COUNT; i++) {
        weft_tape_code code = (weft_tape_code)i;
        CHECK(weft_tape_code_name(code) != NULL);
        CHECK(weft_tape_arity(code) >= 0 && weft_tape_arity(code) <= 3);
        for (int k = 0; k < i; k++) {
            CHECK(strcmp(weft_tape_code_name(code), weft_tape_code_name((weft_tape_code)k)) != 0);
        }
    }
    CHECK_EQ_INT(weft_tape_arity(WEFT_TAPE_SELECT), 3);
    CHECK_EQ_INT(weft_tape_arity(WEFT_TAPE_CONST), 0);
}

CHECK_MAIN("tape", CHECK_CASE(precedence_is_that_of_c), CHECK_CASE(integer_precedence_is_that_of_c),
           CHECK_CASE(numbers_are_exact), CHECK_CASE(functions_equal_the_c_library),
           CHECK_CASE(erfinv_inverts_erf), CHECK_CASE(nan_wins_min_and_max),
           CHECK_CASE(remainder_has_the_divisors_sign), CHECK_CASE(integers_wrap_at_their_width),
           CHECK_CASE(integer_division_never_traps), CHECK_CASE(shifts_by_the_width_leave_the_sign),
           CHECK_CASE(integer_powers), CHECK_CASE(truth_in_bool_formulas),
           CHECK_CASE(equal_parts_are_shared), CHECK_CASE(an_operand_alone),
           CHECK_CASE(steps_read_only_what_is_before_them), CHECK_CASE(errors_say_where_and_what),
           CHECK_CASE(errors_of_class), CHECK_CASE(bounds),
           CHECK_CASE(messages_fit_the_callers_buffer), CHECK_CASE(codes_have_names_and_arities))
