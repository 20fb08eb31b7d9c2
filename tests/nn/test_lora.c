/* tests/nn/test_lora.c -- adapters: which layers they wrap, what they compute, merging and
 * removing. */

#include "tests/check.h"
#include "tests/nn/adapted.h"
#include "weft/transforms.h"

static void the_default_is_q_and_v(void)
{
    weft_scope_open();
    weft_module *m = adapted_net();
    weft_nn_slots slots;
    if (CHECK(m != NULL)) {
        weft_array *before = weft_keep(weft_nn_call(m, adapted_input()));
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
        CHECK_CLOSE(adapted_difference(before, weft_nn_call(m, adapted_input())), 0, 1e-6);
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
    weft_module *m = adapted_net();
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
        CHECK(weft_ok(weft_nn_call(m, adapted_input())));
        CHECK_EQ_INT(weft_dtype_of(weft_nn_call(m, adapted_input())), WEFT_FLOAT32);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void wrong_options_change_nothing(void)
{
    weft_scope_open();
    weft_module *m = adapted_net();
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
        weft_array *base = weft_nn_call(l->base, adapted_input());
        weft_array *delta = weft_matmul(l->lora_B, l->lora_A); /* (6, 16) */
        weft_array *extra = weft_matmul(adapted_input(), weft_swapaxes(delta, 0, 1));
        CHECK_OK(weft_eval(extra));
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()),
                                       weft_add(base, weft_scale(extra, 0.5))),
                    0, 1e-5);
        CHECK(weft_item(weft_max(weft_abs(extra), WEFT_ALL_AXES, false)) > 0.01);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void merging_changes_the_weight_and_not_the_result(void)
{
    weft_scope_open();
    weft_module *m = adapted_net();
    if (CHECK(m != NULL) && CHECK_OK(weft_nn_lora_inject(m, NULL))) {
        weft_array *plain = weft_keep(weft_nn_call(m, adapted_input()));
        CHECK_OK(weft_eval(plain));
        adapted_fill(m);
        weft_array *adapted = weft_keep(weft_nn_call(m, adapted_input()));
        CHECK_OK(weft_eval(adapted));
        CHECK(adapted_difference(plain, adapted) > 0.001);
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_CLOSE(adapted_difference(adapted, weft_nn_call(m, adapted_input())), 0, 1e-5);
        CHECK_OK(weft_nn_lora_unmerge(m));
        CHECK_CLOSE(adapted_difference(adapted, weft_nn_call(m, adapted_input())), 0, 1e-5);
        weft_nn_lora_linear *q = (weft_nn_lora_linear *)weft_nn_find_module(m, "layers.0.q_proj");
        CHECK(!q->merged);
        CHECK_OK(weft_nn_lora_merge(m));
        weft_nn_lora_remove(m);
        CHECK_EQ_INT(weft_nn_lora_count(m), 0);
        CHECK_CLOSE(adapted_difference(adapted, weft_nn_call(m, adapted_input())), 0, 1e-5);
        weft_drop(plain);
        weft_drop(adapted);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void dropout_is_in_training_only(void)
{
    weft_scope_open();
    weft_module *m = adapted_net();
    if (CHECK(m != NULL) &&
        CHECK_OK(weft_nn_lora_inject(m, &(weft_nn_lora_options){.dropout = 0.5}))) {
        adapted_fill(m);
        weft_array *a = weft_nn_call(m, adapted_input()), *b = weft_nn_call(m, adapted_input());
        weft_nn_train(m, true);
        weft_array *c = weft_nn_call(m, adapted_input()), *d = weft_nn_call(m, adapted_input());
        weft_array *all[] = {a, b, c, d};
        CHECK_OK(weft_eval_n(all, 4));
        CHECK_CLOSE(adapted_difference(a, b), 0, 0);
        CHECK(adapted_difference(a, c) > 1e-4);
        CHECK(adapted_difference(c, d) > 1e-4);
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
                 error = adapted_difference(exact(got), exact(expected));
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
            adapted_fill(m);
            weft_array *x = weft_astype(adapted_input(), dtypes[i]);
            weft_array *ct = weft_astype(weft_cos(weft_scale(adapted_input(), 3)), dtypes[i]);
            check_rounding((weft_nn_lora_linear *)m, x, ct, true);
            check_rounding((weft_nn_lora_linear *)m, x, ct, false);
        }
        weft_nn_free(m);
        weft_scope_close(NULL);
    }
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

/* The first pattern with a rank sets the rank; the first with an alpha sets the alpha. */
static void patterns_give_other_ranks_and_alphas(void)
{
    const weft_nn_lora_pattern patterns[] = {
        {"1.v_proj", .rank = 2}, {"v_proj", .rank = 5}, {"v_proj", .alpha = 3}};
    weft_scope_open();
    weft_module *m = adapted_net();
    if (CHECK(m != NULL) &&
        CHECK_OK(weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.alpha = 12, .patterns = patterns, .n_patterns = 3}))) {
        expect_size(m, "layers.0.q_proj", 8, 12.0 / 8);
        expect_size(m, "layers.0.v_proj", 5, 3.0 / 5);
        expect_size(m, "layers.1.v_proj", 2, 3.0 / 2);
        CHECK(weft_ok(weft_nn_call(m, adapted_input())));
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* The end of a name, a module without an adapter, and one in a layer that is not adapted. */
static void patterns_without_a_match_are_refused(void)
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
    weft_module *m = adapted_net();
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

/* B A is the best approximation of its rank: the remainder of W has the other singular values. */
static void pissa_starts_at_the_largest_singular_values(void)
{
    weft_scope_open();
    weft_module *m = adapted_net();
    weft_array *plain = weft_keep(weft_nn_call(m, adapted_input()));
    CHECK_OK(weft_eval(plain));
    if (CHECK_OK(weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.rank = 3, .alpha = 6, .pissa = true}))) {
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()), plain), 0, 1e-5);
        const weft_nn_lora_linear *l = adapter_at(m, "layers.0.q_proj");
        weft_array *W = ((weft_nn_linear *)l->base)->weight;
        weft_array *rest = weft_subtract(W, weft_scale(weft_matmul(l->lora_B, l->lora_A), 2));
        weft_array *all = weft_svdvals(W), *left = weft_svdvals(rest);
        CHECK_CLOSE(
            adapted_difference(weft_slice_axis(all, 0, 3, 16), weft_slice_axis(left, 0, 0, 13)), 0,
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
        weft_array *adapted = weft_keep(weft_nn_call(m, adapted_input()));
        CHECK_OK(weft_eval(adapted));
        CHECK(adapted_difference(adapted, plain) > 0.01);
        CHECK_OK(weft_nn_lora_merge(m));
        CHECK_CLOSE(adapted_difference(weft_nn_call(m, adapted_input()), adapted), 0, 1e-5);
        weft_drop(adapted);
    }
    weft_drop(plain);
    weft_nn_free(m);
    m = adapted_net();
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
           CHECK_CASE(patterns_give_other_ranks_and_alphas),
           CHECK_CASE(patterns_without_a_match_are_refused),
           CHECK_CASE(pissa_starts_at_the_largest_singular_values))
