/* tests/ops/test_elementwise_ulps.c -- how far float32 results are from their formulas in double,
 * by op, in the vector kernels of every instruction set: dense samples of all sizes against the
 * bounds in tests/golden/ops/elementwise_ulps.txt. A bound is in ulp of the result, or of the value
 * of a formula where that is larger: of what cancels, for example. With WEFT_TEST_VERBOSE it prints
 * what it measured, and where. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/walk.h"
#include "core/builtin.h"
#include "tests/check.h"
#include "tests/support/ulps.h"

enum { BLOCK = 4096, BLOCKS = 24 };

typedef struct measured {
    double worst;
    float at[2];
} measured;

static void measure(const weft_op *op, const ulps_bound *b, measured *m)
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
            in[0][i] = ulps_sample(i);
            in[1][i] = ulps_sample(i / 4 % 3 ? i : i / 16);
        }
        if (!CHECK_OK(weft__cpu_elementwise(&call, tape))) {
            return;
        }
        for (int i = 0; i < BLOCK; i++) {
            double operands[2] = {(double)in[0][i], (double)in[1][i]};
            double scale = b->scaled ? weft_tape_eval(&b->scale, operands) : 0;
            double d = ulps_distance((double)out[i], weft_tape_eval(tape, operands), scale);
            if (d > m->worst) {
                *m = (measured){d, {in[0][i], in[1][i]}};
            }
        }
    }
}

static void results_are_within_their_bounds(void)
{
    static ulps_bound bounds[ULPS_MAX_BOUNDS];
    int n = ulps_read_bounds(bounds), seen = 0;
    for (int k = 0; k < weft__op_table_size; k++) {
        const weft_op *op = weft__op_table[k];
        if (!ulps_is_measured(op)) {
            continue;
        }
        measured m = {0};
        const ulps_bound *b = ulps_find(bounds, n, op->name);
        if (!b) {
            CHECK_FAIL("%s has no bound", op->name);
            continue;
        }
        for (cpu_isa isa = CPU_BASELINE; isa <= weft__cpu_isa(); isa++) {
            weft__cpu_elementwise_table();
            weft__cpu_elementwise_use(isa);
            measure(op, b, &m);
        }
        if (getenv("WEFT_TEST_VERBOSE")) {
            printf("%s %.3g %a %a\n", op->name, m.worst, (double)m.at[0], (double)m.at[1]);
        }
        if (!(m.worst <= b->ulps)) {
            CHECK_FAIL("%s(%.9g, %.9g): %.3g ulp, expected at most %.3g", op->name, (double)m.at[0],
                       (double)m.at[1], m.worst, b->ulps);
        }
        seen++;
    }
    CHECK_EQ_INT(seen, n);
}

CHECK_MAIN("elementwise_ulps", CHECK_CASE(results_are_within_their_bounds))
