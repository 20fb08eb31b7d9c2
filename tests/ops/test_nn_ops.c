/* tests/ops/test_nn_ops.c -- the neural network ops against PyTorch (golden/nn_ops.py): values and
 * gradients in every float dtype; first and second derivatives against differences. */
#include <math.h>
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/arrays.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* ---- Functions of float arrays; other inputs are in the context ----------------------------- */

static int linear(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_linear(in[0], in[1], in[2]);
    return 1;
}

static int matmul(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_matmul(in[0], in[1]);
    return 1;
}

static int rms_norm(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)room;
    out[0] = weft_rms_norm(in[0], n_in > 1 ? in[1] : NULL, 1e-2, 1);
    return 1;
}

static int layer_norm(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)room;
    out[0] = weft_layer_norm(in[0], n_in > 1 ? in[1] : NULL, n_in > 1 ? in[2] : NULL, 1e-2);
    return 1;
}

static int rope_halves(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *positions = weft_from_data((int32_t[]){4, 0, 17}, WEFT_INT32, WEFT_DIMS(3));
    weft_array *frequencies =
        weft_from_data((float[]){0.5f, 0.125f, 0.03125f}, WEFT_FLOAT32, WEFT_DIMS(3));
    out[0] = weft_rope(in[0], positions, frequencies, false, 1.5);
    return 1;
}

static int rope_pairs(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *positions =
        weft_from_data((int64_t[]){3, 4, 5, 9, 0, 1}, WEFT_INT64, WEFT_DIMS(2, 3));
    weft_array *frequencies =
        weft_from_data((float[]){0.5f, 0.125f, 0.03125f}, WEFT_FLOAT32, WEFT_DIMS(3));
    out[0] = weft_rope(in[0], positions, frequencies, true, 1);
    return 1;
}

typedef struct attention_context {
    weft_attention_options options;
    const char *mask;
    weft_dtype mask_dtype;
    weft_dims mask_shape;
} attention_context;

static int attention(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    const attention_context *c = context;
    weft_attention_options options = c->options;
    options.mask = c->mask ? arrays_make(c->mask, c->mask_dtype, c->mask_shape) : NULL;
    out[0] = weft_attention(in[0], in[1], in[2], &options);
    return 1;
}

static int cross_entropy(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *targets = arrays_make("cross_entropy.targets", WEFT_INT32, WEFT_DIMS(2, 3));
    out[0] = weft_cross_entropy_rows(in[0], targets);
    return 1;
}

static int masked_cross_entropy(void *context, weft_array *const *in, int n_in, weft_array **out,
                                int room)
{
    (void)context, (void)n_in, (void)room;
    weft_array *targets = arrays_make("masked_cross_entropy.targets", WEFT_UINT8, WEFT_DIMS(2, 3));
    weft_array *mask = arrays_make("masked_cross_entropy.mask", WEFT_FLOAT32, WEFT_DIMS(2, 3));
    out[0] = weft_masked_cross_entropy(in[0], targets, mask);
    return 1;
}

static int mse(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_mse(in[0], in[1]);
    return 1;
}

static int linear_cross_entropy(void *context, weft_array *const *in, int n_in, weft_array **out,
                                int room)
{
    (void)n_in, (void)room;
    weft_array *targets = arrays_make("linear_cross_entropy.targets", WEFT_INT64, WEFT_DIMS(5));
    out[0] = weft_linear_cross_entropy(in[0], in[1], targets, *(const double *)context);
    return 1;
}

/* ---- Against PyTorch ------------------------------------------------------------------------ */

/* Inputs are <source>.<input>; the rest is <name>.y, .ct and .d<input>. */
typedef struct golden_case {
    const char *name, *source;
    weft_function *fn;
    const void *context;
    int n;
    const char *inputs[3];
    weft_dims shapes[3];
} golden_case;

static const double no_cap = 0, capped = 2.5;
static const attention_context full = {.options = {.scale = 0.5}};
static const attention_context cache = {.options = {.causal = true}};
static const attention_context window = {.options = {.causal = true, .window = 3}};
static const attention_context capped_bias = {
    .options = {.scale = 0.8, .causal = true, .softcap = 1.5},
    .mask = "attention_capped.mask",
    .mask_dtype = WEFT_FLOAT32,
    .mask_shape = {3, {2, 4, 6}}};
static const attention_context masked = {.options = {.scale = 0.5},
                                         .mask = "attention_masked.mask",
                                         .mask_dtype = WEFT_BOOL,
                                         .mask_shape = {4, {2, 1, 3, 6}}};

#define ATTENTION(name, context, B, L, S, H, Hk, D, Dv)                                            \
    {                                                                                              \
        name, name, attention, &(context), 3, {"q", "k", "v"},                                     \
        {                                                                                          \
            {4, {B, L, H, D}}, {4, {B, S, Hk, D}},                                                 \
            {                                                                                      \
                4,                                                                                 \
                {                                                                                  \
                    B, S, Hk, Dv                                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
static const golden_case goldens[] = {
    {"linear", "linear", linear, NULL, 3, {"x", "w", "b"}, {{3, {2, 3, 4}}, {2, {5, 4}}, {1, {5}}}},
    {"rms_norm", "norm", rms_norm, NULL, 2, {"x", "w"}, {{3, {3, 2, 6}}, {1, {6}}}},
    {"rms_norm_plain", "norm", rms_norm, NULL, 1, {"x"}, {{3, {3, 2, 6}}}},
    {"layer_norm",
     "norm",
     layer_norm,
     NULL,
     3,
     {"x", "w", "b"},
     {{3, {3, 2, 6}}, {1, {6}}, {1, {6}}}},
    {"layer_norm_plain", "norm", layer_norm, NULL, 1, {"x"}, {{3, {3, 2, 6}}}},
    {"rope_halves", "rope_halves", rope_halves, NULL, 1, {"x"}, {{4, {2, 3, 2, 8}}}},
    {"rope_pairs", "rope_pairs", rope_pairs, NULL, 1, {"x"}, {{4, {2, 3, 2, 6}}}},
    ATTENTION("attention_full", full, 2, 3, 5, 2, 2, 4, 3),
    ATTENTION("attention_cache", cache, 1, 3, 7, 4, 2, 4, 4),
    ATTENTION("attention_window", window, 1, 5, 7, 4, 2, 4, 4),
    ATTENTION("attention_unseen", cache, 1, 4, 2, 2, 1, 4, 4),
    ATTENTION("attention_capped", capped_bias, 2, 4, 6, 2, 1, 4, 4),
    ATTENTION("attention_masked", masked, 2, 3, 6, 4, 2, 4, 4),
    {"cross_entropy", "cross_entropy", cross_entropy, NULL, 1, {"logits"}, {{3, {2, 3, 7}}}},
    {"masked_cross_entropy",
     "cross_entropy",
     masked_cross_entropy,
     NULL,
     1,
     {"logits"},
     {{3, {2, 3, 7}}}},
    {"mse", "mse", mse, NULL, 2, {"a", "b"}, {{2, {3, 4}}, {2, {3, 4}}}},
    {"linear_cross_entropy",
     "linear_cross_entropy",
     linear_cross_entropy,
     &no_cap,
     2,
     {"x", "w"},
     {{2, {5, 4}}, {2, {9, 4}}}},
    {"linear_cross_entropy_capped",
     "linear_cross_entropy",
     linear_cross_entropy,
     &capped,
     2,
     {"x", "w"},
     {{2, {5, 4}}, {2, {9, 4}}}},
};
#undef ATTENTION
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static void make_inputs(const golden_case *c, weft_dtype dtype, weft_array **in)
{
    char name[96];
    for (int i = 0; i < c->n; i++) {
        snprintf(name, sizeof name, "%s.%s", c->source, c->inputs[i]);
        in[i] = arrays_make(name, dtype, c->shapes[i]);
    }
}

/* The case's cotangent, of the shape of its output. */
static weft_array *make_cotangent(const golden_case *c, weft_array *const *in)
{
    char name[96];
    weft_array *y = NULL;
    c->fn((void *)c->context, in, c->n, &y, 1);
    CHECK(weft_ok(y));
    snprintf(name, sizeof name, "%s.ct", c->name);
    return arrays_make(name, weft_dtype_of(y), weft_shape(y));
}

static void check_golden(const golden_case *c, weft_dtype dtype, double tolerance)
{
    weft_array *in[3], *y = NULL, *grads[3];
    char name[96];
    weft_scope_open();
    make_inputs(c, dtype, in);
    weft_array *ct = make_cotangent(c, in);
    if (CHECK_OK(weft_vjp(c->fn, (void *)c->context, in, c->n, &ct, &y, 1, grads))) {
        snprintf(name, sizeof name, "%s.y", c->name);
        arrays_check(y, name, tolerance, weft_dtype_name(dtype));
        for (int i = 0; i < c->n; i++) {
            snprintf(name, sizeof name, "%s.d%s", c->name, c->inputs[i]);
            arrays_check(grads[i], name, tolerance, weft_dtype_name(dtype));
            CHECK_EQ_INT(weft_dtype_of(grads[i]), dtype);
        }
    }
    weft_scope_close(NULL);
}

static void all_goldens(weft_dtype dtype, double tolerance)
{
    if (!CHECK(arrays_load("nn_ops.txt"))) {
        return;
    }
    for (int i = 0; i < GOLDENS; i++) {
        check_golden(&goldens[i], dtype, tolerance);
    }
    arrays_unload();
}

static void values_and_gradients_in_float64(void)
{
    all_goldens(WEFT_FLOAT64, 1e-7);
}

static void values_and_gradients_in_float32(void)
{
    all_goldens(WEFT_FLOAT32, 1e-5);
}

static void values_and_gradients_in_float16(void)
{
    all_goldens(WEFT_FLOAT16, 1e-2);
}

static void values_and_gradients_in_bfloat16(void)
{
    all_goldens(WEFT_BFLOAT16, 6e-2);
}

/* ---- Derivatives against differences -------------------------------------------------------- */

static void gradients_are_the_slopes(void)
{
    if (!CHECK(arrays_load("nn_ops.txt"))) {
        return;
    }
    for (int i = 0; i < GOLDENS; i++) {
        const golden_case *c = &goldens[i];
        weft_array *in[3];
        weft_scope_open();
        make_inputs(c, WEFT_FLOAT64, in);
        CHECK_OK(weft_gradcheck(c->fn, (void *)c->context, in, c->n, NULL));
        weft_scope_close(NULL);
    }
    arrays_unload();
}

/* The gradient of a case's output by its inputs, as a function. */
static int gradient_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    const golden_case *c = context;
    weft_array *ct = make_cotangent(c, in);
    if (weft_vjp(c->fn, (void *)c->context, in, n_in, &ct, NULL, 1, out) != WEFT_OK) {
        for (int i = 0; i < n_in; i++) {
            out[i] = weft_error_array("%s", weft_error_message());
        }
    }
    return n_in;
}

static void second_derivatives_are_the_slopes_of_gradients(void)
{
    if (!CHECK(arrays_load("nn_ops.txt"))) {
        return;
    }
    for (int i = 0; i < GOLDENS; i++) {
        const golden_case *c = &goldens[i];
        weft_array *in[3];
        weft_scope_open();
        make_inputs(c, WEFT_FLOAT64, in);
        weft_gradcheck_options options = {.max_elements = 12};
        if (!CHECK_OK(weft_gradcheck(gradient_of, (void *)c, in, c->n, &options))) {
            CHECK_FAIL("in %s", c->name);
        }
        weft_scope_close(NULL);
    }
    arrays_unload();
}

typedef struct product_case {
    weft_dims a, b, y;
} product_case;

static const product_case products[] = {
    {{2, {3, 4}}, {2, {4, 5}}, {2, {3, 5}}},
    {{1, {4}}, {1, {4}}, {0, {0}}},
    {{1, {4}}, {3, {2, 4, 3}}, {2, {2, 3}}},
    {{3, {2, 3, 4}}, {1, {4}}, {2, {2, 3}}},
    {{4, {2, 1, 3, 4}}, {3, {5, 4, 2}}, {4, {2, 5, 3, 2}}},
    {{3, {2, 3, 4}}, {2, {4, 5}}, {3, {2, 3, 5}}},
    {{2, {3, 4}}, {3, {2, 4, 5}}, {3, {2, 3, 5}}},
    {{2, {3, 0}}, {2, {0, 2}}, {2, {3, 2}}},
};

static void matmul_takes_vectors_and_batches(void)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const product_case *c = &products[i];
        weft_scope_open();
        weft_array *in[] = {arrays_sine(c->a, 1, WEFT_FLOAT64), arrays_sine(c->b, 2, WEFT_FLOAT64)};
        weft_dims shape = weft_shape(weft_matmul(in[0], in[1]));
        CHECK_EQ_INT(shape.n, c->y.n);
        for (int k = 0; k < shape.n; k++) {
            CHECK_EQ_INT(shape.at[k], c->y.at[k]);
        }
        CHECK_OK(weft_gradcheck(matmul, NULL, in, 2, NULL));
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("nn_ops", CHECK_CASE(values_and_gradients_in_float64),
           CHECK_CASE(values_and_gradients_in_float32), CHECK_CASE(values_and_gradients_in_float16),
           CHECK_CASE(values_and_gradients_in_bfloat16), CHECK_CASE(gradients_are_the_slopes),
           CHECK_CASE(second_derivatives_are_the_slopes_of_gradients),
           CHECK_CASE(matmul_takes_vectors_and_batches))
