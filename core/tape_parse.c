/* core/tape_parse.c -- the parser of elementwise formulas: recursive descent; equal steps are
 * merged. It allocates nothing and does not depend on the locale. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/tape_codes.h"

enum { MAX_DEPTH = 128, MAX_NAME = 16 };

typedef struct parser {
    const char *text, *at;
    weft_tape *tape;
    int depth;
    bool failed;
    char *why;
    size_t size;
} parser;

static int parse_expression(parser *p);

/* Only the first failure is reported. */
static int fail(parser *p, const char *where, const char *format, ...) WEFT_PRINTF(3, 4);
static int fail(parser *p, const char *where, const char *format, ...)
{
    if (!p->failed) {
        p->failed = true;
        char text[160];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        snprintf(p->why, p->size, "formula: position %d: %s in \"%s\"", (int)(where - p->text) + 1,
                 text, p->text);
    }
    return 0;
}

static const char *const class_names[WEFT_CLASS_COUNT] = {"real", "integer", "bool", "complex"};

static bool same_step(const weft_tape_step *a, const weft_tape_step *b)
{
    return a->code == b->code && memcmp(a->value, b->value, sizeof a->value) == 0 &&
           memcmp(&a->constant, &b->constant, sizeof a->constant) == 0;
}

/* The value of a step: of an existing equal step, or of a new one. */
static int emit(parser *p, const char *where, weft_tape_step step)
{
    weft_tape *t = p->tape;
    const weft__tape_code_info *info = &weft__tape_codes[step.code];
    if (!(info->classes >> t->klass & 1)) {
        return fail(p, where, "%s has no meaning in %s formulas", info->name,
                    class_names[t->klass]);
    }
    for (int i = 0; i < t->n_steps; i++) {
        if (same_step(&t->steps[i], &step)) {
            return t->n_operands + i;
        }
    }
    if (t->n_steps == WEFT_TAPE_MAX_STEPS) {
        return fail(p, where, "more than %d steps", WEFT_TAPE_MAX_STEPS);
    }
    t->steps[t->n_steps] = step;
    return t->n_operands + t->n_steps++;
}

static int emit_code(parser *p, const char *where, weft_tape_code code, const int *values)
{
    weft_tape_step step = {.code = (unsigned char)code};
    for (int i = 0; i < weft_tape_arity(code); i++) {
        step.value[i] = (unsigned char)values[i];
    }
    return p->failed ? 0 : emit(p, where, step);
}

static int emit_constant(parser *p, const char *where, double value)
{
    weft_class klass = p->tape->klass;
    if (klass == WEFT_CLASS_INTEGER && !(value == floor(value) && fabs(value) <= 0x1p53)) {
        return fail(p, where, "expected a whole number up to 2^53, got %g", value);
    }
    if (klass == WEFT_CLASS_BOOL && value != 0 && value != 1) {
        return fail(p, where, "expected 0 or 1 in a bool formula, got %g", value);
    }
    return emit(p, where, (weft_tape_step){.code = WEFT_TAPE_CONST, .constant = value});
}

/* ---- Characters ----------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

static void skip_spaces(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') {
        p->at++;
    }
}

static bool take(parser *p, const char *symbol)
{
    skip_spaces(p);
    size_t n = strlen(symbol);
    if (strncmp(p->at, symbol, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

static void expect(parser *p, const char *symbol)
{
    if (p->failed || take(p, symbol)) {
        return;
    }
    if (*p->at) {
        fail(p, p->at, "expected '%s', got '%c'", symbol, *p->at);
    } else {
        fail(p, p->at, "expected '%s', got the end", symbol);
    }
}

/* ---- Numbers, names, calls ------------------------------------------------------------------ */

/* Parses digits into a 64-bit mantissa; those beyond 19 are only counted. Returns the number of
 * digits. */
static int take_digits(parser *p, uint64_t *mantissa, int *dropped)
{
    int n = 0;
    for (; is_digit(*p->at); p->at++, n++) {
        if (*mantissa < UINT64_C(1000000000000000000)) {
            *mantissa = *mantissa * 10 + (uint64_t)(*p->at - '0');
        } else {
            ++*dropped;
        }
    }
    return n;
}

static int take_exponent(parser *p)
{
    if (*p->at != 'e' && *p->at != 'E') {
        return 0;
    }
    p->at++;
    bool negative = *p->at == '-';
    if (*p->at == '-' || *p->at == '+') {
        p->at++;
    }
    if (!is_digit(*p->at)) {
        fail(p, p->at, "expected the digits of an exponent");
    }
    int value = 0;
    for (; is_digit(*p->at); p->at++) {
        value = value < 10000 ? value * 10 + (*p->at - '0') : value;
    }
    return negative ? -value : value;
}

static int parse_number(parser *p)
{
    const char *start = p->at;
    uint64_t mantissa = 0;
    int dropped = 0, dropped_after_point = 0, n_after_point = 0;
    int n = take_digits(p, &mantissa, &dropped);
    if (*p->at == '.') {
        p->at++;
        n_after_point = take_digits(p, &mantissa, &dropped_after_point);
    }
    if (n + n_after_point == 0) {
        return fail(p, start, "expected a number");
    }
    int exponent = dropped - (n_after_point - dropped_after_point) + take_exponent(p);
    if (exponent > 330 || exponent < -330) {
        return fail(p, start, "the number is out of range");
    }
    long double power = 1;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--) {
        power *= 10; /* exact in the x87 format up to 10^27 */
    }
    long double value = (long double)mantissa;
    return emit_constant(p, start, (double)(exponent < 0 ? value / power : value * power));
}

static int parse_call(parser *p, const char *where, weft_tape_code code)
{
    int values[3] = {0};
    expect(p, "(");
    for (int i = 0; i < weft_tape_arity(code) && !p->failed; i++) {
        if (i > 0) {
            expect(p, ",");
        }
        values[i] = parse_expression(p);
    }
    expect(p, ")");
    return emit_code(p, where, code, values);
}

static int parse_name(parser *p)
{
    const char *start = p->at;
    char name[MAX_NAME];
    size_t n = 0;
    for (; is_letter(*p->at) || is_digit(*p->at); p->at++) {
        if (n < sizeof name - 1) {
            name[n++] = *p->at;
        }
    }
    name[n] = '\0';
    if (n == 1 && name[0] >= 'a' && name[0] < 'a' + p->tape->n_operands) {
        return name[0] - 'a';
    }
    for (int code = 0; code < WEFT_TAPE_CODE_COUNT; code++) {
        if (weft__tape_codes[code].function && strcmp(name, weft__tape_codes[code].name) == 0) {
            return parse_call(p, start, (weft_tape_code)code);
        }
    }
    if (strcmp(name, "bits") == 0) {
        return emit_code(p, start, WEFT_TAPE_BITS, NULL);
    }
    if (strcmp(name, "pi") == 0) {
        return emit_constant(p, start, 3.14159265358979323846);
    }
    if (strcmp(name, "inf") == 0) {
        return emit_constant(p, start, (double)INFINITY);
    }
    if (strcmp(name, "nan") == 0) {
        return emit_constant(p, start, (double)NAN);
    }
    return fail(p, start, "'%s' is unknown; %d operands", name, p->tape->n_operands);
}

/* ---- Expressions ---------------------------------------------------------------------------- */

static int parse_primary(parser *p)
{
    skip_spaces(p);
    if (is_digit(*p->at) || *p->at == '.') {
        return parse_number(p);
    }
    if (is_letter(*p->at)) {
        return parse_name(p);
    }
    if (take(p, "(")) {
        int value = parse_expression(p);
        expect(p, ")");
        return value;
    }
    if (!*p->at) {
        return fail(p, p->at, "expected a value, got the end");
    }
    return fail(p, p->at, "expected a value, got '%c'", *p->at);
}

static int parse_unary(parser *p)
{
    if (p->failed) {
        return 0;
    }
    if (p->depth == MAX_DEPTH) {
        return fail(p, p->at, "nested deeper than %d", MAX_DEPTH);
    }
    p->depth++;
    skip_spaces(p);
    const char *start = p->at;
    int value;
    if (take(p, "-")) {
        value = parse_unary(p);
        value = emit_code(p, start, WEFT_TAPE_NEG, &value);
    } else if (take(p, "~")) {
        value = parse_unary(p);
        value = emit_code(p, start, WEFT_TAPE_BITNOT, &value);
    } else if (take(p, "!")) {
        value = parse_unary(p);
        value = emit_code(p, start, WEFT_TAPE_NOT, &value);
    } else {
        value = parse_primary(p);
    }
    p->depth--;
    return value;
}

typedef struct binary_operator {
    const char *symbol;
    unsigned char level; /* a higher level binds tighter */
    unsigned char code;
    bool swapped; /* a > b becomes b < a */
} binary_operator;

enum { LOWEST_LEVEL = 1 };

/* Longer symbols come before their prefixes. */
static const binary_operator operators[] = {
    {"||", 1, WEFT_TAPE_OR, false},    {"&&", 2, WEFT_TAPE_AND, false},
    {"|", 3, WEFT_TAPE_BITOR, false},  {"^", 4, WEFT_TAPE_BITXOR, false},
    {"&", 5, WEFT_TAPE_BITAND, false}, {"==", 6, WEFT_TAPE_EQ, false},
    {"!=", 6, WEFT_TAPE_NE, false},    {"<<", 8, WEFT_TAPE_SHL, false},
    {">>", 8, WEFT_TAPE_SHR, false},   {"<=", 7, WEFT_TAPE_LE, false},
    {">=", 7, WEFT_TAPE_LE, true},     {"<", 7, WEFT_TAPE_LT, false},
    {">", 7, WEFT_TAPE_LT, true},      {"+", 9, WEFT_TAPE_ADD, false},
    {"-", 9, WEFT_TAPE_SUB, false},    {"*", 10, WEFT_TAPE_MUL, false},
    {"/", 10, WEFT_TAPE_DIV, false},   {"%", 10, WEFT_TAPE_MOD, false},
};

/* The next operator, if it is of this level or a higher one. */
static const binary_operator *next_operator(parser *p, int level)
{
    skip_spaces(p);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const binary_operator *o = &operators[i];
        if (strncmp(p->at, o->symbol, strlen(o->symbol)) == 0) {
            return o->level >= level ? o : NULL;
        }
    }
    return NULL;
}

static int parse_binary(parser *p, int level)
{
    int left = parse_unary(p);
    const binary_operator *o;
    while (!p->failed && (o = next_operator(p, level))) {
        const char *where = p->at;
        p->at += strlen(o->symbol);
        int right = parse_binary(p, o->level + 1);
        int values[2] = {o->swapped ? right : left, o->swapped ? left : right};
        left = emit_code(p, where, (weft_tape_code)o->code, values);
    }
    return left;
}

static int parse_expression(parser *p)
{
    if (p->failed) {
        return 0;
    }
    if (p->depth == MAX_DEPTH) {
        return fail(p, p->at, "nested deeper than %d", MAX_DEPTH);
    }
    p->depth++;
    int values[3] = {parse_binary(p, LOWEST_LEVEL)};
    const char *where = p->at;
    if (!p->failed && take(p, "?")) {
        values[1] = parse_expression(p);
        expect(p, ":");
        values[2] = parse_expression(p);
        values[0] = emit_code(p, where, WEFT_TAPE_SELECT, values);
    }
    p->depth--;
    return values[0];
}

/* Makes the result the last step. A result that is an operand becomes a step, unless it is operand
 * 0. */
static void finish(parser *p, int result)
{
    if (result > 0 && result < p->tape->n_operands) {
        emit_code(p, p->at, WEFT_TAPE_SELECT, (int[]){result, result, result});
    }
}

bool weft_tape_parse(const char *formula, weft_class klass, int n_operands, weft_tape *out,
                     char *why, size_t size)
{
    parser p = {.text = formula, .at = formula, .tape = out, .why = why, .size = size};
    memset(out, 0, sizeof *out);
    out->klass = klass;
    out->n_operands = n_operands;
    int result = parse_expression(&p);
    skip_spaces(&p);
    if (!p.failed && *p.at) {
        fail(&p, p.at, "expected an operator or the end, got '%c'", *p.at);
    }
    finish(&p, result);
    return !p.failed;
}
