/* tests/bench/compile.c -- compiled functions against the same functions uncompiled: time, peak
 * memory, the overhead of a node beyond its kernel, and the cost of a new length of a dynamic axis.
 *
 *     bench_compile [SECONDS]        how long each of the two is measured (default 2)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"

static weft_array *evaluated(weft_array *a)
{
    if (weft_eval(a) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        exit(1);
    }
    return a;
}

static weft_array *uniform(weft_dims shape, uint64_t seed)
{
    return weft_random_uniform(weft_random_key(seed), shape, -0.1, 0.1, WEFT_FLOAT32);
}

/* A function with `n_slots` arrays of state. */
enum { SLOTS = 16 };
typedef struct subject {
    const char *name;
    weft_array *slots[SLOTS];
    int n_slots;
    weft_array *in[2];
    int n_in;
    weft_function *fn;
} subject;

/* ---- a chain of small ops ------------------------------------------------------------------- */

/* 1000 reductions and scalings of 16 elements: nothing of it fuses into one. */
static int small_ops(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_array *x = in[0];
    (void)context;
    (void)n_in;
    (void)room;
    for (int i = 0; i < 500; i++) {
        x = weft_multiply(x, weft_max(x, WEFT_DIMS(-1), true));
    }
    out[0] = x;
    return 1;
}

/* ---- an MLP's step -------------------------------------------------------------------------- */

static weft_array *mlp_loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *const *data = context;
    weft_array *x = data[0];
    for (int i = 0; i < n_in; i += 2) {
        x = weft_linear(x, in[i], in[i + 1]);
        x = i + 2 < n_in ? weft_relu(x) : x;
    }
    return weft_mse(x, data[1]);
}

/* Gradient descent of three layers. */
static int mlp_step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    subject *s = context;
    weft_array *grads[SLOTS];
    (void)n_in;
    (void)room;
    out[0] = weft_value_and_grad(mlp_loss, (void *)(uintptr_t)in, s->slots, s->n_slots, grads);
    for (int i = 0; i < s->n_slots; i++) {
        (void)weft_set(&s->slots[i], /* a refusal fails the compiled call */
                       weft_subtract(s->slots[i], weft_scale(grads[i], 1e-3)));
    }
    return 1;
}

static void build_mlp(subject *s, int64_t B, int64_t E, int64_t F)
{
    const weft_dims shapes[] = {WEFT_DIMS(F, E), WEFT_DIMS(F),    WEFT_DIMS(F, F),
                                WEFT_DIMS(F),    WEFT_DIMS(E, F), WEFT_DIMS(E)};
    s->fn = mlp_step;
    s->n_slots = 6;
    for (int i = 0; i < 6; i++) {
        s->slots[i] = weft_keep(evaluated(uniform(shapes[i], (uint64_t)i)));
    }
    s->n_in = 2;
    s->in[0] = weft_keep(evaluated(uniform(WEFT_DIMS(B, E), 10)));
    s->in[1] = weft_keep(evaluated(uniform(WEFT_DIMS(B, E), 11)));
}

/* ---- a transformer block, forward and backward ---------------------------------------------- */

enum { NORM1, WQ, WK, WV, WO, NORM2, W1, W2, W3, FREQUENCIES, WEIGHTS };
enum { HEADS = 8 };

static weft_array *heads(weft_array *x)
{
    return weft_reshape(x,
                        WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), HEADS, weft_dim(x, 2) / HEADS));
}

static weft_array *block_loss(void *context, weft_array *const *w, int n_in)
{
    weft_array *x = context; /* (B, L, E) */
    (void)n_in;
    weft_array *positions = weft_arange(0, (double)weft_dim(x, 1), 1, WEFT_INT32);
    weft_array *h = weft_rms_norm(x, w[NORM1], 1e-5, 0);
    weft_array *q = heads(weft_linear(h, w[WQ], NULL)), *k = heads(weft_linear(h, w[WK], NULL));
    weft_array *v = heads(weft_linear(h, w[WV], NULL));
    q = weft_rope(q, positions, w[FREQUENCIES], false, 1);
    k = weft_rope(k, positions, w[FREQUENCIES], false, 1);
    weft_array *o = weft_attention(q, k, v, &(weft_attention_options){.causal = true});
    x = weft_add(x, weft_linear(weft_reshape(o, weft_shape(x)), w[WO], NULL));
    h = weft_rms_norm(x, w[NORM2], 1e-5, 0);
    weft_array *gate = weft_silu(weft_linear(h, w[W1], NULL));
    x = weft_add(x, weft_linear(weft_multiply(gate, weft_linear(h, w[W2], NULL)), w[W3], NULL));
    return weft_mean(weft_square(x), WEFT_ALL_AXES, false);
}

static int block_gradients(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    subject *s = context;
    weft_array *grads[WEIGHTS];
    (void)n_in;
    (void)room;
    out[0] = weft_value_and_grad(block_loss, in[0], s->slots, WEIGHTS, grads);
    weft_array *sum = NULL;
    for (int i = 0; i < FREQUENCIES; i++) { /* all gradients are needed, and none of them stays */
        weft_array *one = weft_sum(weft_square(grads[i]), WEFT_ALL_AXES, false);
        sum = sum ? weft_add(sum, one) : one;
    }
    out[1] = sum;
    return 2;
}

static void build_block(subject *s, int64_t B, int64_t L, int64_t E)
{
    const int64_t F = 3 * E;
    const weft_dims shapes[WEIGHTS] = {
        WEFT_DIMS(E), WEFT_DIMS(E, E), WEFT_DIMS(E, E), WEFT_DIMS(E, E), WEFT_DIMS(E, E),
        WEFT_DIMS(E), WEFT_DIMS(F, E), WEFT_DIMS(F, E), WEFT_DIMS(E, F), WEFT_DIMS(E / HEADS / 2)};
    s->fn = block_gradients;
    s->n_slots = WEIGHTS;
    for (int i = 0; i < WEIGHTS; i++) {
        s->slots[i] = weft_keep(evaluated(uniform(shapes[i], (uint64_t)i)));
    }
    s->n_in = 1;
    s->in[0] = weft_keep(evaluated(uniform(WEFT_DIMS(B, L, E), 10)));
}

/* ---- measuring ------------------------------------------------------------------------------ */

typedef struct measured {
    double best; /* seconds of the fastest call */
    int64_t peak;
} measured;

static measured measure(weft_compiled *c, subject *s, bool compiled, double budget)
{
    measured m = {.best = 1e9};
    weft_compile_enable(compiled);
    for (double began = seconds(), now = began; now - began < budget;) {
        weft_array *out[2] = {NULL};
        weft_scope_open();
        weft_memory_reset_peak();
        double start = seconds();
        weft_status status =
            weft_compiled_call(c, s->in, s->n_in, out, s->fn == block_gradients ? 2 : 1);
        now = seconds();
        if (status != WEFT_OK) {
            fprintf(stderr, "%s: %s\n", s->name, weft_error_message());
            exit(1);
        }
        m.best = now - start < m.best ? now - start : m.best;
        m.peak = weft_memory_peak();
        weft_scope_close(NULL);
    }
    weft_compile_enable(true);
    return m;
}

static void compare(subject *s, double budget)
{
    weft_array **slots[SLOTS];
    weft_compiled *c;
    for (int i = 0; i < s->n_slots; i++) {
        slots[i] = &s->slots[i];
    }
    if (weft_compile(s->fn, s, slots, s->n_slots, NULL, &c) != WEFT_OK) {
        exit(1);
    }
    measured plain = {.best = 1e9}, fast = {.best = 1e9};
    for (int i = 0; i < 4; i++) { /* alternately, since the load of the machine varies */
        measured a = measure(c, s, false, budget / 4), b = measure(c, s, true, budget / 4);
        plain = a.best < plain.best ? a : plain;
        fast = b.best < fast.best ? b : fast;
    }
    printf("%-34s %9.3f ms %9.3f ms  x%.2f   %8.2f MB %8.2f MB  x%.2f\n", s->name, plain.best * 1e3,
           fast.best * 1e3, plain.best / fast.best, (double)plain.peak / 1e6,
           (double)fast.peak / 1e6, (double)plain.peak / (double)fast.peak);
    weft_compiled_free(c);
    for (int i = 0; i < s->n_slots; i++) {
        weft_drop(s->slots[i]);
    }
    for (int i = 0; i < s->n_in; i++) {
        weft_drop(s->in[i]);
    }
}

/* ---- dynamic lengths ------------------------------------------------------------------------ */

enum { LENGTHS = 48 };

static double timed_call(weft_compiled *c, weft_array *x)
{
    weft_array *out[2];
    weft_scope_open();
    const double start = seconds();
    if (weft_compiled_call(c, &x, 1, out, 2) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        exit(1);
    }
    const double time = seconds() - start;
    weft_scope_close(NULL);
    return time;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *times)
{
    qsort(times, LENGTHS, sizeof *times, by_value);
    return times[LENGTHS / 2];
}

/* A block at many lengths: the first call of each, which traces and plans, and a later one. Printed
 * with the medians of the fastest of three calls as graphs. */
static void lengths(int64_t E)
{
    subject s = {.name = "block"};
    weft_array **slots[SLOTS], *x[LENGTHS];
    double first[LENGTHS], again[LENGTHS], plain[LENGTHS];
    const uint32_t dynamic[] = {3};
    weft_compiled *c;
    build_block(&s, 1, 16, E);
    for (int i = 0; i < s.n_slots; i++) {
        slots[i] = &s.slots[i];
    }
    if (weft_compile(s.fn, &s, slots, s.n_slots,
                     &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c) != WEFT_OK) {
        exit(1);
    }
    for (int i = 0; i < LENGTHS; i++) {
        x[i] = weft_keep(evaluated(uniform(WEFT_DIMS(1, 8 + i, E), 20)));
        first[i] = timed_call(c, x[i]);
        again[i] = plain[i] = 1e9;
    }
    const weft_compile_counts n = weft_compiled_counts(c);
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < LENGTHS; i++) {
            const double time = timed_call(c, x[i]);
            again[i] = time < again[i] ? time : again[i];
        }
    }
    weft_compile_enable(false);
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < LENGTHS; i++) {
            const double time = timed_call(c, x[i]);
            plain[i] = time < plain[i] ? time : plain[i];
        }
    }
    weft_compile_enable(true);
    printf("block, (1, 8 to %d, %d), both ways: as it is %.3f ms, a new length %.3f ms, the same "
           "length again %.3f ms (medians); %lld compiles, %lld traces, %lld plans, %lld more "
           "plans the second time\n",
           7 + LENGTHS, (int)E, median_of(plain) * 1e3, median_of(first) * 1e3,
           median_of(again) * 1e3, (long long)n.compiles, (long long)n.traces, (long long)n.plans,
           (long long)(weft_compiled_counts(c).plans - n.plans));
    weft_compiled_free(c);
    for (int i = 0; i < LENGTHS; i++) {
        weft_drop(x[i]);
    }
    for (int i = 0; i < s.n_slots; i++) {
        weft_drop(s.slots[i]);
    }
    weft_drop(s.in[0]);
}

int main(int argc, char **argv)
{
    double budget = argc > 1 ? atof(argv[1]) : 2;
    printf("%-34s %12s %12s  %5s   %11s %11s\n", "", "as it is", "compiled", "time", "peak",
           "compiled");
    weft_scope_open();
    subject small = {.name = "1000 ops on 16 elements", .fn = small_ops, .n_in = 1};
    small.in[0] = weft_keep(evaluated(weft_ones(WEFT_DIMS(16), WEFT_FLOAT32)));
    compare(&small, budget);
    subject tiny = {.name = "MLP step, 16 x 32, 64 wide"};
    build_mlp(&tiny, 16, 32, 64);
    compare(&tiny, budget);
    subject mlp = {.name = "MLP step, 128 x 256, 512 wide"};
    build_mlp(&mlp, 128, 256, 512);
    compare(&mlp, budget);
    subject low = {.name = "block, (1, 16, 64), both ways"};
    build_block(&low, 1, 16, 64);
    compare(&low, budget);
    subject block = {.name = "block, (2, 128, 256), both ways"};
    build_block(&block, 2, 128, 256);
    compare(&block, budget);
    lengths(64);
    weft_scope_close(NULL);
    return 0;
}
