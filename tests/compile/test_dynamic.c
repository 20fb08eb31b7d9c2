/* tests/compile/test_dynamic.c -- dynamic axes: many lengths with one compile. */
#include <math.h>
#include <stdio.h>

#include "tests/check.h"
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
        weft_set(&b->w[i], shapes[i].n == 1 ? weft_add_scalar(w, 1) : w);
        CHECK_OK(weft_eval(b->w[i]));
    }
    weft_set(&b->frequencies, weft_exp(weft_scale(weft_arange(0, D / 2, 1, WEFT_FLOAT32), -1)));
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
    return weft_rope(x, positions, b->frequencies, 1, false);
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
static void forward_backward(void *context, weft_array *const *in, int n_in, weft_array **out,
                             int n_out)
{
    block *b = context;
    weft_array *all[1 + WEIGHTS], *grads[1 + WEIGHTS];
    (void)n_in;
    b->calls++;
    all[0] = in[0];
    for (int i = 0; i < WEIGHTS; i++) {
        all[1 + i] = b->w[i];
    }
    out[0] = weft_value_and_grad(block_loss, b, all, 1 + WEIGHTS, grads);
    for (int i = 1; i < n_out; i++) {
        out[i] = grads[i];
    }
}

static void check_equal(weft_array *a, weft_array *b)
{
    float x[F * E], y[F * E];
    int64_t n = weft_size(a);
    CHECK_OK(weft_read(a, WEFT_FLOAT32, x, n));
    CHECK_OK(weft_read(b, WEFT_FLOAT32, y, n));
    CHECK_BYTES(x, y, (size_t)n * sizeof *x);
}

static void fifty_lengths_of_a_block_with_one_compile(void)
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
        weft_scope_close(NULL);
    }
    weft_compile_counts n = weft_compiled_counts(c);
    CHECK_EQ_INT(n.compiles, 1);
    CHECK_EQ_INT(n.recompiles, 0);
    CHECK_EQ_INT(n.plans, LENGTHS);
    CHECK_EQ_INT(n.traces, 5); /* four corners and a check */
    CHECK_EQ_INT(b.calls, 5 + LENGTHS);
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, "input 0: float32 (n, o, 16)");
    weft_free(text);
    weft_compiled_free(c);
    drop_block(&b);
    weft_scope_close(NULL);
}

/* ---- what does not fit ---------------------------------------------------------------------- */

/* One node more for each length: no trace serves two. */
static void unrolled(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    (void)context;
    (void)n_in;
    (void)n_out;
    weft_array *sum = weft_slice_axis(in[0], 0, 0, 1);
    for (int64_t i = 1; i < weft_dim(in[0], 0); i++) {
        sum = weft_add(sum, weft_slice_axis(in[0], 0, i, i + 1));
    }
    out[0] = weft_squeeze(sum, 0);
}

/* A parameter with a square in it. */
static void outer(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    (void)context;
    (void)n_in;
    (void)n_out;
    weft_array *rows = weft_expand_dims(in[0], 1), *columns = weft_expand_dims(in[0], 0);
    weft_array *all = weft_multiply(rows, columns);
    out[0] = weft_sum(weft_reshape(all, WEFT_DIMS(weft_size(all))), WEFT_ALL_AXES, false);
}

static void check_sums(weft_function *fn, const char *reason, int compiles, bool squared)
{
    weft_compiled *c;
    const uint32_t dynamic[] = {1};
    weft_scope_open();
    CHECK_OK(weft_compile(fn, NULL, NULL, 0,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
    for (int n = 3; n < 7; n++) {
        weft_array *x = weft_arange(0, n, 1, WEFT_FLOAT32), *out;
        double sum = n * (n - 1) / 2.0;
        CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
        CHECK_CLOSE(weft_item(out), squared ? sum * sum : sum, 0);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, compiles);
    char *text = weft_compile_explain(c);
    CHECK_CONTAINS(text, reason);
    weft_free(text);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

static void what_does_not_fit_is_compiled_again(void)
{
    check_sums(unrolled, "dynamic axes: the number of nodes depends on the lengths", 4, false);
    check_sums(outer, "is no multilinear form of the lengths", 4, true);
}

static void mean_of(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    (void)context;
    (void)n_in;
    (void)n_out;
    weft_array *n = weft_scalar(1.0 / (double)weft_size(in[0]), WEFT_FLOAT32);
    out[0] = weft_multiply(weft_sum(in[0], WEFT_ALL_AXES, false), n);
    out[0] = weft_add(out[0], weft_scalar((double)weft_dim(in[0], 0), WEFT_FLOAT32));
}

static void lengths_in_scalars_follow(void)
{
    weft_compiled *c;
    const uint32_t dynamic[] = {3};
    weft_scope_open();
    CHECK_OK(weft_compile(mean_of, NULL, NULL, 0,
                          &(weft_compile_options){.dynamic = dynamic, .n_dynamic = 1}, &c));
    for (int n = 2; n < 12; n++) {
        weft_array *x = weft_full(WEFT_DIMS(n, 30 - n), 2, WEFT_FLOAT32), *out;
        CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
        CHECK_CLOSE(weft_item(out), 2 + n, 1e-6);
    }
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 1);
    /* lengths of 0 and 1, and equal ones, are combinations of their own; in one symbol the size is
     * a square, which does not fit */
    weft_array *x = weft_full(WEFT_DIMS(1, 30), 2, WEFT_FLOAT32), *out;
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(weft_item(out), 3, 1e-6);
    x = weft_full(WEFT_DIMS(9, 9), 2, WEFT_FLOAT32);
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(weft_item(out), 11, 1e-6);
    x = weft_full(WEFT_DIMS(8, 8), 2, WEFT_FLOAT32);
    CHECK_OK(weft_compiled_call(c, &x, 1, &out, 1));
    CHECK_CLOSE(weft_item(out), 10, 1e-6);
    CHECK_EQ_INT(weft_compiled_counts(c).compiles, 4);
    weft_compiled_free(c);
    weft_scope_close(NULL);
}

CHECK_MAIN("dynamic", CHECK_CASE(fifty_lengths_of_a_block_with_one_compile),
           CHECK_CASE(what_does_not_fit_is_compiled_again), CHECK_CASE(lengths_in_scalars_follow))
