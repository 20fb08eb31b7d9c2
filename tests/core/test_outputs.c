/* tests/core/test_outputs.c -- ops with several outputs: expansions whose outputs read each other,
 * and random ones, evaluated in every supported way. */
#include <stdint.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/op.h"
#include "weft/ops.h"

enum { SIZE = 5, MAX_NODES = 10, MAX_VALUES = MAX_NODES + 2, PROGRAMS = 300 };

/* ---- random programs of elementwise ops ----------------------------------------------------- */

/* A list of steps over two inputs; outputs are any of the values, possibly one of them twice.
 * Values are small integers in float32, so that every order of evaluation is exact. */
typedef struct program {
    int n_nodes, n_outs;
    struct {
        int kind, a, b;
    } nodes[MAX_NODES];
    int outs[WEFT_MAX_OUTPUTS];
} program;

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static int below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

static program random_program(int64_t seed)
{
    uint64_t s = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    next_random(&s);
    program p = {.n_nodes = 1 + below(&s, MAX_NODES), .n_outs = 2 + below(&s, 3)};
    for (int i = 0; i < p.n_nodes; i++) {
        p.nodes[i].kind = below(&s, 5);
        /* Often the previous value, so that there are chains that are fused or run in place. */
        p.nodes[i].a = below(&s, 3) ? i + 1 : below(&s, i + 2);
        p.nodes[i].b = below(&s, i + 2);
    }
    for (int o = 0; o < p.n_outs; o++) {
        p.outs[o] = below(&s, p.n_nodes + 2);
    }
    p.outs[below(&s, p.n_outs)] = p.n_nodes + 1; /* the last value */
    return p;
}

static weft_array *array_step(int kind, weft_array *a, weft_array *b)
{
    switch (kind) {
    case 0:
        return weft_add_scalar(a, 1);
    case 1:
        return weft_subtract(a, b);
    case 2:
        return weft_maximum(a, b);
    case 3:
        return weft_flip(a, WEFT_DIMS(0)); /* a view */
    default:
        return weft_contiguous(weft_flip(a, WEFT_DIMS(0))); /* is never part of a fused chain */
    }
}

static void run_arrays(const program *p, weft_array *x, weft_array *y, weft_array **outs)
{
    weft_array *values[MAX_VALUES] = {x, y};
    for (int i = 0; i < p->n_nodes; i++) {
        values[i + 2] = array_step(p->nodes[i].kind, values[p->nodes[i].a], values[p->nodes[i].b]);
    }
    for (int o = 0; o < p->n_outs; o++) {
        outs[o] = values[p->outs[o]];
    }
}

static float float_step(int kind, const float *a, const float *b, int at)
{
    switch (kind) {
    case 0:
        return a[at] + 1;
    case 1:
        return a[at] - b[at];
    case 2:
        return a[at] > b[at] ? a[at] : b[at];
    default:
        return a[SIZE - 1 - at];
    }
}

/* The same in C. */
static void run_floats(const program *p, const float *x, const float *y, float outs[][SIZE])
{
    float values[MAX_VALUES][SIZE];
    for (int k = 0; k < SIZE; k++) {
        values[0][k] = x[k];
        values[1][k] = y[k];
    }
    for (int i = 0; i < p->n_nodes; i++) {
        for (int k = 0; k < SIZE; k++) {
            values[i + 2][k] =
                float_step(p->nodes[i].kind, values[p->nodes[i].a], values[p->nodes[i].b], k);
        }
    }
    for (int o = 0; o < p->n_outs; o++) {
        for (int k = 0; k < SIZE; k++) {
            outs[o][k] = values[p->outs[o]][k];
        }
    }
}

/* ---- an op that is such a program ----------------------------------------------------------- */

typedef struct tangle_params {
    int64_t seed;
} tangle_params;

static const weft_field tangle_fields[] = {WEFT_FIELD(INT, tangle_params, seed), WEFT_FIELDS_END};

static bool infer_tangle(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    const program p = random_program(((const tangle_params *)weft_node_params(node))->seed);
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        out[o] = *weft_node_spec(weft_node_input(node, 0), 0);
        out[o].shape.n = o < p.n_outs ? 1 : -1;
    }
    return true;
}

static void expand_tangle(weft_array *node, weft_array **outs)
{
    const program p = random_program(((const tangle_params *)weft_node_params(node))->seed);
    run_arrays(&p, weft_node_input(node, 0), weft_node_input(node, 1), outs);
}

static const weft_op op_tangle = {.name = "test_tangle",
                                  .family = WEFT_COMPOSITE,
                                  .arity = 2,
                                  .n_outputs = -WEFT_MAX_OUTPUTS,
                                  .params_size = sizeof(tangle_params),
                                  .params_fields = tangle_fields,
                                  .infer = infer_tangle,
                                  .expand = expand_tangle};

static const float x_values[SIZE] = {3, -1, 4, 1, -5}, y_values[SIZE] = {9, -2, 6, 5, -3};

static void tangle(int64_t seed, weft_array *x, weft_array *y, weft_array **outs)
{
    const program p = random_program(seed);
    tangle_params params = {seed};
    weft_array *node = weft_apply(&op_tangle, (weft_array *[]){x, y}, 2, &params);
    for (int o = 0; o < p.n_outs; o++) {
        outs[o] = weft_pick(node, o);
    }
}

/* Leaves, or temporaries that may be overwritten. */
static weft_array *input(const float *values, bool computed)
{
    weft_array *x = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(SIZE));
    return computed ? weft_add_scalar(weft_add_scalar(x, -1), 1) : x;
}

static bool is_equal(weft_array *a, const float *expected, const char *how, int64_t seed, int o)
{
    float got[SIZE];
    if (!CHECK_OK(weft_read(a, WEFT_FLOAT32, got, SIZE))) {
        return false;
    }
    for (int k = 0; k < SIZE; k++) {
        if (got[k] != expected[k]) {
            CHECK_FAIL("%s, program %d: output %d, element %d: expected %g, got %g", how, (int)seed,
                       o, k, (double)expected[k], (double)got[k]);
            return false;
        }
    }
    return CHECK(true);
}

/* ---- evaluation ----------------------------------------------------------------------------- */

/* An op whose second output is computed from the first in place. */
static void outputs_of_an_expansion_may_read_each_other(void)
{
    for (int64_t seed = 0; seed < PROGRAMS; seed++) {
        const program p = random_program(seed);
        float expected[WEFT_MAX_OUTPUTS][SIZE];
        run_floats(&p, x_values, y_values, expected);
        for (int computed = 0; computed < 2; computed++) {
            weft_array *outs[WEFT_MAX_OUTPUTS];
            weft_scope_open();
            tangle(seed, input(x_values, computed), input(y_values, computed), outs);
            CHECK_OK(weft_eval_n(outs, p.n_outs));
            bool same = true;
            for (int o = 0; o < p.n_outs && same; o++) {
                same = is_equal(outs[o], expected[o], "eval of all", seed, o);
            }
            weft_scope_close(NULL);
            if (!same) {
                return;
            }
        }
    }
}

/* One output alone, beside a reader of another and of an input. */
static void outputs_are_used_one_by_one(void)
{
    for (int64_t seed = 0; seed < PROGRAMS; seed++) {
        const program p = random_program(seed);
        const int a = (int)(seed % p.n_outs), b = (int)(seed / 2 % p.n_outs);
        float expected[WEFT_MAX_OUTPUTS][SIZE], sum[SIZE];
        run_floats(&p, x_values, y_values, expected);
        for (int k = 0; k < SIZE; k++) {
            sum[k] = (expected[a][k] - expected[b][k]) + (x_values[k] + expected[a][k]);
        }
        weft_array *outs[WEFT_MAX_OUTPUTS];
        weft_scope_open();
        weft_array *x = input(x_values, true);
        tangle(seed, x, input(y_values, true), outs);
        weft_array *total = weft_add(weft_subtract(outs[a], outs[b]), weft_add(x, outs[a]));
        bool same = is_equal(total, sum, "eval of a sum", seed, a);
        weft_scope_close(NULL);
        if (!same) {
            return;
        }
    }
}

/* ---- compiled ------------------------------------------------------------------------------- */

typedef struct program_call {
    int64_t seed;
    bool written_out; /* the program itself, not the op */
} program_call;

static int call_program(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const program_call *c = context;
    const program p = random_program(c->seed);
    (void)n_in, (void)room;
    if (c->written_out) {
        run_arrays(&p, in[0], in[1], out);
    } else {
        tangle(c->seed, in[0], in[1], out);
    }
    return p.n_outs;
}

static bool compiled_is_equal(int64_t seed, bool written_out)
{
    program_call c = {seed, written_out};
    const program p = random_program(seed);
    float expected[WEFT_MAX_OUTPUTS][SIZE];
    weft_compiled *compiled = NULL;
    bool same = CHECK_OK(weft_compile(call_program, &c, NULL, 0, NULL, &compiled));
    run_floats(&p, x_values, y_values, expected);
    for (int run = 0; run < 2 && same; run++) {
        weft_array *outs[WEFT_MAX_OUTPUTS];
        weft_scope_open();
        weft_array *in[] = {input(x_values, false), input(y_values, false)};
        same = CHECK_OK(weft_compiled_call(compiled, in, 2, outs, p.n_outs));
        for (int o = 0; o < p.n_outs && same; o++) {
            same = is_equal(outs[o], expected[o], "compiled", seed, o);
        }
        weft_scope_close(NULL);
    }
    weft_compiled_free(compiled);
    return same;
}

static void compiled_outputs_may_read_each_other(void)
{
    for (int64_t seed = 0; seed < PROGRAMS; seed++) {
        if (!compiled_is_equal(seed, false) || !compiled_is_equal(seed, true)) {
            return;
        }
    }
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* A node of several outputs that is made outside of a checkpoint, of which an output is picked
 * inside. */
typedef struct captured {
    int64_t seed;
    bool checkpoint;
    weft_array *node;
} captured;

static int pick_inside(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const captured *c = context;
    (void)n_in, (void)room;
    out[0] = in[0];
    for (int o = weft_node_n_outputs(c->node) - 1; o >= 0; o--) {
        out[0] = weft_multiply(out[0], weft_add_scalar(weft_pick(c->node, o), o));
    }
    out[1] = weft_pick(c->node, 1);
    return 2;
}

static weft_array *loss_with_captured(void *context, weft_array *const *in, int n_in)
{
    captured *c = context;
    tangle_params params = {c->seed};
    weft_array *out[2];
    c->node = weft_apply(&op_tangle, in, 2, &params);
    if (c->checkpoint) {
        weft_checkpoint(pick_inside, c, in, n_in, out, 2);
    } else {
        pick_inside(c, in, n_in, out, 2);
    }
    return weft_sum(weft_multiply(out[0], out[1]), WEFT_ALL_AXES, false);
}

static void a_checkpoint_picks_outputs_of_captured_nodes(void)
{
    for (int64_t seed = 0; seed < PROGRAMS / 10; seed++) {
        float expected[2][SIZE];
        weft_scope_open();
        weft_array *in[] = {input(x_values, false), input(y_values, false)}, *grads[2];
        captured c = {.seed = seed};
        const double value = weft_item(weft_value_and_grad(loss_with_captured, &c, in, 2, grads));
        CHECK_OK(weft_eval_n(grads, 2));
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weft_read(grads[i], WEFT_FLOAT32, expected[i], SIZE));
        }
        c.checkpoint = true;
        weft_array *loss = weft_value_and_grad(loss_with_captured, &c, in, 2, grads);
        CHECK_OK(weft_eval_n((weft_array *[]){loss, grads[0], grads[1]}, 3));
        bool same = CHECK_CLOSE(weft_item(loss), value, 0);
        for (int i = 0; i < 2 && same; i++) {
            same = is_equal(grads[i], expected[i], "gradient of a checkpoint", seed, i);
        }
        weft_scope_close(NULL);
        if (!same) {
            return;
        }
    }
}

CHECK_MAIN("outputs", CHECK_CASE(outputs_of_an_expansion_may_read_each_other),
           CHECK_CASE(outputs_are_used_one_by_one),
           CHECK_CASE(compiled_outputs_may_read_each_other),
           CHECK_CASE(a_checkpoint_picks_outputs_of_captured_nodes))
