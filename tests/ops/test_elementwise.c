/* tests/ops/test_elementwise.c -- the CPU's elementwise kernels against the definition of the
 * values, for every op, dtype and instruction set: single kernels and chains. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/walk.h"
#include "core/builtin.h"
#include "tests/check.h"

enum { COUNT = 1500 }; /* more than a block, and not a multiple of one */

static uint64_t state = 1;

static uint64_t next_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state ^ state >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static double between(double low, double high)
{
    return low + (high - low) * ((double)(next_word() >> 11) * 0x1p-53);
}

static weft_tensor make(weft_dtype dtype, void *data)
{
    return (weft_tensor){.dtype = dtype, .shape = {1, {COUNT}}, .strides = {1}, .data = data};
}

/* ---- Inputs --------------------------------------------------------------------------------- */

static const double specials[] = {0,     -0.0,   1,     -1,    0.5,    2,      -2,    INFINITY,
                                  3,     -3,     1e-3,  -1e-3, 1e-40,  -1e-40, 88.6,  -88.6,
                                  80,    -80,    0.25,  -0.75, 0.9999, 7.5,    -7.5,  NAN,
                                  1e-30, -1e-30, 127.5, 1.5,   2.5,    -0.5,   17.25, -INFINITY};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* First every pair of special values, then numbers of the op's domain, and some from further away.
 */
static double sample_real(const weft_op *op, int operand, int i)
{
    if (i < SPECIALS * SPECIALS) {
        return specials[operand % 2 ? i % SPECIALS : i / SPECIALS];
    }
    bool given = op->domain[0] != 0 || op->domain[1] != 0;
    double low = given ? op->domain[0] : -2, high = given ? op->domain[1] : 2;
    return i % 3 ? between(low, high) : between(-30, 30);
}

static int64_t sample_whole(weft_dtype dtype, int i)
{
    int spare = 64 - 8 * (int)weft_dtype_size(dtype);
    uint64_t word = next_word();
    switch (i % 4) {
    case 0: /* any bits */
        return weft_dtype_is_signed(dtype) ? (int64_t)(word << spare) >> spare
                                           : (int64_t)(word << spare >> spare);
    case 1: /* the ends: 0, -1, the largest, the smallest */
        word = (word & 1 ? ~UINT64_C(0) : 0) ^ (word & 2 ? UINT64_C(1) << (63 - spare) : 0);
        return weft_dtype_is_signed(dtype) ? (int64_t)(word << spare) >> spare
                                           : (int64_t)(word << spare >> spare);
    default:
        return weft_dtype_is_signed(dtype) ? (int64_t)(word % 21) - 10 : (int64_t)(word % 21);
    }
}

static void fill(const weft_op *op, const weft_tensor *t, int operand)
{
    for (int i = 0; i < COUNT; i++) {
        switch (weft_dtype_class(t->dtype)) {
        case WEFT_CLASS_REAL:
            weft_tensor_set(t, i, sample_real(op, operand, i));
            break;
        case WEFT_CLASS_INTEGER:
            weft_tensor_set_int(t, i, sample_whole(t->dtype, i + operand));
            break;
        case WEFT_CLASS_BOOL:
            weft_tensor_set_int(t, i, (int64_t)(next_word() >> 40 & 1));
            break;
        default:
            ((weft_complex64 *)t->data)[i] =
                (weft_complex64){(float)between(-2, 2), (float)between(-2, 2)};
            break;
        }
    }
}

/* ---- The definition ------------------------------------------------------------------------- */

/* The distance between neighbors of the dtype at x. */
static double ulp(weft_dtype dtype, double x)
{
    static const struct {
        weft_dtype dtype;
        int digits, lowest;
    } formats[] = {{WEFT_FLOAT16, 11, -24},
                   {WEFT_BFLOAT16, 8, -133},
                   {WEFT_FLOAT32, 24, -149},
                   {WEFT_FLOAT64, 53, -1074}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].dtype == dtype) {
            int e;
            frexp(x, &e);
            return ldexp(1, e - formats[i].digits > formats[i].lowest ? e - formats[i].digits
                                                                      : formats[i].lowest);
        }
    }
    return 0;
}

static double largest(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT16    ? 65504
           : dtype == WEFT_BFLOAT16 ? 0x1.fep127
           : dtype == WEFT_FLOAT32  ? 0x1.fffffep127
                                    : 0x1.fffffffffffffp1023;
}

/* One step: 4 ulp for the computation and half an ulp for the store. Several steps: also the
 * rounding of intermediates, which the size of the operands bounds if these are ordinary
 * numbers. */
static bool close_enough(weft_dtype dtype, const weft_tape *tape, const double *operands,
                         double got, double want)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got);
    }
    if (got == want) {
        return true;
    }
    double epsilon = dtype == WEFT_FLOAT64 ? 0x1p-52 : 0x1p-23;
    double slack = 4 * epsilon * fabs(want) + ulp(dtype, want) * (dtype == WEFT_FLOAT64 ? 4 : 0.51);
    int operations = 0;
    for (int i = 0; i < tape->n_steps; i++) {
        operations += weft_tape_arity((weft_tape_code)tape->steps[i].code) > 0;
    }
    if (operations > 1) {
        double scale = 1;
        for (int i = 0; i < tape->n_operands; i++) {
            scale = fmax(scale, fabs(operands[i]));
        }
        slack += 8 * epsilon * scale * scale;
    }
    if (fabs(want) > largest(dtype) || isinf(got)) {
        return fabs(want) + slack > largest(dtype) && isinf(got) && (got > 0) == (want > 0);
    }
    return fabs(got - want) <= slack;
}

/* floor of a quotient that rounds to a whole number may be one less. */
static bool on_a_step(const weft_op *op, const double *operands)
{
    double quotient = operands[0] / operands[1];
    return strcmp(op->name, "floor_divide") == 0 &&
           (fabs(quotient) > 0x1p22 ||
            fabs(quotient - nearbyint(quotient)) <= 1e-6 * fmax(1, fabs(quotient)));
}

static bool check_real(const weft_op *op, const weft_tape *tape, const weft_tensor *in,
                       const weft_tensor *out, int64_t i)
{
    double operands[WEFT_MAX_OPERANDS];
    for (int k = 0; k < tape->n_operands; k++) {
        operands[k] = weft_tensor_get(&in[k], i);
    }
    double want = weft_tape_eval(tape, operands), got = weft_tensor_get(out, i);
    if (out->dtype == WEFT_BOOL) {
        return got == (want != 0);
    }
    if (on_a_step(op, operands) && (got == want - 1 || got == want + 1)) {
        return true;
    }
    return close_enough(out->dtype, tape, operands, got, want);
}

static bool check_whole(const weft_tape *tape, const weft_tensor *in, const weft_tensor *out,
                        int64_t i)
{
    int64_t operands[WEFT_MAX_OPERANDS];
    for (int k = 0; k < tape->n_operands; k++) {
        operands[k] = weft_tensor_get_int(&in[k], i);
    }
    weft_dtype dtype = in[tape->n_operands - 1].dtype;
    int64_t want = weft_tape_eval_int(tape, operands, dtype);
    return weft_tensor_get_int(out, i) == (out->dtype == WEFT_BOOL ? want != 0 : want);
}

static bool check_bool(const weft_tape *tape, const weft_tensor *in, const weft_tensor *out,
                       int64_t i)
{
    double operands[WEFT_MAX_OPERANDS];
    for (int k = 0; k < tape->n_operands; k++) {
        operands[k] = weft_tensor_get(&in[k], i);
    }
    return weft_tensor_get(out, i) == weft_tape_eval(tape, operands);
}

static bool element_agrees(const weft_op *op, const weft_tape *tape, const weft_tensor *in,
                           const weft_tensor *out, int64_t i)
{
    return tape->klass == WEFT_CLASS_REAL      ? check_real(op, tape, in, out, i)
           : tape->klass == WEFT_CLASS_INTEGER ? check_whole(tape, in, out, i)
                                               : check_bool(tape, in, out, i);
}

/* ---- Every op ------------------------------------------------------------------------------- */

typedef union buffer {
    char bytes[COUNT * 8];
    double aligned;
} buffer;

static weft_dtype input_dtype_of(const weft_op *op, int operand, weft_dtype dtype)
{
    return strcmp(op->name, "where") == 0 && operand == 0 ? WEFT_BOOL : dtype;
}

static void check_op(const weft_op *op, const weft_tape *tape, weft_dtype dtype, const char *how)
{
    static buffer inputs[WEFT_MAX_OPERANDS], output;
    weft_tensor in[WEFT_MAX_OPERANDS], out = make(op->predicate ? WEFT_BOOL : dtype, &output);
    for (int k = 0; k < op->arity; k++) {
        in[k] = make(input_dtype_of(op, k, dtype), &inputs[k]);
        fill(op, &in[k], k);
    }
    memset(&output, 0x55, sizeof output);
    weft_call call = {.op = op, .n_inputs = op->arity, .n_outputs = 1, .in = in, .out = &out};
    if (!CHECK_OK(weft__cpu_elementwise(&call, tape))) {
        return;
    }
    for (int64_t i = 0; i < COUNT; i++) {
        if (!element_agrees(op, tape, in, &out, i)) {
            double operands[WEFT_MAX_OPERANDS] = {0};
            for (int k = 0; k < op->arity; k++) {
                operands[k] = weft_tensor_get(&in[k], i);
            }
            CHECK_FAIL("%s, %s, %s: (%.9g, %.9g, %.9g): %.17g, expected %.17g", op->name,
                       weft_dtype_name(dtype), how, operands[0], operands[1], operands[2],
                       weft_tensor_get(&out, i), weft_tape_eval(tape, operands));
            return;
        }
    }
    CHECK(true);
}

/* The same tape with a constant in front that nothing reads: no kernel was generated for it. */
static weft_tape unknown_twin(const weft_tape *tape)
{
    weft_tape twin = *tape;
    twin.n_steps++;
    twin.steps[0] = (weft_tape_step){.code = WEFT_TAPE_CONST, .constant = 1};
    for (int i = 0; i < tape->n_steps; i++) {
        twin.steps[i + 1] = tape->steps[i];
        for (int k = 0; k < 3; k++) {
            int moved = tape->steps[i].value[k] >= tape->n_operands;
            twin.steps[i + 1].value[k] = (unsigned char)(tape->steps[i].value[k] + moved);
        }
    }
    return twin;
}

static void check_all_ops(bool chain)
{
    for (cpu_isa isa = CPU_BASELINE; isa <= weft__cpu_isa(); isa++) {
        weft__cpu_elementwise_table();
        weft__cpu_elementwise_use(isa);
        for (int k = 0; k < weft__op_table_size; k++) {
            const weft_op *op = weft__op_table[k];
            for (int d = 0; d < WEFT_COMPLEX64 && op->family == WEFT_ELEMENTWISE; d++) {
                const weft_tape *tape = weft_op_tape(op, (weft_dtype)d);
                if (tape && chain && tape->n_steps > 0) {
                    weft_tape twin = unknown_twin(tape);
                    check_op(op, &twin, (weft_dtype)d, weft__cpu_isa_name(isa));
                } else if (tape && !chain) {
                    check_op(op, tape, (weft_dtype)d, weft__cpu_isa_name(isa));
                }
            }
        }
    }
}

static void every_op_is_its_formula(void)
{
    check_all_ops(false);
}

static void chains_are_their_formulas(void)
{
    check_all_ops(true);
}

/* All formulas parse; an op without a formula would just be skipped above. */
static void every_formula_parses(void)
{
    for (int k = 0; k < weft__op_table_size; k++) {
        const weft_op *op = weft__op_table[k];
        if (op->family == WEFT_ELEMENTWISE) {
            CHECK(!op->formula.real || weft_op_tape(op, WEFT_FLOAT32));
            CHECK(!op->formula.integer || weft_op_tape(op, WEFT_INT32));
            CHECK(!op->formula.boolean || weft_op_tape(op, WEFT_BOOL));
            CHECK(!op->formula.complex_ || weft_op_tape(op, WEFT_COMPLEX64));
        }
    }
}

/* ---- Functions of float over all its bits --------------------------------------------------- */

static void check_float_function(weft_tape_code code, cpu_map *map, double bound)
{
    enum { BLOCK = 1024 };
    static float x[BLOCK], y[BLOCK], out[BLOCK];
    int arity = weft_tape_arity(code);
    weft_tape tape = {.klass = WEFT_CLASS_REAL, .n_operands = arity, .n_steps = 1};
    tape.steps[0] = (weft_tape_step){.code = (unsigned char)code, .value = {0, 1}};
    for (int block = 0; block < 200; block++) {
        for (int i = 0; i < BLOCK; i++) {
            uint64_t word = next_word();
            memcpy(&x[i], &word, sizeof x[i]);
            memcpy(&y[i], (char *)&word + sizeof x[i], sizeof y[i]);
            if (i % 2) { /* ordinary sizes */
                x[i] = (float)between(-10, 10);
                y[i] = i % 4 == 1 ? (float)between(-10, 10) : (float)(word % 17) - 8;
            }
        }
        map((const void *[]){x, y}, out, BLOCK, 32);
        for (int i = 0; i < BLOCK; i++) {
            double operands[2] = {x[i], y[i]}, want = weft_tape_eval(&tape, operands);
            double beyond = 0x1.ffffffp127; /* results that round to infinity */
            bool same = isnan(want) || isnan(out[i]) ? isnan(want) && isnan(out[i])
                        : fabs(want) >= beyond || isinf(out[i])
                            ? isinf(out[i]) && fabs(want) >= 0x1.fffff8p127
                            : fabs(out[i] - want) <= bound * ulp(WEFT_FLOAT32, want);
            if (!same) {
                CHECK_FAIL("%s(%a, %a): %.9g, expected %.12g", weft_tape_code_name(code), x[i],
                           y[i], out[i], want);
                return;
            }
        }
    }
    CHECK(true);
}

static void float_functions_are_within_their_ulps(void)
{
    static const struct {
        weft_tape_code code;
        double bound;
    } functions[] = {
        {WEFT_TAPE_SQRT, 0.5},  {WEFT_TAPE_RSQRT, 1.6}, {WEFT_TAPE_EXP, 1.1},
        {WEFT_TAPE_EXPM1, 1.7}, {WEFT_TAPE_LOG, 1},     {WEFT_TAPE_LOG1P, 1.6},
        {WEFT_TAPE_LOG2, 1.9},  {WEFT_TAPE_SIN, 1.55},  {WEFT_TAPE_COS, 1.55},
        {WEFT_TAPE_TAN, 3.5},   {WEFT_TAPE_ASIN, 2.5},  {WEFT_TAPE_ACOS, 1.3},
        {WEFT_TAPE_ATAN, 1.55}, {WEFT_TAPE_SINH, 1},    {WEFT_TAPE_COSH, 0.51},
        {WEFT_TAPE_TANH, 2.6},  {WEFT_TAPE_ERF, 1.5},   {WEFT_TAPE_ERFINV, 2.8},
        {WEFT_TAPE_POW, 0.51},  {WEFT_TAPE_ATAN2, 1.7}, {WEFT_TAPE_MOD, 0.5},
        {WEFT_TAPE_FLOOR, 0},   {WEFT_TAPE_CEIL, 0},    {WEFT_TAPE_RINT, 0},
        {WEFT_TAPE_TRUNC, 0},   {WEFT_TAPE_SIGN, 0},    {WEFT_TAPE_ISFINITE, 0},
    };
    for (cpu_isa isa = CPU_BASELINE; isa <= weft__cpu_isa(); isa++) {
        weft__cpu_elementwise_table();
        weft__cpu_elementwise_use(isa);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            weft_tape_code code = functions[i].code;
            check_float_function(code, weft__cpu_elementwise_table()->steps[code][CPU_F32],
                                 functions[i].bound);
        }
    }
}

/* ---- Complex -------------------------------------------------------------------------------- */

static weft_complex64 complex_result(const char *name, weft_complex64 x, weft_complex64 y)
{
    double a = x.re, b = x.im, c = y.re, d = y.im, norm = c * c + d * d;
    if (strcmp(name, "add") == 0) {
        return (weft_complex64){(float)(a + c), (float)(b + d)};
    }
    if (strcmp(name, "subtract") == 0) {
        return (weft_complex64){(float)(a - c), (float)(b - d)};
    }
    if (strcmp(name, "multiply") == 0) {
        return (weft_complex64){(float)(a * c - b * d), (float)(a * d + b * c)};
    }
    return (weft_complex64){(float)((a * c + b * d) / norm), (float)((b * c - a * d) / norm)};
}

static void complex_arithmetic(void)
{
    static const char *const names[] = {"add", "subtract", "multiply", "divide"};
    static buffer inputs[2], output;
    weft_tensor in[2] = {make(WEFT_COMPLEX64, &inputs[0]), make(WEFT_COMPLEX64, &inputs[1])};
    weft_tensor out = make(WEFT_COMPLEX64, &output);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const weft_op *op = weft_op_find(names[k]);
        fill(op, &in[0], 0);
        fill(op, &in[1], 1);
        weft_call call = {.op = op, .n_inputs = 2, .n_outputs = 1, .in = in, .out = &out};
        CHECK_OK(weft__cpu_elementwise(&call, weft_op_tape(op, WEFT_COMPLEX64)));
        const weft_complex64 *x = in[0].data, *y = in[1].data, *z = out.data;
        for (int i = 0; i < COUNT; i++) {
            weft_complex64 want = complex_result(names[k], x[i], y[i]);
            double size = 1e-6 * (1 + fabs(want.re) + fabs(want.im));
            CHECK_CLOSE(z[i].re, want.re, size);
            CHECK_CLOSE(z[i].im, want.im, size);
        }
    }
}

static void complex_choice_and_equality(void)
{
    weft_complex64 x[4] = {{1, 2}, {1, 2}, {0, 0}, {3, 1}}, y[4] = {{1, 2}, {1, 3}, {0, 0}, {2, 1}};
    uint8_t condition[4] = {1, 0, 1, 0}, equal[4];
    weft_complex64 chosen[4];
    weft_dims shape = {1, {4}};
    weft_tensor in[3] = {{.dtype = WEFT_BOOL, .shape = shape, .strides = {1}, .data = condition},
                         {.dtype = WEFT_COMPLEX64, .shape = shape, .strides = {1}, .data = x},
                         {.dtype = WEFT_COMPLEX64, .shape = shape, .strides = {1}, .data = y}};
    weft_tensor out = {.dtype = WEFT_COMPLEX64, .shape = shape, .strides = {1}, .data = chosen};
    const weft_op *where = weft_op_find("where"), *same = weft_op_find("equal");
    weft_call call = {.op = where, .n_inputs = 3, .n_outputs = 1, .in = in, .out = &out};
    CHECK_OK(weft__cpu_elementwise(&call, weft_op_tape(where, WEFT_COMPLEX64)));
    weft_tensor truth = {.dtype = WEFT_BOOL, .shape = shape, .strides = {1}, .data = equal};
    weft_call compare = {.op = same, .n_inputs = 2, .n_outputs = 1, .in = in + 1, .out = &truth};
    CHECK_OK(weft__cpu_elementwise(&compare, weft_op_tape(same, WEFT_COMPLEX64)));
    for (int i = 0; i < 4; i++) {
        CHECK_BYTES(&chosen[i], condition[i] ? &x[i] : &y[i], sizeof chosen[i]);
        CHECK_EQ_INT(equal[i], i % 2 == 0);
    }
}

CHECK_MAIN("elementwise", CHECK_CASE(every_formula_parses), CHECK_CASE(every_op_is_its_formula),
           CHECK_CASE(chains_are_their_formulas), CHECK_CASE(float_functions_are_within_their_ulps),
           CHECK_CASE(complex_arithmetic), CHECK_CASE(complex_choice_and_equality))
