/* tests/core/test_lifetime_graphs.c -- random graphs, plain and through transforms: every array can
 * be read in any order, with the value of a fresh evaluation. */
#include <stdio.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/export.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

static weft_array *total(weft_array *x)
{
    return weft_sum(x, WEFT_ALL_AXES, false);
}

/* ---- random graphs -------------------------------------------------------------------------- */

enum { SIDE = 4, ELEMENTS = SIDE * SIDE, SOURCES = 3, NODES = 40, READS = 60, KINDS = 17 };

typedef struct randoms {
    uint64_t state;
} randoms;

static int below(randoms *r, int bound)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((r->state >> 33) % (uint64_t)bound);
}

static weft_array *halves_exchanged(weft_array *x)
{
    weft_array *parts[2], *swapped[2];
    weft_split(x, 2, 0, parts);
    swapped[0] = parts[1];
    swapped[1] = parts[0];
    return weft_concatenate(swapped, 2, 0);
}

static weft_array *node_of(int kind, weft_array *a, weft_array *b, uint64_t key)
{
    switch (kind) {
    case 0:
        return weft_add(a, b);
    case 1:
        return weft_multiply(a, b);
    case 2:
        return weft_tanh(a);
    case 3:
        return weft_scale(a, 0.5);
    case 4:
        return weft_tanh(weft_matmul(a, b));
    case 5:
        return weft_transpose(a, WEFT_DIMS(1, 0));
    case 6:
        return weft_softmax(a, -1);
    case 7:
        return weft_tanh(weft_cumsum(a, 0, false, true));
    case 8:
        return weft_subtract(a, weft_mean(b, WEFT_DIMS(-1), true));
    case 9:
        return halves_exchanged(a);
    case 10:
        return weft_astype(weft_astype(a, WEFT_BFLOAT16), WEFT_FLOAT32);
    case 11:
        return weft_astype(weft_sin(weft_astype(a, WEFT_FLOAT64)), WEFT_FLOAT32);
    case 12:
        return weft_where(weft_greater(a, b), a, weft_negative(b));
    case 13:
        return weft_add(a, weft_random_uniform(weft_random_key(key), WEFT_DIMS(SIDE, SIDE), 0, 1,
                                               WEFT_FLOAT32));
    case 14:
        return weft_add(a, weft_slice_axis(b, 0, 1, 2));
    case 15:
        return weft_roll(a, WEFT_DIMS(1), WEFT_DIMS(0));
    default:
        return weft_maximum(a, weft_sum(b, WEFT_DIMS(0), false));
    }
}

/* nodes[0..SOURCES) are given; the others follow from the seed. */
static void grow(uint64_t seed, weft_array **nodes, int n)
{
    randoms r = {seed};
    for (int i = SOURCES; i < n; i++) {
        const int kind = below(&r, KINDS), near = below(&r, i < 6 ? i : 6), far = below(&r, i);
        nodes[i] = node_of(kind, nodes[i - 1 - near], nodes[far], (uint64_t)i);
    }
}

static void make_sources(weft_array **sources)
{
    for (uint64_t i = 0; i < SOURCES; i++) {
        sources[i] =
            weft_random_uniform(weft_random_key(i), WEFT_DIMS(SIDE, SIDE), -1, 1, WEFT_FLOAT32);
    }
}

/* A function of SOURCES arrays with `n` results. */
typedef struct way {
    uint64_t seed;
    int n;
    int nested; /* also inside a checkpoint */
} way;

/* Sets out[] to the last n nodes. */
static int grow_from(const way *w, weft_array *const *in, int n_in, weft_array **out, int n)
{
    weft_array *nodes[NODES];
    for (int i = 0; i < n_in; i++) {
        nodes[i] = in[i];
    }
    grow(w->seed, nodes, NODES);
    for (int i = 0; i < n; i++) {
        out[i] = nodes[NODES - n + i];
    }
    return n;
}

enum { RESULTS = 4 };

static int graph_function(void *context, weft_array *const *in, int n_in, weft_array **out,
                          int room)
{
    (void)room;
    return grow_from(context, in, n_in, out, RESULTS);
}

static int two_of_graph(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    return grow_from(context, in, n_in, out, 2);
}

static weft_array *graph_loss(void *context, weft_array *const *in, int n_in)
{
    const way *w = context;
    weft_array *out[2];
    if (w->nested) {
        weft_checkpoint(two_of_graph, context, in, n_in, out, 2);
    } else {
        two_of_graph(context, in, n_in, out, 2);
    }
    return total(weft_add(weft_square(out[0]), out[1]));
}

/* Sets out[] to the results as arrays of the innermost scope; returns their number. */
typedef int route(way *w, weft_array **out);

static int plain(way *w, weft_array **out)
{
    make_sources(out);
    grow(w->seed, out, NODES);
    return NODES;
}

static int compiled(way *w, weft_array **out)
{
    weft_array *sources[SOURCES];
    make_sources(sources);
    weft_compiled *c;
    CHECK_OK(weft_compile(graph_function, w, NULL, 0, NULL, &c));
    CHECK_OK(weft_compiled_call(c, sources, SOURCES, out, RESULTS));
    for (int i = 0; i < SOURCES; i++) {
        out[RESULTS + i] = weft_add(out[i], sources[i]);
    }
    weft_compiled_free(c);
    return RESULTS + SOURCES;
}

static int gradients(way *w, weft_array **out)
{
    weft_array *sources[SOURCES];
    make_sources(sources);
    out[0] = weft_value_and_grad(graph_loss, w, sources, SOURCES, out + 1);
    for (int i = 0; i < SOURCES; i++) {
        out[SOURCES + 1 + i] = weft_multiply(out[i + 1], sources[i]);
    }
    return 2 * SOURCES + 1;
}

static int checkpointed(way *w, weft_array **out)
{
    w->nested = 1;
    return gradients(w, out);
}

static int mapped(way *w, weft_array **out)
{
    weft_array *batches[SOURCES];
    int axes[SOURCES] = {0};
    for (uint64_t i = 0; i < SOURCES; i++) {
        batches[i] =
            weft_random_uniform(weft_random_key(i), WEFT_DIMS(2, SIDE, SIDE), -1, 1, WEFT_FLOAT32);
    }
    CHECK_OK(weft_vmap(graph_function, w, batches, axes, SOURCES, out, NULL, RESULTS));
    for (int i = 0; i < SOURCES; i++) {
        out[RESULTS + i] = weft_subtract(out[i], batches[i]);
    }
    return RESULTS + SOURCES;
}

/* Everything named in one evaluation: nothing is merged, consumed or computed twice. */
static bool fresh(route *along, uint64_t seed, float (*values)[2 * ELEMENTS], int64_t *sizes)
{
    weft_array *out[NODES];
    way w = {.seed = seed, .n = NODES};
    weft_scope_open();
    const int n = along(&w, out);
    bool ok = CHECK_OK(weft_eval_n(out, n));
    for (int i = 0; i < n && ok; i++) {
        sizes[i] = weft_size(out[i]);
        ok = CHECK_OK(weft_read(out[i], WEFT_FLOAT32, values[i], sizes[i]));
    }
    weft_scope_close(NULL);
    return ok;
}

static bool read_at_random(route *along, uint64_t seed)
{
    static float values[NODES][2 * ELEMENTS];
    int64_t sizes[NODES];
    weft_array *out[NODES];
    way w = {.seed = seed, .n = NODES};
    randoms r = {seed + 77};
    if (!fresh(along, seed, values, sizes)) {
        return false;
    }
    bool ok = true;
    weft_scope_open();
    const int n = along(&w, out);
    for (int i = 0; i < READS && ok; i++) {
        float got[2 * ELEMENTS];
        const int k = below(&r, n), way_to_read = below(&r, 4);
        weft_scope_open();
        if (way_to_read == 0) { /* together with others, and through something new */
            weft_array *some[] = {out[below(&r, n)], weft_exp(out[k]), total(out[below(&r, n)])};
            ok = CHECK_OK(weft_eval_n(some, 3));
        }
        ok = ok && CHECK_OK(weft_read(out[k], WEFT_FLOAT32, got, sizes[k])) &&
             CHECK_BYTES(got, values[k], (size_t)sizes[k] * sizeof *got);
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
    return ok;
}

static void read_many_at_random(route *along, int graphs)
{
    const int64_t before = weft_memory_active();
    for (int i = 0; i < graphs; i++) {
        if (!read_at_random(along, (uint64_t)i)) {
            CHECK_FAIL("graph %d", i);
            break;
        }
    }
    CHECK_EQ_INT(weft_memory_active(), before);
}

static void random_graphs_are_readable_in_any_order(void)
{
    read_many_at_random(plain, 150);
}

static void compiled_random_graphs_are_readable_in_any_order(void)
{
    read_many_at_random(compiled, 20);
}

static void gradients_of_random_graphs_are_readable_in_any_order(void)
{
    read_many_at_random(gradients, 50);
}

static void checkpointed_random_graphs_are_readable_in_any_order(void)
{
    read_many_at_random(checkpointed, 50);
}

static void mapped_random_graphs_are_readable_in_any_order(void)
{
    read_many_at_random(mapped, 50);
}

/* ---- what transforms leave in the caller's scope -------------------------------------------- */

static void left(const char *what, int64_t *before, int64_t results)
{
    const int64_t now = weft_scope_count();
    if (now - *before != results) {
        CHECK_FAIL("%s: %lld more arrays in the scope, expected %lld", what,
                   (long long)(now - *before), (long long)results);
    }
    *before = now;
}

static void transforms_leave_only_their_results(void)
{
    way w = {.seed = 5, .n = NODES};
    weft_array *sources[SOURCES], *batches[SOURCES], *out[2], *grads[SOURCES], *tangents[2];
    weft_compiled *c;
    weft_imported *imported;
    const int axes[SOURCES] = {0};
    weft_scope_open();
    make_sources(sources);
    for (int i = 0; i < SOURCES; i++) {
        batches[i] = weft_stack((weft_array *[]){sources[i], sources[i]}, 2, 0);
    }
    int64_t before = weft_scope_count();
    weft_value_and_grad(graph_loss, &w, sources, SOURCES, grads);
    left("value_and_grad", &before, 1 + SOURCES);
    CHECK_OK(weft_jvp(two_of_graph, &w, sources, SOURCES, sources, out, 2, tangents));
    left("jvp", &before, 4);
    CHECK_OK(weft_vjp(two_of_graph, &w, sources, SOURCES, sources, out, 2, grads));
    left("vjp", &before, 2 + SOURCES);
    CHECK_OK(weft_vmap(two_of_graph, &w, batches, axes, SOURCES, out, NULL, 2));
    left("vmap", &before, 2);
    weft_checkpoint(two_of_graph, &w, sources, SOURCES, out, 2);
    left("checkpoint", &before, 2);
    weft_custom(two_of_graph, &w, &(weft_custom_rules){0}, sources, SOURCES, out, 2);
    left("custom", &before, 2);
    CHECK_OK(weft_compile(two_of_graph, &w, NULL, 0, NULL, &c));
    CHECK_OK(weft_compiled_call(c, sources, SOURCES, out, 2));
    left("compiled call", &before, 2);
    weft_compiled_free(c);
    weft_compile_enable(false);
    CHECK_OK(weft_compile(two_of_graph, &w, NULL, 0, NULL, &c));
    CHECK_OK(weft_compiled_call(c, sources, SOURCES, out, 2));
    left("call of a function that is not compiled", &before, 2);
    weft_compiled_free(c);
    weft_compile_enable(true);
    char path[256];
    snprintf(path, sizeof path, "%s", check_temporary("graph.safetensors"));
    CHECK_OK(weft_export(path, two_of_graph, &w, sources, SOURCES));
    left("export", &before, 0);
    CHECK_OK(weft_import(path, &imported));
    weft_imported_call(imported, NULL, sources, SOURCES, out, 2);
    left("imported call", &before, 2);
    CHECK_OK(weft_eval_n(out, 2));
    weft_imported_free(imported);
    weft_scope_close(NULL);
}

CHECK_MAIN("lifetime_graphs", CHECK_CASE(random_graphs_are_readable_in_any_order),
           CHECK_CASE(compiled_random_graphs_are_readable_in_any_order),
           CHECK_CASE(gradients_of_random_graphs_are_readable_in_any_order),
           CHECK_CASE(checkpointed_random_graphs_are_readable_in_any_order),
           CHECK_CASE(mapped_random_graphs_are_readable_in_any_order),
           CHECK_CASE(transforms_leave_only_their_results))
