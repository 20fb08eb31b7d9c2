/* tests/nn/test_lora.c -- adapters: which layers they wrap, what they compute, merging and
 * removing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/lora.h"
#include "tests/check.h"
#include "weft/nn.h"
#include "weft/quantize.h"
#include "weft/transforms.h"

typedef struct layer {
    weft_module module;
    weft_module *q_proj, *v_proj, *up_proj;
} layer;

static weft_array *layer_forward(weft_module *self, weft_array *x)
{
    layer *m = (layer *)self;
    x = weft_add(weft_nn_call(m->q_proj, x), weft_nn_call(m->v_proj, x));
    return weft_nn_call(m->up_proj, x);
}

static const weft_module_type layer_type = {.name = "layer", .forward = layer_forward};

static weft_module *layer_new(void)
{
    layer *m = weft_nn_new(layer, &layer_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, q_proj, weft_nn_linear_new(16, 16, true));
    weft_nn_child(m, v_proj, weft_nn_linear_new(16, 16, false));
    weft_nn_child(m, up_proj, weft_nn_linear_new(16, 16, false));
    return weft_nn_finish(m);
}

typedef struct net {
    weft_module module;
    weft_module *layers, *lm_head;
} net;

static weft_array *net_forward(weft_module *self, weft_array *x)
{
    net *m = (net *)self;
    for (int i = 0; i < weft_nn_list_count(m->layers); i++)
        x = weft_nn_call(weft_nn_list_at(m->layers, i), x);
    return weft_nn_call(m->lm_head, x);
}

static const weft_module_type net_type = {.name = "net", .forward = net_forward};

static weft_module *net_new(void)
{
    net *m = weft_nn_new(net, &net_type);
    if (m == NULL)
        return NULL;
    weft_module *list = weft_nn_list_new(3);
    for (int i = 0; list && i < 3; i++)
        weft_nn_list_append(list, layer_new());
    weft_nn_child(m, layers, list ? weft_nn_finish_module(list) : NULL);
    weft_nn_child(m, lm_head, weft_nn_linear_new(16, 5, false));
    return weft_nn_finish(m);
}

static weft_array *input(void)
{
    float x[32];
    for (int i = 0; i < 32; i++)
        x[i] = sinf((float)i);
    return weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(2, 16));
}

static double difference(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* Fills every lora_B, so that the adapters do something. */
static void fill(weft_module *m)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_trainable(m, &slots)))
        return;
    for (int i = 0; i < slots.n; i++) {
        weft_array *old = *slots.slots[i];
        if (strstr(slots.paths[i], "lora_B"))
            CHECK_OK(weft_set(slots.slots[i], weft_random_normal(NULL, weft_shape(old), 0, 0.1,
                                                                 weft_dtype_of(old))));
    }
    weft_nn_slots_free(&slots);
}

static void the_default_is_q_and_v(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    weft_nn_slots slots;
    if (CHECK(m != NULL)) {
        weft_array *before = weft_keep(weft_nn_call(m, input()));
        CHECK_OK(weft_eval(before));
        CHECK_OK(weft_nn_lora_inject(m, NULL));
        CHECK_EQ_INT(weft_nn_lora_count(m), 6);
        CHECK_OK(weft_nn_trainable(m, &slots));
        CHECK_EQ_INT(slots.n, 12);
        CHECK_STR(slots.paths[0], "layers.0.q_proj.lora_A");
        CHECK_STR(slots.paths[11], "layers.2.v_proj.lora_B");
        CHECK_EQ_INT(weft_dim(*slots.slots[0], 0), 8);
        CHECK_EQ_INT(weft_dim(*slots.slots[0], 1), 16);
        CHECK_EQ_INT(weft_dim(*slots.slots[1], 0), 16);
        CHECK_EQ_INT(weft_dim(*slots.slots[1], 1), 8);
        weft_nn_slots_free(&slots);
        CHECK(weft_nn_find(m, "layers.1.q_proj.weight") != NULL);
        CHECK(weft_nn_find(m, "layers.1.q_proj.bias") != NULL);
        const weft_nn_lora_linear *q =
            (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
        CHECK(q->module.type == &weft_nn_lora_linear_type);
        CHECK_CLOSE(q->scale, 2, 0);
        CHECK_CLOSE(difference(before, weft_nn_call(m, input())), 0, 1e-6);
        CHECK_STATUS(weft_nn_lora_inject(m, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "layers.0.q_proj has an adapter already");
        weft_drop(before);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void targets_and_layers_choose(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    if (CHECK(m != NULL)) {
        const char *one[] = {"1.q_proj"}, *typing_error[] = {"q_proj", "k_proj"};
        const char *all[] = {"all-linear"};
        const int layers[] = {0, 2};
        CHECK_STATUS(weft_nn_lora_inject(
                         m, &(weft_nn_lora_options){.targets = typing_error, .n_targets = 2}),
                     WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "the target 'k_proj' fits no linear module");
        CHECK_EQ_INT(weft_nn_lora_count(m), 0);
        CHECK_EQ_INT(weft_nn_count(m, true), weft_nn_count(m, false));
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.targets = one, .n_targets = 1}));
        CHECK_EQ_INT(weft_nn_lora_count(m), 1);
        weft_nn_lora_remove(m);
        CHECK_EQ_INT(weft_nn_lora_count(m), 0);
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.targets = all, .n_targets = 1}));
        CHECK_EQ_INT(weft_nn_lora_count(m), 9);
        CHECK(weft_nn_find(m, "lm_head.lora_A") == NULL);
        weft_nn_lora_remove(m);
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.targets = all,
                                                                .n_targets = 1,
                                                                .layers = layers,
                                                                .n_layers = 2,
                                                                .rank = 4,
                                                                .alpha = 6,
                                                                .rslora = true,
                                                                .dtype = WEFT_BFLOAT16}));
        CHECK_EQ_INT(weft_nn_lora_count(m), 6);
        CHECK(weft_nn_find(m, "layers.1.q_proj.lora_A") == NULL);
        CHECK_CLOSE(((weft_nn_lora_linear *)weft_nn_find_module(m, "layers.2.up_proj"))->scale, 3,
                    0);
        CHECK_EQ_INT(weft_dtype_of(*weft_nn_find(m, "layers.0.v_proj.lora_B")), WEFT_BFLOAT16);
        CHECK(weft_ok(weft_nn_call(m, input())));
        CHECK_EQ_INT(weft_dtype_of(weft_nn_call(m, input())), WEFT_FLOAT32);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void wrong_options_change_nothing(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    if (CHECK(m != NULL)) {
        const weft_nn_lora_options wrong[] = {
            {.rank = -1}, {.dropout = 1}, {.dropout = -0.5}, {.dtype = WEFT_INT32}};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            CHECK_STATUS(weft_nn_lora_inject(m, &wrong[i]), WEFT_INVALID);
            CHECK_EQ_INT(weft_nn_lora_count(m), 0);
        }
        CHECK_EQ_INT(weft_nn_count(m, true), weft_nn_count(m, false));
        CHECK(weft_nn_lora_linear_new(weft_nn_dropout_new(0), 4, 1, 0, 0) == NULL);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* y = W x + scale B (A x), computed by hand. */
static void the_adapter_computes_its_formula(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_lora_linear_new(weft_nn_linear_new(16, 6, true), 3, 0.5, 0, 0);
    if (CHECK(m != NULL)) {
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)m;
        CHECK_OK(
            weft_set(&l->lora_B, weft_random_normal(NULL, WEFT_DIMS(6, 3), 0, 1, WEFT_FLOAT32)));
        weft_array *base = weft_nn_call(l->base, input());
        weft_array *delta = weft_matmul(l->lora_B, l->lora_A); /* (6, 16) */
        weft_array *extra = weft_matmul(input(), weft_swapaxes(delta, 0, 1));
        CHECK_OK(weft_eval(extra));
        CHECK_CLOSE(difference(weft_nn_call(m, input()), weft_add(base, weft_scale(extra, 0.5))), 0,
                    1e-5);
        CHECK(weft_item(weft_max(weft_abs(extra), WEFT_ALL_AXES, false)) > 0.01);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void merging_changes_the_weight_and_not_the_result(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    if (CHECK(m != NULL) && CHECK_OK(weft_nn_lora_inject(m, NULL))) {
        weft_array *plain = weft_keep(weft_nn_call(m, input()));
        CHECK_OK(weft_eval(plain));
        fill(m);
        weft_array *adapted = weft_keep(weft_nn_call(m, input()));
        CHECK_OK(weft_eval(adapted));
        CHECK(difference(plain, adapted) > 0.001);
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_CLOSE(difference(adapted, weft_nn_call(m, input())), 0, 1e-5);
        CHECK_OK(weft_nn_lora_unmerge(m));
        CHECK_CLOSE(difference(adapted, weft_nn_call(m, input())), 0, 1e-5);
        weft_nn_lora_linear *q = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.0.q_proj");
        CHECK(!q->merged);
        CHECK_OK(weft_nn_lora_merge(m));
        weft_nn_lora_remove(m);
        CHECK_EQ_INT(weft_nn_lora_count(m), 0);
        CHECK_CLOSE(difference(adapted, weft_nn_call(m, input())), 0, 1e-5);
        weft_drop(plain);
        weft_drop(adapted);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void dropout_is_in_training_only(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    if (CHECK(m != NULL) &&
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.dropout = 0.5}))) {
        fill(m);
        weft_array *a = weft_nn_call(m, input()), *b = weft_nn_call(m, input());
        weft_nn_train(m, true);
        weft_array *c = weft_nn_call(m, input()), *d = weft_nn_call(m, input());
        weft_array *all[] = {a, b, c, d};
        CHECK_OK(weft_eval_n(all, 4));
        CHECK_CLOSE(difference(a, b), 0, 0);
        CHECK(difference(a, c) > 1e-4);
        CHECK(difference(c, d) > 1e-4);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* ---- 16 bits -------------------------------------------------------------------------------- */

typedef struct weighted {
    weft_module *module;
    weft_array *x, *ct;
} weighted;

static weft_array *weighted_sum(void *context)
{
    const weighted *w = context;
    return weft_sum(weft_multiply(weft_nn_call(w->module, w->x), w->ct), WEFT_ALL_AXES, false);
}

static weft_array *exact(weft_array *a)
{
    return weft_astype(a, WEFT_FLOAT64);
}

static weft_array *exact_product(weft_array *a, weft_array *b)
{
    return weft_matmul(weft_swapaxes(exact(a), 0, 1), exact(b));
}

static void check_within(weft_array *got, weft_array *expected, double tolerance, const char *what)
{
    const double most = weft_item(weft_max(weft_abs(expected), WEFT_ALL_AXES, false)),
                 error = difference(exact(got), exact(expected));
    check_that(error <= tolerance * most, __FILE__, __LINE__, "%s: error %g, values to %g", what,
               error, most);
}

/* The adapter of `m` on x: A and B are rounded, and their gradients are not. In training the scale
 * multiplies x A^T, otherwise B. */
static void check_rounding(weft_nn_lora_linear *m, weft_array *x, weft_array *ct, bool training)
{
    const weft_dtype dtype = weft_dtype_of(x);
    const double of_low = training ? m->scale : 1, of_B = m->scale / of_low;
    weft_array *A = weft_astype(m->lora_A, dtype),
               *B = weft_astype(weft_scale(m->lora_B, of_B), dtype);
    weft_array *low = weft_scale(weft_linear(x, A, NULL), of_low), *grads[2];
    weft_array *low_ct = weft_scale(weft_astype(weft_matmul(exact(ct), exact(B)), dtype), of_low);
    weft_array *W = weft_swapaxes(exact(((weft_nn_linear *)m->base)->weight), 0, 1);
    weft_array *y =
        weft_add(weft_matmul(exact(x), W), weft_matmul(exact(low), weft_swapaxes(exact(B), 0, 1)));
    weft_nn_train(&m->module, training);
    check_within(weft_nn_call(&m->module, x), y, dtype == WEFT_BFLOAT16 ? 0x1p-7 : 0x1p-10, "y");
    weighted sum = {&m->module, x, ct};
    weft_array **slots[] = {&m->lora_A, &m->lora_B};
    CHECK_OK(weft_eval(weft_value_and_grad_slots(weighted_sum, &sum, slots, 2, grads)));
    CHECK_EQ_INT(weft_dtype_of(grads[0]), WEFT_FLOAT32);
    check_within(grads[0], exact_product(low_ct, x), 1e-6, "the gradient of A");
    check_within(grads[1], weft_scale(exact_product(ct, low), of_B), 1e-6, "the gradient of B");
}

static void products_in_16_bits_round_the_factors(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
        weft_nn_linear *base = (weft_nn_linear *)weft_nn_linear_new(16, 16, false);
        CHECK_OK(weft_set(&base->weight, weft_astype(base->weight, dtypes[i])));
        weft_module *m = weft_nn_lora_linear_new(&base->module, 8, 2, 0, WEFT_FLOAT32);
        if (CHECK(m != NULL)) {
            fill(m);
            weft_array *x = weft_astype(input(), dtypes[i]);
            weft_array *ct = weft_astype(weft_cos(weft_scale(input(), 3)), dtypes[i]);
            check_rounding((weft_nn_lora_linear *)m, x, ct, true);
            check_rounding((weft_nn_lora_linear *)m, x, ct, false);
        }
        weft_nn_free(m);
        weft_scope_close(NULL);
    }
}

/* ---- DoRA ----------------------------------------------------------------------------------- */

static weft_module *dora_net(double dropout)
{
    weft_module *m = net_new();
    if (CHECK(m != NULL))
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.dora = true, .dropout = dropout}));
    return m;
}

/* Each row of W + scale B A with the norm that the magnitude says. */
static void dora_scales_rows_to_their_magnitudes(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0);
    weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
    if (CHECK(l != NULL && l->lora_magnitude_vector != NULL)) {
        weft_nn_linear *base = (weft_nn_linear *)l->base;
        weft_array *plain = weft_nn_call(l->base, input());
        CHECK_CLOSE(difference(weft_nn_call(&l->module, input()), plain), 0, 1e-5);
        fill(m);
        CHECK_OK(weft_set(&l->lora_magnitude_vector,
                          weft_scale(weft_arange(1, 17, 1, WEFT_FLOAT32), 0.25)));
        weft_array *W =
            weft_add(base->weight, weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale));
        weft_array *norms = weft_sqrt(weft_sum(weft_square(W), WEFT_DIMS(-1), true)); /* (out, 1) */
        W = weft_multiply(weft_divide(W, norms), weft_expand_dims(l->lora_magnitude_vector, 1));
        weft_array *expected = weft_linear(input(), W, base->bias);
        CHECK_CLOSE(difference(weft_nn_call(&l->module, input()), expected), 0, 1e-5);
        CHECK(difference(plain, expected) > 0.1);
        /* Many rows are computed as one sum of products. */
        weft_array *rows = weft_random_normal(NULL, WEFT_DIMS(70, 16), 0, 1, WEFT_FLOAT32);
        expected = weft_linear(rows, W, base->bias);
        CHECK_CLOSE(difference(weft_nn_call(&l->module, rows), expected), 0, 1e-5);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void dora_merges_and_unmerges(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0);
    fill(m);
    weft_array *adapted = weft_keep(weft_nn_call(m, input()));
    CHECK_OK(weft_eval(adapted));
    weft_array *weight = weft_keep(*weft_nn_find(m, "layers.0.q_proj.weight"));
    CHECK_OK(weft_nn_lora_merge(m));
    CHECK_CLOSE(difference(adapted, weft_nn_call(m, input())), 0, 1e-5);
    CHECK(difference(weight, *weft_nn_find(m, "layers.0.q_proj.weight")) > 0.001);
    CHECK_OK(weft_nn_lora_unmerge(m));
    CHECK_CLOSE(difference(weight, *weft_nn_find(m, "layers.0.q_proj.weight")), 0, 1e-6);
    CHECK_CLOSE(difference(adapted, weft_nn_call(m, input())), 0, 1e-5);
    weft_drop(weight);
    weft_drop(adapted);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* What adapters keep has the bits that they compute, and only for the arrays of which they keep it.
 */
static void kept_factors_are_of_the_current_arrays(void)
{
    weft_scope_open();
    for (int dora = 0; dora < 2; dora++) {
        weft_module *m = dora ? dora_net(0) : net_new();
        if (!dora)
            CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.alpha = 13}));
        fill(m);
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
        weft_array *computed = weft_nn_call(m, input()), *B = weft_keep(l->lora_B);
        CHECK_OK(weft_eval(computed));
        CHECK_OK(weft__lora_settle(m));
        CHECK(l->ready[0] != NULL && (l->factor != NULL) == (dora == 1));
        CHECK_CLOSE(difference(weft_nn_call(m, input()), computed), 0, 0);
        CHECK_OK(weft_set(&l->lora_B, weft_scale(B, 2)));
        CHECK(difference(weft_nn_call(m, input()), computed) > 1e-3);
        CHECK_OK(weft_set(&l->lora_B, weft_copy(B)));
        CHECK_CLOSE(difference(weft_nn_call(m, input()), computed), 0, 0);
        weft__lora_unsettle(m);
        CHECK(l->ready[0] == NULL && l->factor == NULL && l->kept_of[1] == NULL);
        CHECK_CLOSE(difference(weft_nn_call(m, input()), computed), 0, 0);
        weft_drop(B);
        weft_nn_free(m);
    }
    weft_scope_close(NULL);
}

/* PEFT's formula, W x + bias + (g - 1) W d + g scale B A d, where d is x with dropout. */
static void expect_dropped(weft_nn_lora_linear *l, weft_array *x)
{
    const weft_nn_linear *base = (weft_nn_linear *)l->base;
    weft_array *change = weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale);
    weft_array *squares = weft_square(weft_add(base->weight, change)); /* (out, in) */
    weft_array *norms = weft_sqrt(weft_sum(squares, WEFT_DIMS(-1), false));
    weft_array *g = weft_divide(l->lora_magnitude_vector, norms);
    weft_random_seed(5);
    weft_array *dropped = weft_nn_call(l->lora_dropout, x);
    CHECK(difference(dropped, x) > 0.1); /* evaluates the mask, before the same is drawn again */
    weft_random_seed(5);
    weft_array *more =
        weft_multiply(weft_linear(dropped, base->weight, NULL), weft_add_scalar(g, -1));
    more = weft_add(more, weft_multiply(weft_linear(dropped, change, NULL), g));
    weft_array *expected = weft_add(weft_linear(x, base->weight, base->bias), more);
    CHECK_CLOSE(difference(weft_nn_call(&l->module, x), expected), 0, 2e-5);
}

static void dora_drops_out_the_input_that_it_scales(void)
{
    weft_scope_open();
    weft_module *m = dora_net(0.5);
    fill(m);
    weft_nn_train(m, true);
    weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.1.q_proj");
    if (CHECK(l != NULL)) {
        CHECK_OK(weft_set(&l->lora_magnitude_vector, weft_scale(l->lora_magnitude_vector, 3)));
        expect_dropped(l, input());
        expect_dropped(l, weft_random_normal(NULL, WEFT_DIMS(70, 16), 0, 1, WEFT_FLOAT32));
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

enum { IN = 1024, OUT = 4100 };

/* y for the first unit vector, with the norms in double precision. */
static void large_result(const weft_nn_lora_linear *l, double y[OUT])
{
    weft_array *W = weft_astype(*weft_nn_find(l->base, "weight"), WEFT_FLOAT32);
    W = weft_add(W, weft_scale(weft_matmul(l->lora_B, l->lora_A), l->scale));
    float *rows = malloc(sizeof(float[OUT][IN])), m[OUT];
    CHECK_OK(weft_read(W, WEFT_FLOAT32, rows, OUT * IN));
    CHECK_OK(weft_read(l->lora_magnitude_vector, WEFT_FLOAT32, m, OUT));
    for (int64_t i = 0; i < OUT; i++) {
        double squares = 0;
        for (int64_t k = 0; k < IN; k++)
            squares += (double)rows[i * IN + k] * (double)rows[i * IN + k];
        y[i] = (double)m[i] / sqrt(squares) * (double)rows[i * IN];
    }
    free(rows);
}

/* The norms of a large matrix are computed for some of its rows at a time, here for one half after
 * the other. */
static void check_large(weft_dtype dtype, const char *encoding)
{
    static const char *const target = "0";
    const weft_nn_lora_options o = {.targets = &target, .n_targets = 1, .dora = true};
    const weft_encoding *e = encoding ? weft_encoding_find(encoding) : NULL;
    weft_module *list = weft_nn_list_new(1), *linear = weft_nn_linear_new(IN, OUT, false);
    CHECK(!encoding || e);
    weft_scope_open();
    weft_random_seed(4);
    weft_array *W = weft_random_normal(NULL, WEFT_DIMS(OUT, IN), 0, 1, WEFT_FLOAT32);
    W = weft_astype(W, dtype);
    CHECK_OK(weft_set(&((weft_nn_linear *)linear)->weight, e ? weft_encode(W, e) : W));
    weft_nn_list_append(list, linear);
    if (CHECK_OK(weft_nn_lora_inject(list, &o))) {
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)weft_nn_list_at(list, 0);
        weft_array *x = weft_equal_scalar(weft_arange(0, IN, 1, WEFT_FLOAT32), 0);
        x = weft_astype(weft_reshape(x, WEFT_DIMS(1, IN)), WEFT_FLOAT32);
        double expected[OUT];
        float y[OUT];
        for (int filled = 0; filled < 2; filled++) {
            large_result(l, expected);
            CHECK_OK(weft_read(weft_nn_call(&l->module, x), WEFT_FLOAT32, y, OUT));
            for (int i = 0; i < OUT; i++)
                CHECK_CLOSE((double)y[i], expected[i], 5e-6);
            fill(list);
        }
    }
    weft_nn_free(list);
    weft_scope_close(NULL);
}

static void dora_takes_large_matrices_in_parts(void)
{
    check_large(WEFT_FLOAT32, NULL);
    check_large(WEFT_BFLOAT16, NULL);
    check_large(WEFT_FLOAT32, "affine-4-64-float32");
    check_large(WEFT_FLOAT32, "q4_k");
}

/* ---- patterns and PiSSA --------------------------------------------------------------------- */

static const weft_nn_lora_linear *adapter_at(weft_module *m, const char *path)
{
    weft_module *found = weft_nn_find_module(m, path);
    return found && found->type == &weft_nn_lora_linear_type ? (weft_nn_lora_linear *)found : NULL;
}

static void expect_size(weft_module *m, const char *path, int64_t rank, double scale)
{
    const weft_nn_lora_linear *l = adapter_at(m, path);
    if (CHECK(l != NULL)) {
        CHECK_EQ_INT(weft_dim(l->lora_A, 0), rank);
        CHECK_CLOSE(l->scale, scale, 1e-12);
    }
}

/* The first pattern that has a rank says the rank, the first that has an alpha the alpha. */
static void patterns_give_other_ranks_and_alphas(void)
{
    const weft_nn_lora_pattern patterns[] = {
        {"1.v_proj", .rank = 2}, {"v_proj", .rank = 5}, {"v_proj", .alpha = 3}};
    weft_scope_open();
    weft_module *m = net_new();
    if (CHECK(m != NULL) &&
        CHECK_OK(weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.alpha = 12, .patterns = patterns, .n_patterns = 3}))) {
        expect_size(m, "layers.0.q_proj", 8, 12.0 / 8);
        expect_size(m, "layers.0.v_proj", 5, 3.0 / 5);
        expect_size(m, "layers.1.v_proj", 2, 3.0 / 2);
        CHECK(weft_ok(weft_nn_call(m, input())));
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* The end of a name, a module without an adapter, and one in a layer that is not adapted. */
static void patterns_that_fit_nothing_are_refused(void)
{
    static const int layers[] = {0};
    static const struct {
        weft_nn_lora_pattern pattern;
        const char *says;
    } cases[] = {
        {{"proj", .rank = 7}, "lora: the rank pattern 'proj' fits no adapted module"},
        {{"k_proj", .alpha = 2}, "lora: the alpha pattern 'k_proj' fits no adapted module"},
        {{"1.v_proj", .rank = 2}, "lora: the rank pattern '1.v_proj' fits no adapted module"},
    };
    weft_module *m = net_new();
    for (size_t i = 0; m && i < sizeof cases / sizeof *cases; i++) {
        const weft_nn_lora_pattern patterns[] = {{"v_proj", .rank = 3}, cases[i].pattern};
        const weft_nn_lora_options o = {
            .patterns = patterns, .n_patterns = 2, .layers = layers, .n_layers = 1};
        CHECK_STATUS(weft_nn_lora_inject(m, &o), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), cases[i].says);
        CHECK_EQ_INT(weft_nn_lora_count(m), 0);
    }
    weft_nn_free(m);
}

/* B A is the best approximation of its rank: what is left of W has the other singular values. */
static void pissa_starts_at_the_largest_singular_values(void)
{
    weft_scope_open();
    weft_module *m = net_new();
    weft_array *plain = weft_keep(weft_nn_call(m, input()));
    CHECK_OK(weft_eval(plain));
    if (CHECK_OK(weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.rank = 3, .alpha = 6, .pissa = true}))) {
        CHECK_CLOSE(difference(weft_nn_call(m, input()), plain), 0, 1e-5);
        const weft_nn_lora_linear *l = adapter_at(m, "layers.0.q_proj");
        weft_array *W = ((weft_nn_linear *)l->base)->weight;
        weft_array *rest = weft_subtract(W, weft_scale(weft_matmul(l->lora_B, l->lora_A), 2));
        weft_array *all = weft_svdvals(W), *left = weft_svdvals(rest);
        CHECK_CLOSE(difference(weft_slice_axis(all, 0, 3, 16), weft_slice_axis(left, 0, 0, 13)), 0,
                    1e-5);
        CHECK_CLOSE(weft_item(weft_slice_axis(left, 0, 13, 14)), 0, 1e-5);
        weft_nn_slots slots;
        CHECK_OK(weft_nn_trainable(m, &slots));
        CHECK_EQ_INT(slots.n, 12);
        for (int i = 0; i < slots.n; i++) {
            weft_array *old = *slots.slots[i];
            CHECK_OK(weft_set(slots.slots[i], weft_scale(old, 1.1)));
        }
        weft_nn_slots_free(&slots);
        weft_array *adapted = weft_keep(weft_nn_call(m, input()));
        CHECK_OK(weft_eval(adapted));
        CHECK(difference(adapted, plain) > 0.01);
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_CLOSE(difference(weft_nn_call(m, input()), adapted), 0, 1e-5);
        weft_drop(adapted);
    }
    weft_drop(plain);
    weft_nn_free(m);
    m = net_new();
    const char *all[] = {"all-linear"};
    CHECK_STATUS(
        weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.rank = 17, .pissa = true, .targets = all, .n_targets = 1}),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "at most 16");
    CHECK_STATUS(weft_nn_lora_inject(m, &(weft_nn_lora_options){.pissa = true, .dora = true}),
                 WEFT_UNSUPPORTED);
    CHECK_EQ_INT(weft_nn_lora_count(m), 0);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

CHECK_MAIN("lora", CHECK_CASE(the_default_is_q_and_v), CHECK_CASE(targets_and_layers_choose),
           CHECK_CASE(wrong_options_change_nothing), CHECK_CASE(the_adapter_computes_its_formula),
           CHECK_CASE(merging_changes_the_weight_and_not_the_result),
           CHECK_CASE(dropout_is_in_training_only),
           CHECK_CASE(products_in_16_bits_round_the_factors),
           CHECK_CASE(dora_scales_rows_to_their_magnitudes), CHECK_CASE(dora_merges_and_unmerges),
           CHECK_CASE(kept_factors_are_of_the_current_arrays),
           CHECK_CASE(dora_drops_out_the_input_that_it_scales),
           CHECK_CASE(dora_takes_large_matrices_in_parts),
           CHECK_CASE(patterns_give_other_ranks_and_alphas),
           CHECK_CASE(patterns_that_fit_nothing_are_refused),
           CHECK_CASE(pissa_starts_at_the_largest_singular_values))
