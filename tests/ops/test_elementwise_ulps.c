/* tests/ops/test_elementwise_ulps.c -- how far float32 results are from their formulas in double,
 * by op, in the vector kernels of every instruction set: dense samples of all sizes against the
 * bounds in tests/golden/ops/elementwise_ulps.txt. With WEFT_TEST_VERBOSE it prints what it
 * measured, in the form of that file. */
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

static double distance(double got, double want)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    }
    if (fabs(want) >= 0x1.ffffffp127 || isinf(got)) {
        bool near =
            fabs(want) >= 0x1.fffff8p127; /* may round to infinity, or within an ulp of it */
        return near && (isinf(got) || fabs(got) >= 0x1.fffff8p127) ? 0 : (double)INFINITY;
    }
    return fabs(got - want) / ulp(want);
}

typedef struct measured {
    double worst;
    float at[2];
} measured;

static void measure(const weft_op *op, measured *m)
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
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < BLOCK; i++) {
            in[0][i] = sample(i);
            in[1][i] = sample(i / 4 % 3 ? i : i / 16);
        }
        if (!CHECK_OK(weft__cpu_elementwise(&call, tape))) {
            return;
        }
        for (int i = 0; i < BLOCK; i++) {
            double operands[2] = {(double)in[0][i], (double)in[1][i]};
            double d = distance((double)out[i], weft_tape_eval(tape, operands));
            if (d > m->worst) {
                *m = (measured){d, {in[0][i], in[1][i]}};
            }
        }
    }
}

typedef struct bound {
    char op[40];
    double ulps;
} bound;

static int read_bounds(bound *bounds)
{
    FILE *file = fopen(check_fixture("ops/elementwise_ulps.txt"), "r");
    char line[256];
    int n = 0;
    while (file && n < MAX_BOUNDS && fgets(line, sizeof line, file)) {
        n += line[0] != '#' && sscanf(line, "%39s %lf", bounds[n].op, &bounds[n].ulps) == 2;
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
        for (cpu_isa isa = CPU_PORTABLE; isa <= weft__cpu_isa(); isa++) {
            weft__cpu_elementwise_table();
            weft__cpu_elementwise_use(isa);
            measure(op, &m);
        }
        int i = 0;
        while (i < n && strcmp(bounds[i].op, op->name) != 0) {
            i++;
        }
        if (getenv("WEFT_TEST_VERBOSE")) {
            printf("%s %.3g %a %a\n", op->name, m.worst, (double)m.at[0], (double)m.at[1]);
        }
        if (i == n || !(m.worst <= bounds[i].ulps)) {
            CHECK_FAIL("%s(%.9g, %.9g): %.3g ulp, expected at most %.3g", op->name, (double)m.at[0],
                       (double)m.at[1], m.worst, i < n ? bounds[i].ulps : 0.0);
        }
        seen += i < n;
    }
    CHECK_EQ_INT(seen, n);
}

CHECK_MAIN("elementwise_ulps", CHECK_CASE(results_are_within_their_bounds))
