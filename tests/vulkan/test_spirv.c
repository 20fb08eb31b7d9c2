/* tests/vulkan/test_spirv.c -- shaders written at run time: every tape code on special values
 * against the tape's definition, and the modules against spirv-val. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/spirv/float_modes.h"
#include "backends/vulkan/spirv/writer.h"
#include "tests/check.h"
#include "weft/ops.h"
#include "weft/tape.h"

enum { REAL = 1, WHOLE = 2, TRUTH = 4, MAX_GRID = 2048 };

static const struct {
    const char *formula;
    int n, classes;
} formulas[] = {
    {"-a", 1, REAL | WHOLE},
    {"!a", 1, REAL | WHOLE | TRUTH},
    {"~a", 1, WHOLE},
    {"abs(a)", 1, REAL | WHOLE},
    {"sign(a)", 1, REAL | WHOLE},
    {"floor(a)", 1, REAL},
    {"ceil(a)", 1, REAL},
    {"rint(a)", 1, REAL},
    {"trunc(a)", 1, REAL},
    {"sqrt(a)", 1, REAL},
    {"rsqrt(a)", 1, REAL},
    {"exp(a)", 1, REAL},
    {"expm1(a)", 1, REAL},
    {"log(a)", 1, REAL},
    {"log1p(a)", 1, REAL},
    {"log2(a)", 1, REAL},
    {"sin(a)", 1, REAL},
    {"cos(a)", 1, REAL},
    {"tan(a)", 1, REAL},
    {"asin(a)", 1, REAL},
    {"acos(a)", 1, REAL},
    {"atan(a)", 1, REAL},
    {"sinh(a)", 1, REAL},
    {"cosh(a)", 1, REAL},
    {"tanh(a)", 1, REAL},
    {"erf(a)", 1, REAL},
    {"erfinv(a)", 1, REAL},
    {"isnan(a)", 1, REAL},
    {"isinf(a)", 1, REAL},
    {"isfinite(a)", 1, REAL},
    {"a + b", 2, REAL | WHOLE},
    {"a - b", 2, REAL | WHOLE},
    {"a * b", 2, REAL | WHOLE},
    {"a / b", 2, REAL | WHOLE},
    {"a % b", 2, REAL | WHOLE},
    {"min(a, b)", 2, REAL | WHOLE},
    {"max(a, b)", 2, REAL | WHOLE},
    {"pow(a, b)", 2, REAL | WHOLE},
    {"atan2(a, b)", 2, REAL},
    {"a < b", 2, REAL | WHOLE | TRUTH},
    {"a <= b", 2, REAL | WHOLE | TRUTH},
    {"a == b", 2, REAL | WHOLE | TRUTH},
    {"a != b", 2, REAL | WHOLE | TRUTH},
    {"a && b", 2, REAL | WHOLE | TRUTH},
    {"a || b", 2, REAL | WHOLE | TRUTH},
    {"a & b", 2, WHOLE},
    {"a | b", 2, WHOLE},
    {"a ^ b", 2, WHOLE},
    {"a << b", 2, WHOLE},
    {"a >> b", 2, WHOLE},
    {"a ? b : a", 2, REAL | WHOLE | TRUTH},
    /* several steps: constants, the width, and wrapping between them */
    {"(a * b + 77) / 3 - bits", 2, WHOLE},
    {"abs(a) * 0.1 + abs(b) * (abs(a) + 2.5)", 2, REAL},
    {"a ? b : !a", 2, TRUTH},
};

/* Beyond these, the digits above the width are not compared. */
static const double reals[] = {
    0,    -0.0, 1,        -1,        0.5,     -0.5,    2.5,     -1.5,   3,      -7,
    0.1,  -0.3, 1e-5,     -1e-20,    0.99999, 1.00001, 88.5,    -87.25, 100.75, -104.5,
    710,  -700, 1e4,      -123456.7, 8388609, 1e10,    -2.5e18, 1e30,   -1e38,  1e-30,
    12.9, -4.2, INFINITY, -INFINITY, NAN,     1.2e-38, 1e-40,   -1e-45};

static weft_class class_of(int classes)
{
    return classes == REAL    ? WEFT_CLASS_REAL
           : classes == WHOLE ? WEFT_CLASS_INTEGER
                              : WEFT_CLASS_BOOL;
}

/* The values of one operand, as doubles and as integers. */
typedef struct grid {
    int n;
    double real[64];
    int64_t whole[64];
} grid;

static grid grid_of(weft_dtype dtype)
{
    grid g = {0};
    if (weft_dtype_is_float(dtype)) {
        for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
            g.real[g.n++] = dtype == WEFT_FLOAT32 ? (double)(float)reals[i] : reals[i];
        }
        return g;
    }
    static const int64_t small[] = {0, 1, -1, 2, -2, 3, 5, 7, -8, 8, 13, 16, 31, 32, 63, 64, 100};
    int bits = 8 * (int)weft_dtype_size(dtype);
    int64_t top = dtype == WEFT_BOOL ? 1 : (int64_t)(~UINT64_C(0) >> (65 - bits));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        if (dtype != WEFT_BOOL || small[i] == 0 || small[i] == 1) {
            g.whole[g.n++] = weft_dtype_is_signed(dtype) || small[i] >= 0 ? small[i] : -small[i];
        }
    }
    if (dtype != WEFT_BOOL) {
        bool is_signed = weft_dtype_is_signed(dtype);
        g.whole[g.n++] = top;
        g.whole[g.n++] = top - 1;
        g.whole[g.n++] = is_signed ? -top - 1 : bits == 64 ? -1 : 2 * top + 1;
        g.whole[g.n++] = is_signed ? -top : (int64_t)((uint64_t)top + 1);
    }
    for (int i = 0; i < g.n; i++) {
        g.real[i] = (double)g.whole[i];
    }
    return g;
}

/* The value that a device uses if it takes subnormals for 0. */
static double flushed(double x, weft_dtype dtype)
{
    double least = dtype == WEFT_FLOAT64 ? DBL_MIN : (double)FLT_MIN;
    return fabs(x) < least ? copysign(0, x) : x;
}

static bool is_close(double actual, double expected, weft_dtype dtype)
{
    bool wide = dtype == WEFT_FLOAT64;
    double least = wide ? DBL_MIN : (double)FLT_MIN, close = wide ? 1e-15 : 4e-7;
    expected = wide ? expected : (double)(float)expected;
    if (isnan(expected) || isnan(actual)) {
        return isnan(expected) && isnan(actual);
    }
    if (actual == expected) {
        return signbit(actual) == signbit(expected);
    }
    if (isinf(actual) || isinf(expected)) { /* an ulp from the end of the range */
        return fabs(actual) > (wide ? 1.79e308 : 3.4e38) &&
               fabs(expected) > (wide ? 1.79e308 : 3.4e38) && actual * expected > 0;
    }
    return fabs(actual - expected) <= fmax(close * fabs(expected), least);
}

/* The result for subnormals as they are, or taken for 0. */
static bool real_agrees(const weft_tape *tape, const double *x, double actual, weft_dtype dtype)
{
    for (int mask = 0; mask < 4; mask++) {
        const double in[2] = {mask & 1 ? flushed(x[0], dtype) : x[0],
                              mask & 2 ? flushed(x[1], dtype) : x[1]};
        if (is_close(actual, weft_tape_eval(tape, in), dtype)) {
            return true;
        }
    }
    return false;
}

/* ---- every code ----------------------------------------------------------------------------- */

static weft_array *made(const grid *g, weft_dtype dtype, int k, int n)
{
    unsigned char bytes[MAX_GRID * 8];
    for (int i = 0; i < n; i++) {
        int from = k == 0 ? i % g->n : i / g->n;
        float narrow = (float)g->real[from];
        size_t size = weft_dtype_size(dtype);
        const void *value = dtype == WEFT_FLOAT32   ? (const void *)&narrow
                            : dtype == WEFT_FLOAT64 ? (const void *)&g->real[from]
                                                    : (const void *)&g->whole[from];
        memcpy(bytes + (size_t)i * size, value, size); /* little-endian */
    }
    return weft_from_data(bytes, dtype, WEFT_DIMS(n));
}

static void check_results(const weft_tape *tape, weft_dtype dtype, const grid *g, int n,
                          weft_array *y, const char *formula)
{
    static double reals_out[MAX_GRID];
    static int64_t wholes_out[MAX_GRID];
    bool is_real = weft_dtype_is_float(dtype);
    bool read = is_real ? CHECK_OK(weft_read(y, WEFT_FLOAT64, reals_out, n))
                        : CHECK_OK(weft_read(y, WEFT_INT64, wholes_out, n));
    for (int i = 0; i < n && read; i++) {
        const double x[2] = {g->real[i % g->n], g->real[i / g->n % g->n]};
        const int64_t k[2] = {g->whole[i % g->n], g->whole[i / g->n % g->n]};
        if (is_real && !real_agrees(tape, x, reals_out[i], dtype)) {
            CHECK_FAIL("%s (%s) of %.9g, %.9g: expected %.17g, got %.17g", formula,
                       weft_dtype_name(dtype), x[0], x[1], weft_tape_eval(tape, x), reals_out[i]);
            return;
        }
        int64_t expected = is_real              ? 0
                           : dtype == WEFT_BOOL ? weft_tape_eval(tape, x) != 0
                                                : weft_tape_eval_int(tape, k, dtype);
        if (!is_real && wholes_out[i] != expected) {
            CHECK_FAIL("%s (%s) of %lld, %lld: expected %lld, got %lld", formula,
                       weft_dtype_name(dtype), (long long)k[0], (long long)k[1],
                       (long long)expected, (long long)wholes_out[i]);
            return;
        }
    }
}

static void check_formula(int f, weft_dtype dtype, int classes)
{
    static weft_op ops[sizeof formulas / sizeof *formulas * WEFT_DTYPE_COUNT];
    static int used;
    const char *formula = formulas[f].formula;
    weft_op *op = &ops[used++]; /* ops outlive their nodes */
    *op = (weft_op){.name = "test_formula", .family = WEFT_ELEMENTWISE, .arity = formulas[f].n};
    op->formula = (weft_formula){.real = classes == REAL ? formula : NULL,
                                 .integer = classes == WHOLE ? formula : NULL,
                                 .boolean = classes == TRUTH ? formula : NULL};
    char why[256];
    weft_tape tape;
    if (!check_that(
            weft_tape_parse(formula, class_of(classes), formulas[f].n, &tape, why, sizeof why),
            __FILE__, __LINE__, "%s", why)) {
        return;
    }
    grid g = grid_of(dtype);
    int n = formulas[f].n == 1 ? g.n : g.n * g.n;
    weft_scope_open();
    weft_array *in[2] = {made(&g, dtype, 0, n), made(&g, dtype, 1, n)};
    weft_array *y = weft_keep(weft_apply(op, in, formulas[f].n, NULL));
    weft_device_reset_counts(weft_default_device());
    if (CHECK_OK(weft_eval(y))) {
        CHECK_EQ_INT(weft_device_counts(weft_default_device()).elementwise, 1);
        check_results(&tape, dtype, &g, n, y, formula);
    }
    weft_drop(y);
    weft_scope_close(NULL);
}

static void check_class(int classes, weft_dtype first, weft_dtype last)
{
    weft_device *vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
        return;
    }
    weft_set_default_device(vulkan);
    for (weft_dtype dtype = first; dtype <= last; dtype++) {
        for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++) {
            if (formulas[f].classes & classes) {
                check_formula((int)f, dtype, classes);
            }
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

static void real_codes_are_their_definition(void)
{
    check_class(REAL, WEFT_FLOAT32, WEFT_FLOAT64);
}

static void integer_codes_are_their_definition(void)
{
    check_class(WHOLE, WEFT_UINT8, WEFT_INT64);
}

static void bool_codes_are_their_definition(void)
{
    check_class(TRUTH, WEFT_BOOL, WEFT_BOOL);
}

/* ---- modules -------------------------------------------------------------------------------- */

static bool has_validator;

/* The written module, as it is and with all float modes. */
static void validate(const spirv_plan *plan, const char *label)
{
    spirv_words written = {0}, words = {0};
    if (!CHECK(weft__spirv_write(plan, &written))) {
        return;
    }
    weft__spirv_set_float_modes(written.at, written.n, plan->lanes == 4 ? 0 : 0x1ff, &words);
    weft_free(written.at);
    const char *path = check_temporary("module.spv");
    FILE *file = fopen(path, "wb");
    if (CHECK(file != NULL)) {
        CHECK_EQ_INT(fwrite(words.at, 4, words.n, file), words.n);
        fclose(file);
        char command[1024];
        snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s", path);
        check_that(!has_validator || system(command) == 0, __FILE__, __LINE__, "%s: not valid",
                   label);
    }
    weft_free(words.at);
}

/* A tape of all codes of a class, in two halves: each value is the next step's operand. */
static weft_tape all_codes(weft_class klass, bool second)
{
    static const unsigned classes[] = {REAL, WHOLE, TRUTH};
    weft_tape tape = {.klass = klass, .n_operands = 2};
    for (size_t f = second; f < sizeof formulas / sizeof *formulas; f += 2) {
        weft_tape one;
        char why[256];
        if ((formulas[f].classes & (int)classes[klass]) && tape.n_steps < WEFT_TAPE_MAX_STEPS &&
            weft_tape_parse(formulas[f].formula, klass, 2, &one, why, sizeof why) &&
            one.n_steps == 1) {
            weft_tape_step step = one.steps[0];
            step.value[0] = (unsigned char)(tape.n_steps ? 1 + tape.n_steps : 0);
            tape.steps[tape.n_steps++] = step;
        }
    }
    for (int code = WEFT_TAPE_ROUND16; klass == WEFT_CLASS_REAL && code <= WEFT_TAPE_ROUNDB;
         code++) {
        tape.steps[tape.n_steps] = (weft_tape_step){.code = (unsigned char)code,
                                                    .value = {(unsigned char)(1 + tape.n_steps)}};
        tape.n_steps++;
    }
    return tape;
}

static void modules_of_all_codes_are_valid(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_FLOAT64, WEFT_INT8,   WEFT_UINT16,
                                        WEFT_INT32,   WEFT_INT64,   WEFT_UINT64, WEFT_BOOL};
    has_validator = system("spirv-val --version >/dev/null 2>&1") == 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (int half = 0; half < 2; half++) {
            weft_tape tape = all_codes(weft_dtype_class(dtypes[i]), half);
            spirv_plan plan = {.tape = &tape,
                               .n_in = 2,
                               .in = {dtypes[i], dtypes[i]},
                               .out = half ? WEFT_BOOL : dtypes[i],
                               .place = {SPIRV_DENSE, SPIRV_WALK},
                               .lanes = 1};
            validate(&plan, weft_dtype_name(dtypes[i]));
            if (weft_dtype_size(dtypes[i]) <= 4) {
                plan.lanes = 4;
                plan.splat[1] = half;
                validate(&plan, weft_dtype_name(dtypes[i]));
            }
        }
    }
}

static void modules_of_conversions_are_valid(void)
{
    const weft_tape none = {.n_operands = 1};
    has_validator = system("spirv-val --version >/dev/null 2>&1") == 0;
    for (int from = 0; from < WEFT_DTYPE_COUNT; from++) {
        for (int to = 0; to < WEFT_DTYPE_COUNT; to++) {
            spirv_plan plan = {.tape = &none,
                               .n_in = 1,
                               .in = {(weft_dtype)from},
                               .out = (weft_dtype)to,
                               .place = {(unsigned char)((from + to) % 3)},
                               .lanes = 1};
            char label[64];
            snprintf(label, sizeof label, "%s to %s", weft_dtype_name((weft_dtype)from),
                     weft_dtype_name((weft_dtype)to));
            validate(&plan, label);
        }
    }
}

static void only_needed_capabilities_are_declared(void)
{
    const weft_tape none = {.n_operands = 1};
    spirv_plan plan = {.tape = &none, .n_in = 1, .in = {WEFT_FLOAT64}, .out = WEFT_FLOAT64};
    CHECK(!weft__spirv_needs(&plan).float64);
    plan.out = WEFT_FLOAT32;
    CHECK(weft__spirv_needs(&plan).float64);
    CHECK(!weft__spirv_needs(&plan).int64);
    plan.in[0] = WEFT_UINT64;
    CHECK(weft__spirv_needs(&plan).int64);
    CHECK(!weft__spirv_needs(&plan).float64);
}

CHECK_MAIN("vulkan_spirv", CHECK_CASE(modules_of_all_codes_are_valid),
           CHECK_CASE(modules_of_conversions_are_valid),
           CHECK_CASE(only_needed_capabilities_are_declared),
           CHECK_CASE(real_codes_are_their_definition),
           CHECK_CASE(integer_codes_are_their_definition),
           CHECK_CASE(bool_codes_are_their_definition))
