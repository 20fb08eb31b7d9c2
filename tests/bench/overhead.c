/* tests/bench/overhead.c -- the overhead of an op beyond its arithmetic: graphs of 1000 ops on 16
 * float32 numbers, built, evaluated and freed; one line of JSON for overhead.py.
 *
 *     bench_overhead [ROUNDS]        graphs of each kind (default 300); prints best and median
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "weft/compile.h"
#include "weft/ops.h"

enum { OPS = 1000, ELEMENTS = 16 };

/* x y + y, over and over. */
static weft_array *chain(weft_array *x, weft_array *y)
{
    for (int i = 0; i < OPS / 2; i++) {
        x = weft_add(weft_multiply(x, y), y);
    }
    return x;
}

/* Each result has two readers, so that no ops are merged. */
static weft_array *lattice(weft_array *x, weft_array *y)
{
    weft_array *before = y;
    for (int i = 0; i < OPS; i++) {
        weft_array *next = i % 2 ? weft_maximum(x, before) : weft_minimum(x, before);
        before = x;
        x = next;
    }
    return x;
}

typedef weft_array *graph(weft_array *x, weft_array *y);

static int traced(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    graph *const *make = context;
    (void)n_in;
    (void)room;
    out[0] = (*make)(in[0], in[1]);
    return 1;
}

/* Prints nanoseconds an op: the best and the median round. In a lean scope intermediates are
 * released by the evaluation, as those that no Python variable holds are in MLX; else they stay
 * readable. */
static void measure(graph *make, weft_array *const *in, weft_compiled *compiled, bool lean,
                    int rounds, double *took)
{
    for (int i = 0; i < rounds; i++) {
        double began = seconds();
        weft_scope_open_at(__func__, __FILE__, __LINE__, lean);
        weft_array *out = NULL;
        if (compiled) {
            check(weft_compiled_call(compiled, in, 2, &out, 1));
        } else {
            out = make(in[0], in[1]);
        }
        check(weft_eval(out));
        weft_scope_close(NULL);
        took[i] = seconds() - began;
    }
    qsort(took, (size_t)rounds, sizeof *took, by_size);
    printf("[%.1f, %.1f]", took[0] / OPS * 1e9, took[rounds / 2] / OPS * 1e9);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 300;
    double *took = malloc((size_t)rounds * sizeof *took);
    if (!took) {
        return 1;
    }
    static graph *const makes[] = {chain, lattice};
    static const char *const names[] = {"chain", "lattice"};
    weft_scope_open();
    weft_array *in[2] = {weft_full(WEFT_DIMS(ELEMENTS), 1, WEFT_FLOAT32),
                         weft_full(WEFT_DIMS(ELEMENTS), 0.5, WEFT_FLOAT32)};
    check(weft_eval_n(in, 2));
    printf("{");
    for (int k = 0; k < 2; k++) {
        graph *make = makes[k];
        printf("%s\"%s\": ", k ? ", " : "", names[k]);
        measure(make, in, NULL, true, rounds, took);
        printf(", \"%s readable\": ", names[k]);
        measure(make, in, NULL, false, rounds, took);
        weft_compiled *compiled;
        check(weft_compile(traced, &make, NULL, 0, NULL, &compiled));
        printf(", \"%s compiled\": ", names[k]);
        measure(make, in, compiled, true, rounds, took);
        weft_compiled_free(compiled);
    }
    printf("}\n");
    weft_scope_close(NULL);
    free(took);
    return 0;
}
