/* tests/transforms/test_graphs.c -- random graphs of ops with several outputs (outputs that read
 * each other, that several nodes read, that no node reads) under evaluation, every transform,
 * compile and export, against evaluation of one op at a time. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/export.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* Values are SIDE x SIDE matrices of float64, whose elements the steps keep small. */
enum { SIDE = 3, SIZE = SIDE * SIDE, STEPS = 8, MAX_VALUES = 2 + 3 * STEPS, N_IN = 2, N_OUT = 2 };
enum { GRAPHS = 400, BATCH = 3 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static int below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

static double uniform(uint64_t *state)
{
    return (double)next_random(state) * 0x1p-30 - 1;
}

typedef struct graph {
    uint64_t seed;
    bool one_by_one;  /* each step's results are evaluated and become leaves */
    bool checkpoints; /* steps are checkpoints where possible */
    weft_status status;
} graph;

/* ---- steps ---------------------------------------------------------------------------------- */

/* An op of the test's own with an expansion alone, whose outputs read each other. */
static bool infer_ladder(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    for (int o = 0; o < 3; o++) {
        out[o] = *weft_node_spec(weft_node_input(node, 0), 0);
    }
    return true;
}

static void expand_ladder(weft_array *node, weft_array **outs)
{
    outs[0] = weft_sin(weft_node_input(node, 0));
    outs[1] = weft_multiply(outs[0], weft_node_input(node, 1));
    outs[2] = weft_add(weft_scale(outs[1], 0.5), outs[0]);
}

static const weft_op op_ladder = {.name = "test_ladder",
                                  .family = WEFT_COMPOSITE,
                                  .arity = 2,
                                  .n_outputs = 3,
                                  .infer = infer_ladder,
                                  .expand = expand_ladder};

/* The same with rules of the user's for gradient and tangent. */
static int rungs(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_sin(in[0]);
    out[1] = weft_multiply(out[0], in[1]);
    return 2;
}

static void rungs_vjp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                      int n_out, weft_array *const *cts, weft_array **grads)
{
    (void)context, (void)n_in, (void)n_out;
    weft_array *ct = weft_add(cts[0], weft_multiply(cts[1], in[1]));
    grads[0] = weft_multiply(ct, weft_cos(in[0]));
    grads[1] = weft_multiply(cts[1], outs[0]);
}

static void rungs_jvp(void *context, weft_array *const *in, int n_in, weft_array *const *outs,
                      int n_out, weft_array *const *tangents, weft_array **out)
{
    (void)context, (void)n_in, (void)n_out;
    out[0] = weft_multiply(tangents[0], weft_cos(in[0]));
    out[1] = weft_add(weft_multiply(out[0], in[1]), weft_multiply(outs[0], tangents[1]));
}

/* Reads outputs of a node outside (`context` is its first), of a node inside, and its arguments. */
static int captures(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_array *node = context, *inner[] = {in[0], weft_pick(node, 2)};
    (void)n_in, (void)room;
    weft_array *inside = weft_apply(&op_ladder, inner, 2, NULL);
    weft_array *named = weft_checkpoint_name(weft_pick(inside, 1), "rung");
    out[1] = weft_tanh(weft_multiply(named, weft_pick(node, 2)));
    out[0] = weft_scale(weft_add(weft_pick(node, 1), weft_pick(inside, 2)), 0.5);
    return 2;
}

/* A checkpoint of it that keeps nothing, the results of `rungs`, or one of them by name. */
static void captures_again(int policy, weft_array *node, weft_array *a, weft_array **out)
{
    static const char *const ops[] = {"test_ladder", NULL}, *const names[] = {"rung", NULL};
    const weft_checkpoint_options options = {
        .keep = policy == 0   ? NULL
                : policy == 1 ? weft_keep_ops
                              : weft_keep_named,
        .context = (void *)(uintptr_t)(policy == 1 ? ops : names),
    };
    weft_checkpoint_with(captures, node, &a, 1, out, 2, &options);
}

static weft_array *diagonal_added(weft_array *a)
{
    return weft_add(a, weft_scale(weft_identity(SIDE, WEFT_FLOAT64), 4));
}

/* 4 I + a / 2, whose eigenvalues lie apart, as a symmetric matrix. */
static weft_array *symmetric(weft_array *a)
{
    const double steps[] = {0, 3, 7};
    weft_array *apart = weft_from_data(steps, WEFT_FLOAT64, WEFT_DIMS(1, SIDE));
    weft_array *half = weft_scale(weft_add(a, weft_transpose(a, WEFT_DIMS(1, 0))), 0.1);
    return weft_add(half, weft_multiply(weft_identity(SIDE, WEFT_FLOAT64), apart));
}

typedef enum step_kind {
    ADD,
    MULTIPLY,
    MATMUL,
    SPLIT,
    QR,
    SVD,
    SORT,
    LADDER,
    RUNGS,
    CAPTURES,
    NORM,
    SLOGDET,
    EIGH,
    KINDS
} step_kind;

/* Appends the results of a step to out[]; how many. */
static int make_step(step_kind kind, const graph *g, weft_array *a, weft_array *b, weft_array **out)
{
    static const weft_custom_rules rules = {.vjp = rungs_vjp, .jvp = rungs_jvp};
    weft_array *node, *pair[2], *parts[SIDE];
    switch (kind) {
    case ADD:
        out[0] = weft_scale(weft_add(a, b), 0.5);
        return 1;
    case MULTIPLY:
        out[0] = weft_tanh(weft_multiply(a, b));
        return 1;
    case MATMUL:
        out[0] = weft_scale(weft_matmul(a, b), 0.3);
        return 1;
    case SPLIT:
        weft_split(a, SIDE, 0, parts);
        out[0] = weft_concatenate((weft_array *[]){parts[2], parts[0], parts[0]}, SIDE, 0);
        return 1;
    case QR:
        weft_qr(diagonal_added(a), false, &out[0], &out[1]);
        out[1] = weft_scale(out[1], 0.2);
        return 2;
    case SVD:
        weft_svd(symmetric(a), false, &parts[0], &parts[1], &parts[2]);
        out[0] = weft_scale(weft_add(b, parts[1]), 0.1);
        return 1; /* the vectors are not read */
    case SORT:
        out[0] = weft_sort(a, -1);
        out[1] = weft_take_along_axis(b, weft_argsort(a, -1), -1);
        return 2;
    case LADDER:
        node = weft_apply(&op_ladder, (weft_array *[]){a, b}, 2, NULL);
        out[0] = weft_pick(node, 2);
        out[1] = weft_pick(node, 0);
        return 2; /* output 1 is read by output 2 alone */
    case RUNGS:
        weft_custom(rungs, NULL, &rules, (weft_array *[]){a, b}, 2, out, 2);
        return 2;
    case CAPTURES:
        node = weft_apply(&op_ladder, (weft_array *[]){b, a}, 2, NULL);
        if (g->checkpoints) {
            captures_again((int)(g->seed % 3), node, a, out);
        } else {
            captures(node, &a, 1, out, 2);
        }
        return 2;
    case NORM:
        out[0] = weft_rms_norm(a, NULL, 0.1, 0);
        return 1;
    case SLOGDET:
        weft_slogdet(diagonal_added(a), &pair[0], &pair[1]);
        out[0] = weft_scale(weft_multiply(b, weft_multiply(pair[0], pair[1])), 0.2);
        return 1;
    default:
        weft_eigh(symmetric(a), false, &pair[0], &pair[1]);
        out[0] = weft_scale(weft_add(b, pair[0]), 0.1);
        return 1;
    }
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* The array's elements as an array from data; never called inside vmap. */
static weft_array *leaf_of(graph *g, weft_array *a)
{
    double values[SIZE];
    g->status = g->status == WEFT_OK ? weft_read(a, WEFT_FLOAT64, values, SIZE) : g->status;
    return weft_from_data(values, WEFT_FLOAT64, WEFT_DIMS(SIDE, SIDE));
}

static int run_graph(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    graph *g = context;
    uint64_t s = g->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    weft_array *values[MAX_VALUES + 3] = {in[0], in[1]};
    int n = n_in;
    next_random(&s);
    for (int i = 0; i < STEPS; i++) {
        const step_kind kind = (step_kind)below(&s, KINDS);
        /* Often the latest, so that graphs are deep; some are read often, some never. */
        weft_array *a = values[below(&s, 2) ? n - 1 : below(&s, n)], *b = values[below(&s, n)];
        const int made = make_step(kind, g, a, b, &values[n]);
        if (g->one_by_one) {
            CHECK_OK(weft_eval_n(&values[n], made));
        }
        for (int k = 0; k < made && g->one_by_one; k++) {
            values[n + k] = leaf_of(g, values[n + k]);
        }
        n += made;
    }
    out[0] = values[n - 1];
    for (int o = 1; o < N_OUT; o++) {
        out[o] = values[below(&s, n)];
    }
    return N_OUT;
}

static void draw(uint64_t seed, double scale, double *out, int n)
{
    uint64_t s = seed * UINT64_C(0xbf58476d1ce4e5b9) + 3;
    next_random(&s);
    for (int i = 0; i < n; i++) {
        out[i] = scale * uniform(&s);
    }
}

static void arrays_of(const double *values, weft_array **out)
{
    for (int i = 0; i < N_IN; i++) {
        out[i] = weft_from_data(values + i * SIZE, WEFT_FLOAT64, WEFT_DIMS(SIDE, SIDE));
    }
}

/* Differences of order 4 at steps of 1e-4 round to about 1e-11 of the values, and the graphs
 * multiply few large slopes. */
static const double differences = 1e-9;
static int n_kinks; /* graphs that are not smooth at x */

/* The results of a graph at x, op by op. */
static bool reference(uint64_t seed, const double *x, double *out)
{
    graph g = {.seed = seed, .one_by_one = true};
    weft_array *in[N_IN], *results[N_OUT];
    weft_scope_open();
    arrays_of(x, in);
    run_graph(&g, in, N_IN, results, N_OUT);
    bool fine = CHECK(g.status == WEFT_OK);
    for (int o = 0; o < N_OUT && fine; o++) {
        fine = CHECK_OK(weft_read(results[o], WEFT_FLOAT64, out + o * SIZE, SIZE));
    }
    weft_scope_close(NULL);
    return fine;
}

/* Derivative of the results along t, by differences of order 4 between evaluations op by op. */
static bool differences_at(uint64_t seed, double h, const double *x, const double *t, double *out)
{
    const double at[] = {-2, -1, 1, 2}, weight[] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12};
    double moved[N_IN * SIZE], values[N_OUT * SIZE];
    memset(out, 0, N_OUT * SIZE * sizeof *out);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < N_IN * SIZE; i++) {
            moved[i] = x[i] + at[k] * h * t[i];
        }
        if (!reference(seed, moved, values)) {
            return false;
        }
        for (int i = 0; i < N_OUT * SIZE; i++) {
            out[i] += weight[k] * values[i] / h;
        }
    }
    return true;
}

/* Differences at two steps; they agree unless a sort changes its order between them. */
static bool reference_tangents(uint64_t seed, const double *x, const double *t, double *out,
                               bool *smooth)
{
    double wider[N_OUT * SIZE];
    if (!differences_at(seed, 4e-4, x, t, wider) || !differences_at(seed, 1e-4, x, t, out)) {
        return false;
    }
    *smooth = true;
    for (int i = 0; i < N_OUT * SIZE; i++) {
        *smooth = *smooth && fabs(wider[i] - out[i]) <= differences * fmax(1, fabs(out[i]));
    }
    n_kinks += !*smooth;
    return true;
}

/* Evaluates the arrays together and compares them, one after another, with `expected`. */
static bool agree(weft_array **arrays, int n, int size, const double *expected, double tolerance,
                  const char *what, uint64_t seed)
{
    double got[BATCH * SIZE];
    if (!CHECK_OK(weft_eval_n(arrays, n))) {
        return CHECK_FAIL("%s of graph %d", what, (int)seed);
    }
    for (int i = 0; i < n; i++) {
        if (!CHECK_OK(weft_read(arrays[i], WEFT_FLOAT64, got, size))) {
            return false;
        }
        for (int k = 0; k < size; k++) {
            const double want = expected[i * size + k];
            if (!(fabs(got[k] - want) <= tolerance * fmax(1, fabs(want)))) {
                return CHECK_FAIL("%s of graph %d: array %d, element %d: expected %.17g, got %.17g",
                                  what, (int)seed, i, k, want, got[k]);
            }
        }
    }
    return CHECK(true);
}

/* ---- values --------------------------------------------------------------------------------- */

/* Together, alone, and one output after the other. */
static bool evaluates(uint64_t seed)
{
    double x[N_IN * SIZE], expected[N_OUT * SIZE];
    draw(seed, 1, x, N_IN * SIZE);
    bool fine = reference(seed, x, expected);
    for (int way = 0; way < 2 && fine; way++) {
        graph g = {.seed = seed};
        weft_array *in[N_IN], *out[N_OUT];
        weft_scope_open();
        arrays_of(x, in);
        run_graph(&g, in, N_IN, out, N_OUT);
        fine = way == 0 ? agree(out, N_OUT, SIZE, expected, 0, "evaluation", seed)
                        : agree(out, 1, SIZE, expected, 0, "one output", seed);
        weft_scope_close(NULL);
    }
    return fine;
}

static bool compiles(uint64_t seed)
{
    graph g = {.seed = seed};
    weft_compiled *compiled = NULL;
    bool fine = CHECK_OK(weft_compile(run_graph, &g, NULL, 0, NULL, &compiled));
    for (uint64_t run = 0; run < 2 && fine; run++) {
        double x[N_IN * SIZE], expected[N_OUT * SIZE];
        weft_array *in[N_IN], *out[N_OUT];
        draw(seed + run, 1, x, N_IN * SIZE);
        fine = reference(seed, x, expected);
        weft_scope_open();
        arrays_of(x, in);
        fine = fine && CHECK_OK(weft_compiled_call(compiled, in, N_IN, out, N_OUT)) &&
               agree(out, N_OUT, SIZE, expected, 0, "compilation", seed);
        weft_scope_close(NULL);
    }
    weft_compiled_free(compiled);
    return fine;
}

static bool is_exported(uint64_t seed)
{
    graph g = {.seed = seed};
    double x[N_IN * SIZE], expected[N_OUT * SIZE];
    const char *path = check_temporary("graph.safetensors");
    weft_imported *imported = NULL;
    weft_array *in[N_IN], *out[N_OUT];
    draw(seed, 1, x, N_IN * SIZE);
    bool fine = reference(seed, x, expected);
    weft_scope_open();
    arrays_of(x, in);
    fine = fine && CHECK_OK(weft_export(path, run_graph, &g, in, N_IN)) &&
           CHECK_OK(weft_import(path, &imported));
    if (fine) {
        weft_imported_call(imported, NULL, in, N_IN, out, N_OUT);
        fine = agree(out, N_OUT, SIZE, expected, 0, "export", seed);
    }
    weft_imported_free(imported);
    weft_scope_close(NULL);
    return fine;
}

static bool maps(uint64_t seed)
{
    graph g = {.seed = seed};
    double x[BATCH][N_IN * SIZE], expected[BATCH][N_OUT * SIZE], together[N_OUT * BATCH * SIZE];
    weft_array *in[N_IN], *out[N_OUT], *examples[BATCH][N_IN];
    bool fine = true;
    weft_scope_open();
    for (int k = 0; k < BATCH; k++) {
        draw(seed + 7 * (uint64_t)k, 1, x[k], N_IN * SIZE);
        arrays_of(x[k], examples[k]);
        fine = fine && reference(seed, x[k], expected[k]);
        for (int o = 0; o < N_OUT; o++) {
            memcpy(together + (o * BATCH + k) * SIZE, expected[k] + o * SIZE,
                   SIZE * sizeof(double));
        }
    }
    for (int i = 0; i < N_IN; i++) {
        in[i] =
            weft_stack((weft_array *[]){examples[0][i], examples[1][i], examples[2][i]}, BATCH, 0);
    }
    fine = fine && CHECK_OK(weft_vmap(run_graph, &g, in, NULL, N_IN, out, NULL, N_OUT)) &&
           agree(out, N_OUT, BATCH * SIZE, together, 1e-12, "vmap", seed);
    weft_scope_close(NULL);
    return fine;
}

static void all_graphs(bool (*holds)(uint64_t seed))
{
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        if (!holds(seed)) {
            return;
        }
    }
}

static void values_are_those_of_one_op_at_a_time(void)
{
    all_graphs(evaluates);
}

static void compiled_values_are_the_same(void)
{
    all_graphs(compiles);
}

static void exported_values_are_the_same(void)
{
    CHECK_OK(weft_op_register(&op_ladder));
    all_graphs(is_exported);
}

static void mapped_values_are_the_same(void)
{
    all_graphs(maps);
}

/* ---- derivatives ---------------------------------------------------------------------------- */

static bool pushes(uint64_t seed)
{
    graph g = {.seed = seed};
    double x[N_IN * SIZE], t[N_IN * SIZE], expected[N_OUT * SIZE];
    weft_array *in[N_IN], *tangents[N_IN], *out[N_OUT];
    draw(seed, 1, x, N_IN * SIZE);
    draw(seed + 1, 1, t, N_IN * SIZE);
    bool smooth, fine = reference_tangents(seed, x, t, expected, &smooth);
    weft_scope_open();
    arrays_of(x, in);
    arrays_of(t, tangents);
    fine = fine && CHECK_OK(weft_jvp(run_graph, &g, in, N_IN, tangents, NULL, N_OUT, out)) &&
           (!smooth || agree(out, N_OUT, SIZE, expected, 10 * differences, "jvp", seed));
    weft_scope_close(NULL);
    return fine;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Gradients of the weighted results, also with checkpoints and compiled. */
static int gradients_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    weft_status status = weft_vjp(run_graph, context, in, n_in, in + n_in, NULL, N_OUT, out);
    for (int i = 0; i < n_in && status != WEFT_OK; i++) {
        out[i] = weft_error_array("%s", weft_error_message());
    }
    return n_in;
}

static int gradients(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    return gradients_of(context, in, n_in - N_OUT, out, room);
}

static bool read_all(weft_array **arrays, int n, double *out)
{
    bool fine = CHECK_OK(weft_eval_n(arrays, n));
    for (int i = 0; i < n && fine; i++) {
        fine = CHECK_OK(weft_read(arrays[i], WEFT_FLOAT64, out + i * SIZE, SIZE));
    }
    return fine;
}

static bool pulls(uint64_t seed)
{
    graph g = {.seed = seed}, with = {.seed = seed, .checkpoints = true};
    double x[N_IN * SIZE], t[N_IN * SIZE], ct[N_OUT * SIZE], along[N_OUT * SIZE];
    double grads[N_IN * SIZE];
    weft_array *in[N_IN + N_OUT], *out[N_IN];
    weft_compiled *compiled = NULL;
    draw(seed, 1, x, N_IN * SIZE);
    draw(seed + 1, 1, t, N_IN * SIZE);
    draw(seed + 2, 1, ct, N_OUT * SIZE);
    bool smooth, fine = reference_tangents(seed, x, t, along, &smooth);
    weft_scope_open();
    arrays_of(x, in);
    arrays_of(ct, in + N_IN);
    gradients(&g, in, N_IN + N_OUT, out, N_IN);
    fine = fine && read_all(out, N_IN, grads);
    const double got = dot(grads, t, N_IN * SIZE), want = dot(ct, along, N_OUT * SIZE);
    if (fine && smooth && !(fabs(got - want) <= 100 * differences * fmax(1, fabs(want)))) {
        fine = CHECK_FAIL("vjp of graph %d: expected %.17g along the tangents, got %.17g",
                          (int)seed, want, got);
    }
    gradients(&with, in, N_IN + N_OUT, out, N_IN);
    fine = fine && agree(out, N_IN, SIZE, grads, 1e-11, "vjp of checkpoints", seed);
    fine = fine && CHECK_OK(weft_compile(gradients, &with, NULL, 0, NULL, &compiled)) &&
           CHECK_OK(weft_compiled_call(compiled, in, N_IN + N_OUT, out, N_IN)) &&
           agree(out, N_IN, SIZE, grads, 1e-11, "compiled vjp", seed);
    weft_compiled_free(compiled);
    weft_scope_close(NULL);
    return fine;
}

/* vmap of vjp against vjp example by example. */
static bool maps_gradients(uint64_t seed)
{
    graph g = {.seed = seed, .checkpoints = seed % 2 == 0};
    double x[(N_IN + N_OUT) * SIZE], grads[N_IN * SIZE], together[N_IN * BATCH * SIZE];
    weft_array *in[N_IN + N_OUT], *out[N_IN], *examples[BATCH][N_IN + N_OUT];
    bool fine = true;
    weft_scope_open();
    for (int k = 0; k < BATCH && fine; k++) {
        draw(seed + 7 * (uint64_t)k, 1, x, (N_IN + N_OUT) * SIZE);
        arrays_of(x, examples[k]);
        arrays_of(x + N_IN * SIZE, examples[k] + N_IN);
        gradients(&g, examples[k], N_IN + N_OUT, out, N_IN);
        fine = read_all(out, N_IN, grads);
        for (int i = 0; i < N_IN; i++) {
            memcpy(together + (i * BATCH + k) * SIZE, grads + i * SIZE, SIZE * sizeof(double));
        }
    }
    for (int i = 0; i < N_IN + N_OUT && fine; i++) {
        in[i] =
            weft_stack((weft_array *[]){examples[0][i], examples[1][i], examples[2][i]}, BATCH, 0);
    }
    fine = fine && CHECK_OK(weft_vmap(gradients, &g, in, NULL, N_IN + N_OUT, out, NULL, N_IN)) &&
           agree(out, N_IN, BATCH * SIZE, together, 1e-10, "vmap of vjp", seed);
    weft_scope_close(NULL);
    return fine;
}

static void tangents_follow_differences(void)
{
    n_kinks = 0;
    all_graphs(pushes);
    CHECK(n_kinks <= GRAPHS / 20);
}

static void gradients_follow_differences(void)
{
    n_kinks = 0;
    all_graphs(pulls);
    CHECK(n_kinks <= GRAPHS / 20);
}

static void mapped_gradients_are_those_of_each_example(void)
{
    all_graphs(maps_gradients);
}

CHECK_MAIN("graphs", CHECK_CASE(values_are_those_of_one_op_at_a_time),
           CHECK_CASE(compiled_values_are_the_same), CHECK_CASE(exported_values_are_the_same),
           CHECK_CASE(mapped_values_are_the_same), CHECK_CASE(tangents_follow_differences),
           CHECK_CASE(gradients_follow_differences),
           CHECK_CASE(mapped_gradients_are_those_of_each_example))
