/* tests/compile/test_dynamic.c -- dynamic axes: one compile for all lengths, one trace and plan for
 * each, and nothing for a length seen before; the cache of lengths is bounded. */
#include <stdint.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { E = 16, H = 2, D = 8, F = 32, LENGTHS = 50 };

/* ---- a transformer block -------------------------------------------------------------------- */

enum { NORM1, WQ, WK, WV, WO, NORM2, W1, W2, W3, WEIGHTS };

typedef struct block {
    weft_array *w[WEIGHTS];
    weft_array *frequencies;
    int calls;
} block;

static weft_array *uniform(weft_dims shape, int seed)
{
    return weft_random_uniform(weft_random_key((uint64_t)seed), shape, -0.3, 0.3, WEFT_FLOAT32);
}

static void build_block(block *b)
{
    const weft_dims shapes[WEIGHTS] = {WEFT_DIMS(E),    WEFT_DIMS(E, E), WEFT_DIMS(E, E),
                                       WEFT_DIMS(E, E), WEFT_DIMS(E, E), WEFT_DIMS(E),
                                       WEFT_DIMS(F, E), WEFT_DIMS(F, E), WEFT_DIMS(E, F)};
    for (int i = 0; i < WEIGHTS; i++) {
        weft_array *w = uniform(shapes[i], i);
        CHECK_OK(weft_set(&b->w[i], shapes[i].n == 1 ? weft_add_scalar(w, 1) : w));
        CHECK_OK(weft_eval(b->w[i]));
    }
    CHECK_OK(weft_set(&b->frequencies,
                      weft_exp(weft_scale(weft_arange(0, D / 2, 1, WEFT_FLOAT32), -1))));
    CHECK_OK(weft_eval(b->frequencies));
}

static void drop_block(block *b)
{
    for (int i = 0; i < WEIGHTS; i++) {
        weft_drop(b->w[i]);
    }
    weft_drop(b->frequencies);
}

static weft_array *heads(weft_array *x)
{
    return weft_reshape(x, WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), H, D));
}

static weft_array *rotated(const block *b, weft_array *x)
{
    weft_array *positions = weft_arange(0, (double)weft_dim(x, 1), 1, WEFT_INT32);
    return weft_rope(x, positions, b->frequencies, false, 1);
}

/* x (B, L, E); mean over everything of the square of the block's output */
static weft_array *block_loss(void *context, weft_array *const *in, int n_in)
{
    block *b = context;
    weft_array *x = in[0];
    weft_array *const *w = in + 1;
    (void)n_in;
    weft_array *h = weft_rms_norm(x, w[NORM1], 1e-5, 0);
    weft_array *q = rotated(b, heads(weft_linear(h, w[WQ], NULL)));
    weft_array *k = rotated(b, heads(weft_linear(h, w[WK], NULL)));
    weft_array *v = heads(weft_linear(h, w[WV], NULL));
    weft_array *o = weft_attention(q, k, v, &(weft_attention_options){.causal = true});
    x = weft_add(x, weft_linear(weft_reshape(o, weft_shape(x)), w[WO], NULL));
    h = weft_rms_norm(x, w[NORM2], 1e-5, 0);
    weft_array *m =
        weft_multiply(weft_silu(weft_linear(h, w[W1], NULL)), weft_linear(h, w[W2], NULL));
    x = weft_add(x, weft_linear(m, w[W3], NULL));
    return weft_mean(weft_square(x), WEFT_ALL_AXES, false);
}

/* The loss and the gradients of all weights. */
static int forward_backward(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    block *b = context;
    weft_array *all[1 + WEIGHTS], *grads[1 + WEIGHTS];
    (void)n_in, (void)room;
    b->calls++;
    all[0] = in[0];
    for (int i = 0; i < WEIGHTS; i++) {
        all[1 + i] = b->w[i];
    }
    out[0] = weft_value_and_grad(block_loss, b, all, 1 + WEIGHTS, grads);
    for (int i = 1; i < 1 + WEIGHTS; i++) {
        out[i] = grads[i];
    }
    return 1 + WEIGHTS;
}

static void check_equal(weft_array *a, weft_array *b)
{
    float x[F * E], y[F * E];
    int64_t n = weft_size(a);
    CHECK_OK(weft_read(a, WEFT_FLOAT32, x, n));
    CHECK_OK(weft_read(b, WEFT_FLOAT32, y, n));
    CHECK_BYTES(x, y, (size_t)n * sizeof *x);
}

static void fifty_lengths_of_a_block_need_one_trace_each(void)
{
    block b = {0};
    weft_compiled *c;
    weft_array **state[WEIGHTS];
    const uint32_t dynamic[] = {1u << 0 | 1u << 1};
    weft_scope_open();
    build_block(&b);
    for (int i = 0; i < WEIGHTS; i++) {
        state[i] = &b.w[i];
    }
    CHECK_OK(weft_compile(forward_backward, &b, state, WEIGHTS,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
    for (int l = 0; l < LENGTHS; l++) {
        weft_scope_open();
        weft_array *x = uniform(WEFT_DIMS(2 + l % 3, 7 + l, E), 100 + l);
        weft_array *got[1 + WEIGHTS], *want[1 + WEIGHTS];
        CHECK_OK(weft_compiled_call(c, &x, 1, got, 1 + WEIGHTS));
        forward_backward(&b, &x, 1, want, 1 + WEIGHTS);
        CHECK_OK(weft_eval_n(want, 1 + WEIGHTS));
        for (int i = 0; i <= WEIGHTS; i++) {
            check_equal(got[i], want[i]);
        }
        /* the queries count */
        CHECK(weft_item(weft_sum(weft_abs(got[1 + WQ]), WEFT_ALL_AXES, false)) > 0);
        weft_scope_close(NULL);
    }
    weft_compile_counts n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.compiles, 1);
    CHECK_EQ_INT(n.recompiles, 0);
    CHECK_EQ_INT(n.traces, LENGTHS);
    CHECK_EQ_INT(n.plans, LENGTHS);
    CHECK_EQ_INT(b.calls, 2 * LENGTHS); /* traced, and called directly */
    for (int l = 0; l < LENGTHS; l++) { /* seen before */
        weft_scope_open();
        weft_array *x = uniform(WEFT_DIMS(2 + l % 3, 7 + l, E), 100 + l), *got[1 + WEIGHTS];
        CHECK_OK(weft_compiled_call(c, &x, 1, got, 1 + WEIGHTS));
        weft_scope_close(NULL);
    }
    n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.compiles, 1);
    CHECK_EQ_INT(n.traces, LENGTHS);
    CHECK_EQ_INT(n.plans, LENGTHS);
    CHECK_EQ_INT(n.hits, LENGTHS);
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, "input 0: float32 (*3, *56, 16)");
    CHECK_CONTAINS(text, "and 46 more lengths of the dynamic axes (*)");
    weft_free(text);
    weft_compiled_free(c);
    drop_block(&b);
    weft_scope_close(NULL);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static int64_t pipelines(const weft_device *device)
{
    weft_counter counters[32];
    const int n = weft_device_counters((weft_device *)(uintptr_t)device, counters, 32);
    int64_t found = -1;
    for (int i = 0; i < n; i++)
        found = strcmp(counters[i].name, "pipelines") == 0 ? counters[i].value : found;
    return found;
}

/* Pipelines are made for kinds of lengths (multiples of a vector, of a tile), not for lengths:
 * after a few of each kind others need none. */
static void new_lengths_need_no_new_pipelines(void)
{
    static const uint32_t dynamic[] = {1u << 1};
    weft_device *before = weft_default_device(), *device = weft_device_get("vulkan");
    if (!device) {
        check_skip("no Vulkan device");
        return;
    }
    block b = {0};
    weft_compiled *c;
    weft_array **state[WEIGHTS];
    int64_t warm = 0;
    weft_set_default_device(device);
    weft_scope_open();
    build_block(&b);
    for (int i = 0; i < WEIGHTS; i++)
        state[i] = &b.w[i];
    CHECK_OK(weft_compile(forward_backward, &b, state, WEIGHTS,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
    for (int l = 0; l < 24; l++) {
        weft_scope_open();
        weft_array *x = uniform(WEFT_DIMS(2, 33 + (l < 8 ? l : 31 - l), E), l);
        weft_array *got[1 + WEIGHTS];
        CHECK_OK(weft_compiled_call(c, &x, 1, got, 1 + WEIGHTS));
        warm = l == 7 ? pipelines(device) : warm;
        weft_scope_close(NULL);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).traces, 24);
    CHECK(warm > 0);
    CHECK_EQ_INT(pipelines(device), warm);
    weft_compiled_free(c);
    drop_block(&b);
    weft_scope_close(NULL);
    weft_set_default_device(before);
}

/* ---- the cache of lengths ------------------------------------------------------------------- */

/* The sum, and the length in a scalar; how often it was called. */
static int sum_and_length(void *context, weft_array *const *in, int n_in, weft_array **out,
                          int room)
{
    (void)n_in;
    (void)room;
    ++*(int *)context;
    weft_array *n = weft_scalar((double)weft_dim(in[0], 0), WEFT_FLOAT32);
    out[0] = weft_add(weft_sum(in[0], WEFT_ALL_AXES, false), n);
    return 1;
}

static weft_compiled *compile_lengths(weft_function *fn, int *calls, int lengths, int cache)
{
    static const uint32_t dynamic[] = {1};
    const weft_compile_options options = {
        .dynamic = dynamic, .n_dynamic = 1, .lengths = lengths, .cache = cache};
    weft_compiled *c;
    *calls = 0;
    CHECK_OK(weft_compile(fn, calls, NULL, 0, &options, &c));
    return c;
}

static void call_at(weft_compiled *c, int64_t n, int64_t columns)
{
    weft_array *out;
    weft_scope_open();
    weft_array *x = weft_full(WEFT_DIMS(n, columns), 2, WEFT_FLOAT32);
    if (CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1)))
        CHECK_CLOSE(weft_item(out), 2 * n * columns + n, 0);
    weft_scope_close(NULL);
}

static void the_least_recently_used_length_is_evicted(void)
{
    int calls;
    weft_compiled *c = compile_lengths(sum_and_length, &calls, 2, 0);
    call_at(c, 4, 3);
    call_at(c, 5, 3);
    call_at(c, 4, 3);
    CHECK_EQ_INT(calls, 2);
    call_at(c, 6, 3); /* evicts 5 */
    CHECK_EQ_INT(weft_compiled_counts(c).evictions, 1);
    call_at(c, 4, 3);
    CHECK_EQ_INT(calls, 3);
    call_at(c, 5, 3);
    CHECK_EQ_INT(calls, 4);
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
    weft_compiled_free(c);
}

static void combinations_keep_their_own_lengths(void)
{
    int calls;
    weft_compiled *c = compile_lengths(sum_and_length, &calls, 3, 2);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6; i++)
            call_at(c, 2 + i % 3, 3 + i / 3);
    }
    CHECK_EQ_INT(calls, 6);
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 2);
    CHECK_EQ_INT(weft_compiled_counts(c).evictions, 0);
    call_at(c, 2, 9); /* a third combination evicts the one with 3 columns, with its lengths */
    CHECK_EQ_INT(weft_compiled_counts(c).evictions, 1);
    call_at(c, 2, 4);
    CHECK_EQ_INT(calls, 7);
    call_at(c, 2, 3);
    CHECK_EQ_INT(calls, 8);
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, "compiled again: input 0 dim 1: 3 -> 4");
    CHECK_CONTAINS(text, "cache 2 of 2");
    weft_free(text);
    weft_compiled_free(c);
}

/* Many lengths keep as many traces as the limit says: memory does not grow with the others. */
static void a_thousand_lengths_are_bounded(void)
{
    int calls;
    weft_compiled *c = compile_lengths(sum_and_length, &calls, 0, 0);
    for (int n = 0; n < 1000; n++)
        call_at(c, n, 2);
    const weft_compile_counts n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.compiles, 1);
    CHECK_EQ_INT(n.traces, 1000);
    CHECK_EQ_INT(n.evictions, 1000 - 64);
    weft_compiled_free(c);
}

CHECK_MAIN("dynamic", CHECK_CASE(fifty_lengths_of_a_block_need_one_trace_each),
           CHECK_CASE(new_lengths_need_no_new_pipelines),
           CHECK_CASE(the_least_recently_used_length_is_evicted),
           CHECK_CASE(combinations_keep_their_own_lengths),
           CHECK_CASE(a_thousand_lengths_are_bounded))
