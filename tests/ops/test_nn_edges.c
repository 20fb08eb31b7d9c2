/* tests/ops/test_nn_edges.c -- edge cases of the neural network ops: dtypes, empty rows, rows
 * without visible keys, chunks, refused input; the optimizer step; rotary frequencies. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/arrays.h"
#include "weft/op.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* The largest difference of two arrays of one size. */
static double distance(weft_array *a, weft_array *b)
{
    weft_array *difference =
        weft_abs(weft_subtract(weft_astype(a, WEFT_FLOAT64), weft_astype(b, WEFT_FLOAT64)));
    return weft_item(weft_max(difference, WEFT_ALL_AXES, false));
}

/* ---- Products ------------------------------------------------------------------------------- */

static void integers_wrap_and_are_exact(void)
{
    weft_scope_open();
    weft_array *a = weft_from_data((int8_t[]){100, 100, 1, -3}, WEFT_INT8, WEFT_DIMS(2, 2));
    weft_array *b = weft_from_data((int8_t[]){2, 0, 1, 5}, WEFT_INT8, WEFT_DIMS(2, 2));
    int64_t got[4];
    CHECK_OK(weft_read(weft_matmul(a, b), WEFT_INT64, got, 4));
    CHECK_EQ_INT(got[0], (int8_t)(300 - 256));
    CHECK_EQ_INT(got[1], (int8_t)(500 - 512));
    CHECK_EQ_INT(got[2], -1);
    CHECK_EQ_INT(got[3], -15);
    int64_t large[] = {(1LL << 53) + 1, 1};
    weft_array *row = weft_from_data(large, WEFT_INT64, WEFT_DIMS(2));
    CHECK_EQ_INT(weft_item_int(weft_matmul(row, weft_ones_like(row))), (1LL << 53) + 2);
    weft_scope_close(NULL);
}

static void complex_products(void)
{
    weft_scope_open();
    weft_complex64 elements[] = {{1, 2}, {3, -1}};
    weft_array *a = weft_from_data(elements, WEFT_COMPLEX64, WEFT_DIMS(2));
    weft_complex64 got;
    CHECK_OK(weft_read(weft_matmul(a, a), WEFT_COMPLEX64, &got, 1));
    CHECK_CLOSE(got.re, -3 + 8, 1e-6);
    CHECK_CLOSE(got.im, 4 - 6, 1e-6);
    weft_scope_close(NULL);
}

static void a_weight_of_another_dtype_is_converted(void)
{
    weft_scope_open();
    weft_array *x = arrays_sine(WEFT_DIMS(3, 8), 0, WEFT_FLOAT32);
    weft_array *w = arrays_sine(WEFT_DIMS(4, 8), 5, WEFT_BFLOAT16);
    weft_array *y = weft_linear(x, w, NULL);
    CHECK_EQ_INT(weft_dtype_of(y), WEFT_FLOAT32);
    CHECK(distance(y, weft_linear(x, weft_astype(w, WEFT_FLOAT32), NULL)) < 1e-6);
    weft_array *norm = weft_rms_norm(x, arrays_sine(WEFT_DIMS(8), 1, WEFT_FLOAT16), 1e-6, 0);
    CHECK_EQ_INT(weft_dtype_of(norm), WEFT_FLOAT32);
    weft_scope_close(NULL);
}

/* ---- Attention ------------------------------------------------------------------------------ */

static int attention_sum(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    out[0] = weft_attention(in[0], in[1], in[2], context);
    return 1;
}

/* The mask hides every key from one query: zeros, and zeros in all gradients. Both kinds of
 * mask. */
static void a_query_without_visible_keys(void)
{
    static const weft_dtype kinds[] = {WEFT_BOOL, WEFT_FLOAT32};
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
        weft_array *in[3];
        for (int k = 0; k < 3; k++) {
            in[k] = arrays_sine(WEFT_DIMS(1, 2, 1, 4), k, WEFT_FLOAT32);
        }
        double hidden = i == 0 ? 0 : -INFINITY, shown = i == 0 ? 1 : 0;
        double mask[] = {hidden, hidden, shown, hidden};
        weft_attention_options options = {
            .mask = weft_astype(weft_from_data(mask, WEFT_FLOAT64, WEFT_DIMS(2, 2)), kinds[i])};
        weft_array *ct = weft_ones(WEFT_DIMS(1, 2, 1, 4), WEFT_FLOAT32), *o = NULL, *grads[3];
        CHECK_OK(weft_vjp(attention_sum, &options, in, 3, &ct, &o, 1, grads));
        float got[8], dq[8];
        CHECK_OK(weft_read(o, WEFT_FLOAT32, got, 8));
        CHECK_OK(weft_read(grads[0], WEFT_FLOAT32, dq, 8));
        for (int k = 0; k < 4; k++) {
            CHECK_CLOSE(got[k], 0, 0);
            CHECK_CLOSE(dq[k], 0, 0);
            CHECK_CLOSE(got[4 + k], sin(2 + k), 1e-6);
        }
        for (int k = 1; k < 3; k++) {
            CHECK(weft_item_int(weft_all(weft_isfinite(grads[k]), WEFT_ALL_AXES, false)) == 1);
        }
        weft_scope_close(NULL);
    }
}

static void attention_without_keys_is_zero(void)
{
    weft_scope_open();
    weft_array *q = arrays_sine(WEFT_DIMS(1, 2, 2, 4), 0, WEFT_FLOAT32);
    weft_array *none = weft_zeros(WEFT_DIMS(1, 0, 1, 4), WEFT_FLOAT32);
    weft_array *o = weft_attention(q, none, none, NULL);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(o), WEFT_ALL_AXES, false)), 0, 0);
    weft_scope_close(NULL);
}

/* ---- Losses --------------------------------------------------------------------------------- */

static void masked_loss_without_rows_is_zero(void)
{
    weft_scope_open();
    weft_array *logits = arrays_sine(WEFT_DIMS(2, 3), 0, WEFT_FLOAT32);
    weft_array *targets = weft_from_data((int32_t[]){0, 99}, WEFT_INT32, WEFT_DIMS(2));
    weft_array *mask = weft_zeros(WEFT_DIMS(2), WEFT_BOOL);
    CHECK_CLOSE(weft_item(weft_masked_cross_entropy(logits, targets, mask)), 0, 0);
    weft_scope_close(NULL);
}

static void a_target_beyond_the_vocabulary_fails(void)
{
    weft_scope_open();
    weft_array *x = arrays_sine(WEFT_DIMS(2, 3), 0, WEFT_FLOAT32);
    weft_array *targets = weft_from_data((int32_t[]){0, 3}, WEFT_INT32, WEFT_DIMS(2));
    CHECK(weft_eval(weft_cross_entropy_rows(x, targets)) != WEFT_OK);
    CHECK(weft_eval(weft_linear_cross_entropy(x, x, targets, 0)) != WEFT_OK);
    weft_scope_close(NULL);
}

static weft_array *sum_of_linear_losses(void *context, weft_array *const *in, int n)
{
    (void)n;
    return weft_sum(weft_linear_cross_entropy(in[0], in[1], context, 0), WEFT_ALL_AXES, false);
}

static weft_array *sum_of_losses(void *context, weft_array *const *in, int n)
{
    (void)n;
    weft_array *logits = weft_linear(in[0], in[1], NULL);
    return weft_sum(weft_cross_entropy_rows(logits, context), WEFT_ALL_AXES, false);
}

/* More logits than the expansion holds at a time: losses and gradients come in parts. */
static void losses_in_chunks_equal_the_whole(void)
{
    enum { N = 70, V = 65536 };
    int32_t targets[N];
    for (int i = 0; i < N; i++) {
        targets[i] = i % 7 == 0 ? -1 : i * 917;
    }
    weft_scope_open();
    weft_array *rows = weft_from_data(targets, WEFT_INT32, WEFT_DIMS(N));
    weft_array *in[] = {arrays_sine(WEFT_DIMS(N, 2), 0, WEFT_FLOAT32),
                        arrays_sine(WEFT_DIMS(V, 2), 3, WEFT_FLOAT32)};
    weft_array *got[2], *want[2];
    CHECK_OK(weft_eval_n(in, 2));
    weft_array *loss = weft_value_and_grad(sum_of_linear_losses, rows, in, 2, got);
    weft_array *expected = weft_value_and_grad(sum_of_losses, rows, in, 2, want);
    CHECK_OK(weft_eval_n((weft_array *[]){expected, want[0], want[1]}, 3));
    CHECK_RELATIVE(weft_item(loss), weft_item(expected), 1e-5);
    /* Sums of 65,536 float32 terms, which each instruction set adds in an order of its own. */
    CHECK_CLOSE(distance(got[0], want[0]), 0, 5e-5);
    CHECK(distance(got[1], want[1]) < 1e-5);

    const weft_op *op = weft_op_find("linear_cross_entropy");
    weft_linear_cross_entropy_params params = {.with_gradient = true};
    weft_array *inputs[] = {in[0], in[1], rows}, *outs[2];
    weft_array *node = weft_apply(op, inputs, 3, &params);
    op->expand(node, outs);
    CHECK_RELATIVE(weft_item(weft_sum(outs[0], WEFT_ALL_AXES, false)), weft_item(expected), 1e-5);
    CHECK_CLOSE(distance(outs[1], want[0]), 0, 5e-5);
    weft_scope_close(NULL);
}

static weft_array *sum_of_tied_losses(void *context, weft_array *const *in, int n)
{
    weft_array *x = weft_embedding(in[n - 1], context);
    return weft_sum(weft_linear_cross_entropy(x, in[0], context, 0), WEFT_ALL_AXES, false);
}

/* The embedding's rows are added to the head's gradient, without an array of zeros and a sum. */
static void a_tied_gradient_is_added_in_place(void)
{
    enum { N = 6, V = 5 };
    weft_scope_open();
    weft_array *ids = weft_from_data((int32_t[N]){3, 1, 3, 0, 4, 3}, WEFT_INT32, WEFT_DIMS(N));
    weft_array *w = arrays_sine(WEFT_DIMS(V, 4), 1, WEFT_FLOAT32), *tied, *apart[2];
    weft_array *in[] = {w, weft_copy(w)};
    weft_value_and_grad(sum_of_tied_losses, ids, in, 1, &tied);
    weft_value_and_grad(sum_of_tied_losses, ids, in, 2, apart);
    CHECK_STR(weft_node_op(tied)->name, "scatter_add");
    CHECK_STR(weft_node_op(weft_node_input(tied, 0))->name, "linear_cross_entropy_weight_grad");
    CHECK(distance(tied, weft_add(apart[0], apart[1])) < 1e-6);
    weft_scope_close(NULL);
}

/* Classes beyond the range of the targets' dtype cannot be targets. */
static void narrow_targets_name_the_first_classes(void)
{
    enum { N = 4, V = 600 };
    weft_array *gradients[2];
    weft_scope_open();
    weft_array *in[] = {arrays_sine(WEFT_DIMS(N, 3), 0, WEFT_FLOAT32),
                        arrays_sine(WEFT_DIMS(V, 3), 2, WEFT_FLOAT32)};
    weft_array *wide = weft_from_data((int32_t[N]){5, -1, 127, 60}, WEFT_INT32, WEFT_DIMS(N));
    for (int i = 0; i < 2; i++) {
        weft_array *targets = i == 0 ? wide : weft_astype(wide, WEFT_INT8), *both[2];
        weft_value_and_grad(sum_of_linear_losses, targets, in, 2, both);
        gradients[i] = both[1];
    }
    CHECK(distance(gradients[0], gradients[1]) == 0);
    weft_scope_close(NULL);
}

/* ---- AdamW ---------------------------------------------------------------------------------- */

static weft_array *hyper_of(double lr, double grad_scale, int step, double apply)
{
    float hyper[] = {(float)lr, (float)grad_scale, (float)(1 - pow(0.8, step)),
                     (float)(1 - pow(0.95, step)), (float)apply};
    return weft_from_data(hyper, WEFT_FLOAT32, WEFT_DIMS(5));
}

static void adamw_three_steps(void)
{
    static const char *const gradients[] = {"adamw.g0", "adamw.g1", "adamw.g2"};
    if (!CHECK(arrays_load("nn_ops.txt"))) {
        return;
    }
    weft_scope_open();
    weft_dims shape = WEFT_DIMS(7);
    weft_array *state[3] = {arrays_make("adamw.p", WEFT_FLOAT32, shape),
                            weft_zeros(shape, WEFT_FLOAT32), weft_zeros(shape, WEFT_FLOAT32)};
    for (int step = 1; step <= 3; step++) {
        weft_array *g = arrays_make(gradients[step - 1], WEFT_FLOAT32, shape);
        weft_adamw(state[0], g, state[1], state[2], hyper_of(0.05, 0.5, step, 1), 0.8, 0.95, 1e-3,
                   0.1, state);
    }
    CHECK_OK(weft_eval_n(state, 3));
    arrays_check(state[0], "adamw.new_p", 1e-6, "float32");
    arrays_check(state[1], "adamw.new_m", 1e-6, "float32");
    arrays_check(state[2], "adamw.new_v", 1e-6, "float32");
    weft_scope_close(NULL);
    arrays_unload();
}

static void adamw_that_does_not_apply_changes_nothing(void)
{
    weft_scope_open();
    weft_dims shape = WEFT_DIMS(5);
    weft_array *p = arrays_sine(shape, 0, WEFT_BFLOAT16), *m = arrays_sine(shape, 1, WEFT_FLOAT32);
    weft_array *v = weft_square(m), *out[3];
    weft_array *g = weft_full(shape, NAN, WEFT_FLOAT32);
    CHECK_OK(weft_eval_n((weft_array *[]){p, m, v}, 3));
    weft_adamw(p, g, m, v, hyper_of(0.1, 1, 1, 0), 0.8, 0.95, 1e-8, 0.1, out);
    CHECK_EQ_INT(weft_dtype_of(out[0]), WEFT_BFLOAT16);
    CHECK_CLOSE(distance(out[0], p), 0, 0);
    CHECK_CLOSE(distance(out[1], m), 0, 0);
    CHECK_CLOSE(distance(out[2], v), 0, 0);
    weft_scope_close(NULL);
}

/* ---- Rotary frequencies --------------------------------------------------------------------- */

static const double short_factor[] = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
static const double long_factor[] = {2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5};

typedef struct frequency_case {
    const char *name;
    weft_rope_options options;
} frequency_case;

static const frequency_case frequency_cases[] = {
    {"linear", {.kind = WEFT_ROPE_LINEAR, .head_dim = 16, .factor = 8}},
    {"llama3", {.kind = WEFT_ROPE_LLAMA3, .head_dim = 128, .theta = 5e5, .factor = 8}},
    {"dynamic",
     {.kind = WEFT_ROPE_DYNAMIC,
      .head_dim = 16,
      .factor = 2,
      .max_position = 2048,
      .length = 5000}},
    {"yarn",
     {.kind = WEFT_ROPE_YARN,
      .head_dim = 128,
      .theta = 1e6,
      .factor = 4,
      .original_max_position = 32768}},
    {"yarn_mscale",
     {.kind = WEFT_ROPE_YARN,
      .head_dim = 64,
      .factor = 40,
      .original_max_position = 4096,
      .mscale = 1,
      .mscale_all_dim = 0.8,
      .no_truncate = true}},
    {"longrope_short",
     {.kind = WEFT_ROPE_LONGROPE,
      .head_dim = 16,
      .short_factor = short_factor,
      .long_factor = long_factor,
      .original_max_position = 4096,
      .max_position = 131072,
      .length = 4000}},
    {"longrope_long",
     {.kind = WEFT_ROPE_LONGROPE,
      .head_dim = 16,
      .short_factor = short_factor,
      .long_factor = long_factor,
      .original_max_position = 4096,
      .max_position = 131072,
      .length = 5000}},
    {"proportional",
     {.kind = WEFT_ROPE_PROPORTIONAL, .head_dim = 512, .theta = 1e6, .partial = 0.25}},
    {"partial", {.head_dim = 40, .partial = 0.25}},
};

static void frequencies_are_those_of_transformers(void)
{
    if (!CHECK(arrays_load("nn_ops.txt"))) {
        return;
    }
    for (size_t i = 0; i < sizeof frequency_cases / sizeof *frequency_cases; i++) {
        const frequency_case *c = &frequency_cases[i];
        char name[64] = "frequencies.";
        int64_t n;
        double amplitude = 0;
        weft_scope_open();
        weft_array *f = weft_rope_frequencies(&c->options, &amplitude);
        strcat(name, c->name);
        CHECK_EQ_INT(weft_dtype_of(f), WEFT_FLOAT32);
        arrays_check(f, name, 2e-7, c->name);
        /* slow frequencies are too small for an absolute bound */
        const double *expected = arrays_find(name, &n);
        float last;
        CHECK_OK(weft_read(weft_slice_axis(f, 0, n - 1, n), WEFT_FLOAT32, &last, 1));
        CHECK_RELATIVE(last, expected[n - 1], 1e-5);
        strcpy(name, "amplitude.");
        strcat(name, c->name);
        CHECK_RELATIVE(amplitude, arrays_find(name, &n)[0], 1e-8);
        weft_scope_close(NULL);
    }
    arrays_unload();
}

/* f at index j for the options. */
static double frequency(const weft_rope_options *options, int64_t j)
{
    weft_scope_open();
    weft_array *f = weft_rope_frequencies(options, NULL);
    double value = weft_item(weft_slice_axis(f, 0, j, j + 1));
    weft_scope_close(NULL);
    return value;
}

static void llama3_of_small_heads(void)
{
    weft_rope_options plain = {.head_dim = 64, .theta = 5e5};
    weft_rope_options bent = {.kind = WEFT_ROPE_LLAMA3, .head_dim = 64, .theta = 5e5, .factor = 32};
    static const double ratios[][2] = {
        {14, 1}, {15, 1.651329}, {16, 3.292262}, {17, 9.666729}, {18, 32}};
    for (int i = 0; i < 5; i++) {
        int64_t j = (int64_t)ratios[i][0];
        CHECK_RELATIVE(frequency(&plain, j) / frequency(&bent, j), ratios[i][1], 1e-6);
    }
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static void errors_name_the_argument_and_what_was_expected(void)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(1, 8, 2560), WEFT_FLOAT32);
    weft_array *w = weft_zeros(WEFT_DIMS(4096, 2048), WEFT_FLOAT32);
    weft_array *v = weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32);
    weft_array *q = weft_zeros(WEFT_DIMS(1, 2, 4, 8), WEFT_FLOAT32);
    weft_array *k = weft_zeros(WEFT_DIMS(1, 2, 3, 8), WEFT_FLOAT32);
    weft_array *ids = weft_zeros(WEFT_DIMS(2), WEFT_INT32);
    CHECK_STR(weft_error(weft_linear(x, w, NULL)),
              "linear: inner dimensions differ: (1, 8, 2560) x (4096, 2048)");
    CHECK_STR(weft_error(weft_matmul(x, w)),
              "matmul: inner dimensions differ: (1, 8, 2560) x (1, 4096, 2048)");
    CHECK_CONTAINS(weft_error(weft_matmul(x, weft_zeros(WEFT_SCALAR, WEFT_FLOAT32))), "0-d");
    CHECK_STR(weft_error(weft_rms_norm(x, v, 1e-6, 0)),
              "rms_norm: the weight has shape (3,), expected (2560,)");
    CHECK_STR(weft_error(weft_layer_norm(x, NULL, v, 1e-6)),
              "layer_norm: the bias has shape (3,), expected (2560,)");
    CHECK_STR(weft_error(weft_attention(q, k, k, NULL)),
              "attention: 4 query heads do not divide over 3 key heads");
    CHECK_CONTAINS(weft_error(weft_attention(q, q, q, &(weft_attention_options){.window = -3})),
                   "a window of -3: expected 0 or more");
    CHECK_CONTAINS(weft_error(weft_attention(q, q, q, &(weft_attention_options){.mask = ids})),
                   "the mask is int32, expected bool or a float");
    CHECK_CONTAINS(weft_error(weft_rope(q, ids, weft_zeros(WEFT_DIMS(5), WEFT_FLOAT32), false, 1)),
                   "5 frequencies turn more than a head of 8");
    CHECK_CONTAINS(weft_error(weft_cross_entropy_rows(w, v)), "expected an integer");
    CHECK_CONTAINS(weft_error(weft_mse(v, w)), "mse: shapes differ: (3,) and (4096, 2048)");
    CHECK_CONTAINS(weft_error(weft_rope_frequencies(&(weft_rope_options){.head_dim = 5}, NULL)),
                   "even");
    weft_array *out[3];
    weft_adamw(v, v, v, weft_zeros(WEFT_DIMS(4), WEFT_FLOAT32), w, 0.9, 0.99, 1e-8, 0, out);
    CHECK_STR(weft_error(out[2]), "adamw: v has shape (4,), expected (3,)");
    weft_scope_close(NULL);
}

CHECK_MAIN("nn_edges", CHECK_CASE(integers_wrap_and_are_exact), CHECK_CASE(complex_products),
           CHECK_CASE(a_weight_of_another_dtype_is_converted),
           CHECK_CASE(a_query_without_visible_keys), CHECK_CASE(attention_without_keys_is_zero),
           CHECK_CASE(masked_loss_without_rows_is_zero),
           CHECK_CASE(a_target_beyond_the_vocabulary_fails),
           CHECK_CASE(losses_in_chunks_equal_the_whole),
           CHECK_CASE(a_tied_gradient_is_added_in_place),
           CHECK_CASE(narrow_targets_name_the_first_classes), CHECK_CASE(adamw_three_steps),
           CHECK_CASE(adamw_that_does_not_apply_changes_nothing),
           CHECK_CASE(frequencies_are_those_of_transformers), CHECK_CASE(llama3_of_small_heads),
           CHECK_CASE(errors_name_the_argument_and_what_was_expected))
