/* tests/ops/test_elementwise_ulps.c -- how far float32 results are from their formulas in double,
 * by op, in the vector kernels of every instruction set: dense samples of all sizes against the
 * bounds in tests/golden/ops/elementwise_ulps.txt. A bound is in ulp of the result, or of the value
 * of a formula where that is larger: of what cancels, for example. With WEFT_TEST_VERBOSE it prints
 * what it measured, and where. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/walk.h"
#include "core/builtin.h"
#include "tests/check.h"

enum { BLOCK = 4096, BLOCKS = 24, MAX_BOUNDS = 160 };

static uint64_t state = 11;

static uint64_t next_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state ^ state >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static float between(double low, double high)
{
    return (float)(low + (high - low) * ((double)(next_word() >> 11) * 0x1p-53));
}

/* Any bits; sizes from 2^-20 to 2^20; ordinary numbers; those beside 1 and -1. */
static float sample(int kind)
{
    uint32_t word = (uint32_t)(next_word() >> 32);
    float x;
    switch (kind % 4) {
    case 0:
        memcpy(&x, &word, sizeof x);
        return x;
    case 1:
        return ldexpf(between(-2, 2), (int)(word % 41) - 20);
    case 2:
        return between(-10, 10);
    default:
        return (word & 1 ? 1.0f : -1.0f) + ldexpf(between(-1, 1), -(int)(word >> 8) % 24);
    }
}

static double ulp(double x)
{
    int e;
    frexp(x, &e);
    return ldexp(1, e > -125 ? e - 24 : -149);
}

/* In ulp of `want`, or of `scale` if that is larger. */
static double distance(double got, double want, double scale)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    }
    if (fabs(want) >= 0x1.ffffffp127 || isinf(got)) {
        bool near =
            fabs(want) >= 0x1.fffff8p127; /* may round to infinity, or within an ulp of it */
        return near && (isinf(got) || fabs(got) >= 0x1.fffff8p127) ? 0 : (double)INFINITY;
    }
    return fabs(got - want) / ulp(isfinite(scale) ? fmax(fabs(want), fabs(scale)) : want);
}

typedef struct bound {
    char op[40];
    double ulps;
    bool scaled; /* there is a formula */
    weft_tape scale;
} bound;

typedef struct measured {
    double worst;
    float at[2];
} measured;

static void measure(const weft_op *op, const bound *b, measured *m)
{
    static float in[2][BLOCK], out[BLOCK];
    const weft_tape *tape = weft_op_tape(op, WEFT_FLOAT32);
    weft_tensor t = {.dtype = WEFT_FLOAT32, .shape = {1, {BLOCK}}, .strides = {1}};
    weft_tensor inputs[2] = {t, t}, output = t;
    inputs[0].data = in[0];
    inputs[1].data = in[1];
    output.data = out;
    weft_call call = {
        .op = op, .n_inputs = op->arity, .n_outputs = 1, .in = inputs, .out = &output};
    for (int block = 0; block < BLOCKS; block++) {
        for (int i = 0; i < BLOCK; i++) {
            in[0][i] = sample(i);
            in[1][i] = sample(i / 4 % 3 ? i : i / 16);
        }
        if (!CHECK_OK(weft__cpu_elementwise(&call, tape))) {
            return;
        }
        for (int i = 0; i < BLOCK; i++) {
            double operands[2] = {(double)in[0][i], (double)in[1][i]};
            double scale = b->scaled ? weft_tape_eval(&b->scale, operands) : 0;
            double d = distance((double)out[i], weft_tape_eval(tape, operands), scale);
            if (d > m->worst) {
                *m = (measured){d, {in[0][i], in[1][i]}};
            }
        }
    }
}

/* op bound [formula of the scale] [# reason] */
static bool read_bound(char *line, bound *b)
{
    char why[256];
    int end = 0;
    line[strcspn(line, "#\n")] = 0;
    if (sscanf(line, "%39s %lf %n", b->op, &b->ulps, &end) != 2) {
        return false;
    }
    const weft_op *op = weft_op_find(b->op);
    b->scaled = line[end] != 0;
    if (b->scaled && op &&
        !weft_tape_parse(line + end, WEFT_CLASS_REAL, op->arity, &b->scale, why, sizeof why)) {
        CHECK_FAIL("%s: %s", b->op, why);
    }
    return true;
}

static int read_bounds(bound *bounds)
{
    FILE *file = fopen(check_fixture("ops/elementwise_ulps.txt"), "r");
    char line[512];
    int n = 0;
    while (file && n < MAX_BOUNDS && fgets(line, sizeof line, file)) {
        n += read_bound(line, &bounds[n]);
    }
    if (file) {
        fclose(file);
    }
    return n;
}

static bool is_measured(const weft_op *op)
{
    return op->family == WEFT_ELEMENTWISE && op->formula.real && !op->infer && !op->predicate &&
           op->arity <= 2;
}

static void results_are_within_their_bounds(void)
{
    static bound bounds[MAX_BOUNDS];
    int n = read_bounds(bounds), seen = 0;
    for (int k = 0; k < weft__op_table_size; k++) {
        const weft_op *op = weft__op_table[k];
        if (!is_measured(op)) {
            continue;
        }
        measured m = {0};
        int i = 0;
        while (i < n && strcmp(bounds[i].op, op->name) != 0) {
            i++;
        }
        if (i == n) {
            CHECK_FAIL("%s has no bound", op->name);
            continue;
        }
        for (cpu_isa isa = CPU_PORTABLE; isa <= weft__cpu_isa(); isa++) {
            weft__cpu_elementwise_table();
            weft__cpu_elementwise_use(isa);
            measure(op, &bounds[i], &m);
        }
        if (getenv("WEFT_TEST_VERBOSE")) {
            printf("%s %.3g %a %a\n", op->name, m.worst, (double)m.at[0], (double)m.at[1]);
        }
        if (!(m.worst <= bounds[i].ulps)) {
            CHECK_FAIL("%s(%.9g, %.9g): %.3g ulp, expected at most %.3g", op->name, (double)m.at[0],
                       (double)m.at[1], m.worst, bounds[i].ulps);
        }
        seen++;
    }
    CHECK_EQ_INT(seen, n);
}

CHECK_MAIN("elementwise_ulps", CHECK_CASE(results_are_within_their_bounds))
